"""Rows of an Arrow batch as JSON text, column by column and not row by row.

For a table of text, numbers and booleans this is about ten times as fast as ``json.dumps`` of each row: every column
becomes an array of JSON texts, and one join glues them together. The text is what ``mainstem.schema.encoding`` gives
for the same row, the key's bytes exactly so. Times become RFC 3339 in UTC, dates ISO, bytes base64, decimals text; NaN
is null, an infinity is refused. Pure functions; safe from any thread.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mainstem.client.values import json_text, key_bytes, time_text
from mainstem.errors import SchemaError

_QUOTE, _BACKSLASH, _FIRST_PRINTABLE = 0x22, 0x5C, 0x20


def json_objects(arrow_batch: pa.RecordBatch) -> pa.StringArray:
    """One JSON object for each row, of all columns. Raises SchemaError for an infinity."""
    parts: list[Any] = []
    for index, name in enumerate(arrow_batch.schema.names):
        label = json.dumps(name, ensure_ascii=False)
        column = as_plain(arrow_batch.column(index))
        opening = f"{'{' if index == 0 else ','}{label}:"
        if pa.types.is_string(column.type) and column.null_count == 0 and not _needs_escapes(column):
            parts += [opening + '"', column, '"']  # the quotes ride on the labels: one join fewer
        else:
            parts += [opening, _texts(column)]
    return pc.binary_join_element_wise(*parts, "}", "", null_handling="replace", null_replacement="null")


def keys(arrow_batch: pa.RecordBatch, names: Sequence[str], *, first_row: int) -> pa.StringArray | None:
    """The key of each row; None when there are no key columns.

    Raises SchemaError when a key column is missing or null; rows are counted from ``first_row``.
    """
    if not names:
        return None
    if len(names) == 1:
        return key_texts(arrow_batch, names[0], first_row)
    columns = [_key_column(arrow_batch, name, first_row) for name in names]
    parts: list[Any] = ["["]
    for index, column in enumerate(columns):
        parts += [_texts(column)] if index == 0 else [",", _texts(column)]
    return pc.binary_join_element_wise(*parts, "]", "")


def as_plain(column: pa.Array) -> pa.Array:
    """Strings, numbers and booleans as they are; any other type as the text that stands for it in JSON."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        return as_plain(column.dictionary_decode())
    if pa.types.is_large_string(kind) or pa.types.is_date(kind) or pa.types.is_decimal(kind):
        return pc.cast(column, pa.string())
    if pa.types.is_timestamp(kind):
        return _times(column)
    return column


def _key_column(arrow_batch: pa.RecordBatch, name: str, first_row: int) -> pa.Array:
    index = arrow_batch.schema.get_field_index(name)
    if index < 0:
        raise SchemaError(f"there is no key column {name!r}; there are {', '.join(arrow_batch.schema.names)}")
    column = as_plain(arrow_batch.column(index))
    if column.null_count:
        row = first_row + pc.index(pc.is_null(column), True).as_py()
        raise SchemaError(f"row {row}: key column {name!r} is null; a record without its key has no identity")
    return column


def key_texts(arrow_batch: pa.RecordBatch, name: str, first_row: int) -> pa.Array:
    """The text of a column that alone is the key: as it is, without quotes. Raises SchemaError for a null."""
    column = _key_column(arrow_batch, name, first_row)
    if pa.types.is_string(column.type):
        return column
    if pa.types.is_integer(column.type) or pa.types.is_boolean(column.type):
        return pc.cast(column, pa.string())
    return pa.array([key_bytes(value).decode() for value in column.to_pylist()], pa.string())  # type: ignore[union-attr]


def _texts(column: pa.Array) -> pa.Array:
    """The JSON text of each value; null where the value is null."""
    kind = column.type
    if pa.types.is_string(kind):
        return _quoted(column)
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind):
        return pc.cast(column, pa.string())
    if pa.types.is_null(kind):
        return pa.nulls(len(column), pa.string())
    to_text = repr if pa.types.is_float64(kind) else json_text
    if pa.types.is_floating(kind):
        column = _finite(column)
    return pa.array([None if value is None else to_text(value) for value in column.to_pylist()], pa.string())


def _quoted(column: pa.Array) -> pa.Array:
    if _needs_escapes(column):
        encoded = [None if value is None else json.dumps(value, ensure_ascii=False) for value in column.to_pylist()]
        return pa.array(encoded, pa.string())
    return pc.binary_join_element_wise('"', column, '"', "")


def _needs_escapes(column: pa.Array) -> bool:
    """Whether any text holds a byte that JSON wants escaped; the whole buffer is looked at in one go."""
    data = column.buffers()[2]
    if data is None:
        return False
    content = np.frombuffer(data, np.uint8)
    return bool(((content < _FIRST_PRINTABLE) | (content == _QUOTE) | (content == _BACKSLASH)).any())


def _finite(column: pa.Array) -> pa.Array:
    """NaN as null. Raises SchemaError for an infinity, which has no JSON form."""
    if pc.any(pc.is_inf(column)).as_py():
        raise SchemaError("a column holds an infinity, which has no JSON form")
    return pc.if_else(pc.is_nan(column), None, column)


def _times(column: pa.Array) -> pa.Array:
    """Timestamps as RFC 3339 in UTC; one without a zone is taken as UTC."""
    in_microseconds = pc.cast(column, pa.timestamp("us", column.type.tz), safe=False)
    return pa.array([None if time is None else time_text(time) for time in in_microseconds.to_pylist()], pa.string())
