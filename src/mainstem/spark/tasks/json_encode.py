"""Typed columns into records: ``schema.arrow_json``, as a pipeline's tasks need it. Pure; safe from any thread.

NaN and the infinities, which JSON does not have, become null: they stop no query.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import pyarrow as pa

from mainstem.errors import SchemaError
from mainstem.schema.arrow_json import joint_key, json_objects, lone_key


def encode_values(arrow_batch: pa.RecordBatch, *, json_columns: Collection[str] = ()) -> pa.Array:
    """One JSON object for each row (binary); the columns named in ``json_columns`` are JSON text already."""
    return json_objects(arrow_batch, json_columns=json_columns).cast(pa.binary())


def encode_keys(arrow_batch: pa.RecordBatch, key_columns: Sequence[str]) -> pa.Array | None:
    """The key of each row (binary): the text of one column, a JSON array of several; None without key columns.

    Raises SchemaError when a key column is missing, or null in some row.
    """
    if not key_columns:
        return None
    columns = [_key_column(arrow_batch, name) for name in key_columns]
    return (lone_key(columns[0]) if len(columns) == 1 else joint_key(columns)).cast(pa.binary())


def _key_column(arrow_batch: pa.RecordBatch, name: str) -> pa.Array:
    if name not in arrow_batch.schema.names:
        raise SchemaError(f"there is no column {name!r} for the key; there are {', '.join(arrow_batch.schema.names)}")
    column = arrow_batch.column(name)
    if column.null_count:
        raise SchemaError(
            f"key column {name!r} is null in {column.null_count} of {len(column)} rows: such a row has no identity; "
            "filter it out"
        )
    return column
