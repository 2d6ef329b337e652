"""Columns as the tables of numbers that the native encoders take, and their output as a column. Pure functions.

For each value ``first`` has a number, a float's bits, or where bytes lie; ``second`` how many bytes there are, or 0.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.ma  # loaded before any thread asks for it: see native_kernel
import pyarrow as pa
import pyarrow.compute as pc

from mainstem.errors import SchemaError

_OUTPUT_BYTES_MAX: Final = (1 << 31) - 1


def column_of(arrow_batch: pa.RecordBatch, field: pa.Field) -> pa.Array:
    """The column of a field in its type; nulls where the batch has none. Raises SchemaError."""
    if field.name not in arrow_batch.schema.names:
        return pa.nulls(arrow_batch.num_rows, field.type)
    column = arrow_batch.column(field.name)
    if column.type == field.type:
        return column
    try:
        return column.cast(field.type)
    except pa.ArrowException as error:
        raise SchemaError(f"column {field.name!r} does not fit its type in the topic's schema: {error}") from error


def note_bytes(column: pa.Array, first: Any, second: Any, at: int) -> Any:
    """The bytes of a column of text or bytes, ``at`` others come before them; notes where each value is."""
    _, offsets, buffer = column.buffers()
    places = np.frombuffer(offsets, np.int32)[column.offset : column.offset + len(column) + 1].astype(np.int64)
    if not len(column) or buffer is None:
        return np.empty(0, np.uint8)
    start, end = int(places[0]), int(places[-1])
    first[:] = places[:-1] - start + at
    second[:] = np.diff(places)
    return np.frombuffer(buffer, np.uint8)[start:end]


def numbers_of(column: pa.Array) -> Any:
    """The numbers of a column; 0 for a null."""
    if pa.types.is_date32(column.type):
        column = column.view(pa.int32())
    elif pa.types.is_timestamp(column.type):
        column = column.view(pa.int64())
    elif pa.types.is_boolean(column.type):
        column = column.cast(pa.int8())
    if column.null_count:
        column = pc.fill_null(column, 0)
    numbers = column.to_numpy(zero_copy_only=False)
    if pa.types.is_float32(column.type):
        return np.ascontiguousarray(numbers).view(np.uint32).astype(np.int64)
    return np.ascontiguousarray(numbers).view(np.int64) if pa.types.is_float64(column.type) else numbers


def together(parts: list[Any]) -> Any:
    """The bytes of columns, one after the other, read-only."""
    source = np.concatenate(parts) if parts else np.empty(0, np.uint8)
    source.flags.writeable = False
    return source


def room_for(ends: Any, encoding: str) -> Any:
    """An array for the output that ends there. Raises SchemaError where it is too much for a column."""
    size = int(ends[-1]) if len(ends) else 0
    if size > _OUTPUT_BYTES_MAX:
        raise SchemaError(f"{len(ends)} rows have {size} bytes as {encoding}, more than one batch of rows may have")
    return np.empty(size, np.uint8)


def binary_column(ends: Any, output: Any) -> pa.Array:
    """The output as a column of bytes; ``ends`` has where each value ends in it."""
    offsets = np.zeros(len(ends) + 1, np.int32)
    offsets[1:] = ends
    return pa.Array.from_buffers(pa.binary(), len(ends), [None, pa.py_buffer(offsets), pa.py_buffer(output)])
