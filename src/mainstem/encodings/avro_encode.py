"""Arrow columns into Avro values, natively where the columns are flat. Pure; safe from any thread.

The columns are the fields of the schema, by name; a column that is not there is null in all rows. Invariant: what is
written here, ``schema.avro_decode`` reads back as the same columns.
"""

from __future__ import annotations

import datetime
import decimal
import struct
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mainstem.client.values import key_bytes
from mainstem.errors import SchemaError
from mainstem.record.native import native_avro as kinds
from mainstem.record.native import native_avro_encode as native
from mainstem.record.writer import varint
from mainstem.schema.avro import AvroType

_KINDS: Final = {
    "boolean": kinds.BOOLEAN,
    "int": kinds.LONG,
    "long": kinds.LONG,
    "float": kinds.FLOAT,
    "double": kinds.DOUBLE,
    "bytes": kinds.BYTES_KIND,
    "string": kinds.BYTES_KIND,
}
_EPOCH: Final = datetime.datetime(1970, 1, 1)
_DAY_ZERO: Final = _EPOCH.date()
_DIGITS: Final = decimal.Context(prec=76)
_OUTPUT_BYTES_MAX: Final = (1 << 31) - 1


def encode(arrow_batch: pa.RecordBatch, record: AvroType, schema: pa.Schema, frame: bytes) -> pa.Array:
    """A value for each row (binary), behind ``frame``; ``schema`` has the type of each field. Raises SchemaError."""
    columns = [column_of(arrow_batch, field) for field in schema]
    if any(each.type.without_null()[0].is_nested for each in record.fields):
        rows = zip(*(_plain(column) for column in columns), strict=True)
        return pa.array([frame + _record(row, record) for row in rows], pa.binary())
    return _natively(columns, record, frame, arrow_batch.num_rows)


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


def _natively(columns: list[pa.Array], record: AvroType, frame: bytes, count: int) -> pa.Array:
    program = np.empty((len(columns), 2), np.int64)
    first = np.zeros((len(columns), count), np.int64)
    second = np.zeros((len(columns), count), np.int64)
    data: list[Any] = []
    at = 0
    for row, (column, field) in enumerate(zip(columns, record.fields, strict=True)):
        kind, null_branch = field.type.without_null()
        program[row] = _KINDS[kind.kind], null_branch
        if program[row, 0] == kinds.BYTES_KIND:
            part = _bytes(column, kind, first[row], second[row], at)
            data.append(part)
            at += len(part)
        else:
            first[row] = _numbers(column, kind)
        if column.null_count:
            second[row][np.asarray(column.is_null())] = -1
    source = np.concatenate(data) if data else np.empty(0, np.uint8)
    source.flags.writeable = False
    ends = np.empty(count, np.int64)
    native.measure_values(len(frame), program, first, second, ends)
    size = int(ends[-1]) if count else 0
    if size > _OUTPUT_BYTES_MAX:
        raise SchemaError(f"{count} rows have {size} bytes as Avro, more than one batch of rows may have")
    output = np.empty(size, np.uint8)
    native.write_values(np.frombuffer(frame, np.uint8), source, program, first, second, count, output)
    offsets = np.zeros(count + 1, np.int32)
    offsets[1:] = ends
    return pa.Array.from_buffers(pa.binary(), count, [None, pa.py_buffer(offsets), pa.py_buffer(output)])


def _bytes(column: pa.Array, kind: AvroType, first: Any, second: Any, at: int) -> Any:
    """The bytes of a column, ``at`` others come before them; notes where each value is."""
    if kind.logical == "decimal":
        texts = [None if value is None else _decimal(value, kind.scale) for value in column.to_pylist()]
        column = pa.array(texts, pa.binary())
    _, offsets, buffer = column.buffers()
    places = np.frombuffer(offsets, np.int32)[column.offset : column.offset + len(column) + 1].astype(np.int64)
    if not len(column) or buffer is None:
        return np.empty(0, np.uint8)
    start, end = int(places[0]), int(places[-1])
    first[:] = places[:-1] - start + at
    second[:] = np.diff(places)
    return np.frombuffer(buffer, np.uint8)[start:end]


def _numbers(column: pa.Array, kind: AvroType) -> Any:
    if pa.types.is_date32(column.type):
        column = column.view(pa.int32())
    elif pa.types.is_timestamp(column.type):
        column = column.view(pa.int64())
    elif pa.types.is_boolean(column.type):
        column = column.cast(pa.int8())
    if column.null_count:
        column = pc.fill_null(column, 0)
    numbers = column.to_numpy(zero_copy_only=False)
    if kind.kind == "float":
        return np.ascontiguousarray(numbers, np.float32).view(np.uint32).astype(np.int64)
    return np.ascontiguousarray(numbers, np.float64).view(np.int64) if kind.kind == "double" else numbers


# ---- one value at a time: what is nested


def _plain(column: pa.Array) -> list[Any]:
    found: list[Any] = column.to_pylist()
    return found


def _record(values: Any, record: AvroType) -> bytes:
    return b"".join(_value(value, field.type) for value, field in zip(values, record.fields, strict=True))


def _value(value: Any, kind: AvroType) -> bytes:
    inner, null_branch = kind.without_null()
    if null_branch >= 0:
        if value is None:
            return varint(null_branch)
        return varint(1 - null_branch) + _value(value, inner)
    if kind.kind == "record":
        return _record([value[field.name] for field in kind.fields], kind)
    if kind.kind == "array":
        return _items([_value(each, kind.branches[0]) for each in value])
    if kind.kind == "map":
        texts = [((key_bytes(name) or b""), each) for name, each in value]
        return _items([varint(len(name)) + name + _value(each, kind.branches[0]) for name, each in texts])
    return _BY_KIND[kind.kind](value, kind)


def _items(items: list[bytes]) -> bytes:
    return varint(len(items)) + b"".join(items) + b"\x00" if items else b"\x00"


def _decimal(value: Any, scale: int) -> bytes:
    unscaled = int(value.scaleb(scale, _DIGITS))
    data: bytes = unscaled.to_bytes(unscaled.bit_length() // 8 + 1, "big", signed=True)
    return data


def _number(value: Any, kind: AvroType) -> bytes:
    if isinstance(value, datetime.datetime):
        plain = value.astimezone(datetime.UTC).replace(tzinfo=None) if value.tzinfo else value
        return varint((plain - _EPOCH) // datetime.timedelta(microseconds=1))
    return varint((value - _DAY_ZERO).days if isinstance(value, datetime.date) else int(value))


def _text(value: Any, kind: AvroType) -> bytes:
    data = _decimal(value, kind.scale) if kind.logical == "decimal" else value
    data = data.encode() if isinstance(data, str) else data
    return varint(len(data)) + bytes(data)


_BY_KIND: Final[dict[str, Callable[[Any, AvroType], bytes]]] = {
    "boolean": lambda value, _: b"\x01" if value else b"\x00",
    "int": _number,
    "long": _number,
    "float": lambda value, _: struct.pack("<f", value),
    "double": lambda value, _: struct.pack("<d", value),
    "bytes": _text,
    "string": _text,
}
