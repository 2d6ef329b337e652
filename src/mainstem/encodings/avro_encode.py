"""Arrow columns into Avro values, natively where the columns are flat. Pure; safe from any thread.

The columns are the fields of the record, in its order. Invariant: what is written here, ``schema.avro_decode`` reads
back as the same columns.
"""

from __future__ import annotations

import datetime
import decimal
import struct
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pyarrow as pa

from mainstem.client.values import key_bytes
from mainstem.encodings.column_numbers import binary_column, note_bytes, numbers_of, room_for, together
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


def encode(arrow_batch: pa.RecordBatch, record: AvroType, frame: bytes) -> pa.Array:
    """A value for each row (binary), behind ``frame``; the columns are those of the record. Raises SchemaError."""
    columns = arrow_batch.columns
    if any(each.type.without_null()[0].is_nested for each in record.fields):
        rows = zip(*(_plain(column) for column in columns), strict=True)
        return pa.array([frame + _record(row, record) for row in rows], pa.binary())
    return _natively(columns, record, frame, arrow_batch.num_rows)


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
            part = note_bytes(_unscaled(column, kind), first[row], second[row], at)
            data.append(part)
            at += len(part)
        else:
            first[row] = numbers_of(column)
        if column.null_count:
            second[row][np.asarray(column.is_null())] = -1
    ends = np.empty(count, np.int64)
    native.measure_values(len(frame), program, first, second, ends)
    output = room_for(ends, "Avro")
    native.write_values(np.frombuffer(frame, np.uint8), together(data), program, first, second, count, output)
    return binary_column(ends, output)


def _unscaled(column: pa.Array, kind: AvroType) -> pa.Array:
    if kind.logical != "decimal":
        return column
    return pa.array([None if each is None else _decimal(each, kind.scale) for each in column.to_pylist()], pa.binary())


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
