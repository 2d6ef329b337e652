"""The partition of each key of an Arrow column, as ``partitioner.partition_for`` decides it, natively.

Pure; safe from any thread; the GIL is released in the native part.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mainstem.errors import InputError
from mainstem.record.arrow_source import fields_of
from mainstem.record.native import native_encode as native


def partitions_for(keys: Any, partition_count: int) -> Any:
    """An int32 array with the partition of each key, -1 where the key is null: spread those as you like.

    Raises InputError for a column that is neither bytes nor text.
    """
    if partition_count < 1:
        raise InputError(f"a topic has at least one partition, not {partition_count}")
    fields = fields_of(keys, "keys")
    partitions = np.empty(len(fields.sizes), np.int32)
    native.partition_keys(fields.addresses, fields.sizes, partition_count, partitions)
    return partitions
