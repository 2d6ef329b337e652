"""Arrow columns into Avro values by the native encoder: what is nested is made first. Pure; safe from any thread.

The columns are the fields of the record, in its order. Invariant: what is written here, ``schema.avro_decode`` reads
back as the same columns.
"""

from __future__ import annotations

import decimal
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mainstem.encodings.column_numbers import binary_column, note_bytes, numbers_of, room_for, together
from mainstem.record.native import native_avro as kinds
from mainstem.record.native import native_avro_encode as native
from mainstem.schema.arrow_json import lone_key
from mainstem.schema.avro import AvroField, AvroType

_KINDS: Final = {
    "boolean": kinds.BOOLEAN,
    "int": kinds.LONG,
    "long": kinds.LONG,
    "float": kinds.FLOAT,
    "double": kinds.DOUBLE,
    "bytes": kinds.BYTES_KIND,
    "string": kinds.BYTES_KIND,
}
_KEY: Final = AvroField("key", AvroType("string"))
_BLOCK: Final = np.array([[kinds.LONG, -1], [native.RAW, -1], [kinds.LONG, -1]], np.int64)
"""An array or map: the number of its items, the items, and the zero of the block after them."""
_DIGITS: Final = decimal.Context(prec=76)


def encode(arrow_batch: pa.RecordBatch, record: AvroType, frame: bytes) -> pa.Array:
    """A value for each row (binary), after ``frame``; the columns are those of the record. Raises SchemaError."""
    return _records(arrow_batch.columns, record.fields, frame, arrow_batch.num_rows)


def _records(columns: list[pa.Array], fields: tuple[AvroField, ...], frame: bytes, count: int) -> pa.Array:
    program = np.empty((len(columns), 2), np.int64)
    first = np.zeros((len(columns), count), np.int64)
    second = np.zeros((len(columns), count), np.int64)
    data: list[Any] = []
    at = 0
    for row, (column, field) in enumerate(zip(columns, fields, strict=True)):
        kind, null_branch = field.type.without_null()
        program[row] = _KINDS.get(kind.kind, native.RAW), null_branch
        if program[row, 0] in (kinds.BYTES_KIND, native.RAW):
            part = note_bytes(_bytes_of(column, kind), first[row], second[row], at)
            data.append(part)
            at += len(part)
        else:
            first[row] = numbers_of(column)
        if column.null_count:
            second[row][np.asarray(column.is_null())] = -1
    return _written(program, first, second, together(data), frame)


def _written(program: Any, first: Any, second: Any, source: Any, frame: bytes = b"") -> pa.Array:
    ends = np.empty(first.shape[1], np.int64)
    native.measure_values(len(frame), program, first, second, ends)
    output = room_for(ends, "Avro")
    native.write_values(np.frombuffer(frame, np.uint8), source, program, first, second, len(ends), output)
    return binary_column(ends, output)


def _bytes_of(column: pa.Array, kind: AvroType) -> pa.Array:
    """A column as text or bytes; a nested one as the bytes of its values in Avro."""
    if kind.kind == "record":
        parts = {part.name: values for part, values in zip(column.type, column.flatten(), strict=True)}
        return _records([parts[field.name] for field in kind.fields], kind.fields, b"", len(column))
    if kind.kind == "array":
        return _blocks(column, [column.flatten()], (AvroField("item", kind.branches[0]),))
    if kind.kind == "map":
        pairs = column.cast(pa.list_(pa.struct([("k", column.type.key_type), ("v", column.type.item_type)])))
        keys, items = pairs.flatten().flatten()
        return _blocks(pairs, [lone_key(keys), items], (_KEY, AvroField("item", kind.branches[0])))
    if kind.logical == "decimal":
        unscaled = [None if each is None else _decimal(each, kind.scale) for each in column.to_pylist()]
        return pa.array(unscaled, pa.binary())
    return column


def _blocks(column: pa.Array, parts: list[pa.Array], fields: tuple[AvroField, ...]) -> pa.Array:
    """The lists of a column, whose items have these parts, one after the other."""
    lengths = np.asarray(pc.fill_null(pc.list_value_length(column), 0)).astype(np.int64)
    items = _records(parts, fields, b"", int(lengths.sum()))
    ends = np.frombuffer(items.buffers()[1], np.int32).astype(np.int64)
    last = np.cumsum(lengths)
    first, second = np.zeros((2, 3, len(column)), np.int64)
    first[0], first[1] = lengths, ends[last - lengths]
    second[1] = ends[last] - first[1]
    second[0][lengths == 0] = -1
    return _written(_BLOCK, first, second, together([np.frombuffer(items.buffers()[2], np.uint8)]))


def _decimal(value: Any, scale: int) -> bytes:
    unscaled = int(value.scaleb(scale, _DIGITS))
    data: bytes = unscaled.to_bytes(unscaled.bit_length() // 8 + 1, "big", signed=True)
    return data
