"""How a topic's rows become keys and values, unless the topic says otherwise.

* **Key**: one key column → the UTF-8 text of its value (text as it is, ``17``, ``1.5``, ``true``, ``2013-01-01``,
  ``2013-01-01T10:00:00Z``); several → a compact JSON array of them.
* **Value**: a JSON object of all columns in UTF-8; a null value is a tombstone.

The same row gives the same key bytes from every writer: compaction and key-value views depend on it.
Pure functions; safe from any thread.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mainstem.client.values import json_text, key_bytes
from mainstem.errors import SchemaError


def encode_key(row: Mapping[str, Any], key_columns: Sequence[str]) -> bytes | None:
    """The key of ``row``; None when there are no key columns.

    Raises SchemaError when a key column is missing or null: such a row has no identity.
    """
    if not key_columns:
        return None
    for name in key_columns:
        if row.get(name) is None:
            raise SchemaError(f"key column {name!r} is {'null' if name in row else 'missing'} in the record")
    values = [row[name] for name in key_columns]
    return key_bytes(values[0] if len(values) == 1 else values)


def encode_value(row: Mapping[str, Any] | None) -> bytes | None:
    """The value of ``row``; None gives a tombstone. Raises SchemaError when a value has no JSON form."""
    return None if row is None else json_text(row).encode()
