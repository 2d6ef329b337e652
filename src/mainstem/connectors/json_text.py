"""Rows of a file as keys and values: ``schema.arrow_json``, and which row of the file is wrong. Pure functions."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from mainstem.errors import SchemaError
from mainstem.schema import arrow_json


class NullValueError(SchemaError):
    """A value that must be there is null."""


def json_objects(arrow_batch: pa.RecordBatch) -> pa.StringArray:
    """One JSON object for each row, of all columns. Raises SchemaError for NaN and infinities: no value is lost."""
    return arrow_json.json_objects(arrow_batch, finite_only=True)


def keys(arrow_batch: pa.RecordBatch, names: Sequence[str], *, first_row: int) -> pa.Array | None:
    """The key of each row; None when there are no key columns.

    Raises SchemaError when a key column is missing or null; rows are counted from ``first_row``.
    """
    if not names:
        return None
    columns = [key_column(arrow_batch, name, first_row) for name in names]
    return arrow_json.lone_key(columns[0]) if len(columns) == 1 else arrow_json.joint_key(columns)


def key_texts(arrow_batch: pa.RecordBatch, name: str, first_row: int) -> pa.Array:
    """The text of a column, as it is in a key. Raises SchemaError for a null."""
    return arrow_json.lone_key(arrow_json.plain_column(source_column(arrow_batch, name, first_row)))


def key_column(arrow_batch: pa.RecordBatch, name: str, first_row: int) -> pa.Array:
    """A column of the key. Raises SchemaError when it is missing or null."""
    why = "a record without its key has no identity"
    return _without_null(arrow_batch, name, f"key column {name!r}", why, first_row)


def source_column(arrow_batch: pa.RecordBatch, name: str, first_row: int) -> pa.Array:
    """A column that another is derived from. Raises SchemaError when it is missing or null."""
    return _without_null(arrow_batch, name, f"column {name!r}", "a derived column needs its value", first_row)


def _without_null(arrow_batch: pa.RecordBatch, name: str, what: str, why: str, first_row: int) -> pa.Array:
    index = arrow_batch.schema.get_field_index(name)
    if index < 0:
        names = ", ".join(arrow_batch.schema.names)
        raise SchemaError(f"there is no column {name!r}, or there are several; there are {names}")
    column = arrow_batch.column(index)
    if column.null_count:
        row = first_row + pc.index(pc.is_null(column), True).as_py()
        raise NullValueError(f"row {row}: {what} is null; {why}")
    return column
