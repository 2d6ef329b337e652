"""Arrow columns into Protobuf values by the native encoder: messages inside of messages are made first. Pure; safe from
any thread.

A null is a field that is not set, and a null array or map an empty one. Invariants: but for that, ``protobuf_decode``
reads back the same columns; where a message has no map, the bytes are those of Protobuf's own library.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mainstem.encodings.column_numbers import binary_column, note_bytes, numbers_of, room_for, together
from mainstem.encodings.protobuf.protobuf_messages import message_class
from mainstem.record.native import native_protobuf as wires
from mainstem.record.native import native_protobuf_encode as native
from mainstem.schema.arrow_json import lone_key

_SECOND_MICROS: Final = 1_000_000
_MESSAGE, _STRING, _BYTES = 11, 9, 12
_WIRES: Final = {
    1: wires.FIXED64,
    2: wires.FIXED32,
    _STRING: wires.LENGTH,
    _MESSAGE: wires.LENGTH,
    _BYTES: wires.LENGTH,
}
"""The wire types of the types that columns have, by their numbers in descriptors; all others are varints."""


def encode_messages(arrow_batch: pa.RecordBatch, text: str, frame: bytes) -> pa.Array:
    """A value for each row (binary), after ``frame``. Arrays and maps hold no nulls.

    The frame ends with the message's place in its schema.
    """
    message = message_class(text).DESCRIPTOR
    columns = dict(zip(arrow_batch.schema.names, arrow_batch.columns, strict=True))
    return _messages(message, columns, arrow_batch.num_rows, frame)


def _messages(message: Any, columns: dict[str, pa.Array], count: int, prefix: bytes = b"") -> pa.Array:
    """The bytes of a message (its descriptor) for each row."""
    fields = sorted((each for each in message.fields if each.name in columns), key=lambda each: each.number)
    tables = _Tables.of(len(fields), count)
    for row, field in enumerate(fields):
        column = columns[field.name]
        if field.is_repeated:
            _add_list(tables, row, field, column)
        else:
            tables.program[row] = field.number << 3 | _wire(field), _wire(field), native.SINGLE
            tables.first[row], tables.second[row] = _values(tables, field, column)
            if not field.has_presence and not message.GetOptions().map_entry:
                _leave_out_defaults(field, tables.first[row], tables.second[row])
    return tables.written(count, prefix)


def _leave_out_defaults(field: Any, first: Any, second: Any) -> None:
    """A field without ``optional`` is not written where it has its default."""
    second[(second if _wire(field) == wires.LENGTH else first) == 0] = -1


class _Tables(NamedTuple):
    """The messages of one level as the native encoder takes them; ``parts``: the bytes that values lie in."""

    program: Any
    first: Any
    second: Any
    elements: list[Any]
    parts: list[Any]

    @classmethod
    def of(cls, rows: int, count: int) -> _Tables:
        first, second = np.zeros((2, rows, count), np.int64)
        return cls(np.zeros((rows, 3), np.int64), first, second, [], [])

    def written(self, count: int, prefix: bytes = b"") -> pa.Array:
        elements = np.concatenate(self.elements, axis=1) if self.elements else np.zeros((2, 0), np.int64)
        ends = np.empty(count, np.int64)
        native.measure_messages(len(prefix), self.program, self.first, self.second, elements, ends)
        output = room_for(ends, "Protobuf")
        opening, source = np.frombuffer(prefix, np.uint8), together(self.parts)
        native.write_messages(opening, source, self.program, self.first, self.second, elements, count, output)
        return binary_column(ends, output)


def _add_list(tables: _Tables, row: int, field: Any, column: pa.Array) -> None:
    if pa.types.is_map(column.type):
        pairs = [("key", column.type.key_type), ("value", column.type.item_type)]
        column = column.cast(pa.list_(pa.struct(pairs)))
    wire = _wire(field)
    is_packed = wire != wires.LENGTH
    tag = field.number << 3 | (wires.LENGTH if is_packed else wire)
    tables.program[row] = tag, wire, native.PACKED if is_packed else native.REPEATED
    lengths = np.asarray(pc.fill_null(pc.list_value_length(column), 0)).astype(np.int64)
    at = sum(each.shape[1] for each in tables.elements)
    tables.first[row] = at + np.cumsum(lengths) - lengths
    tables.second[row] = lengths
    tables.elements.append(np.stack(_values(tables, field, column.flatten())))


def _values(tables: _Tables, field: Any, column: pa.Array) -> tuple[Any, Any]:
    """The values of a column in two rows of numbers; their bytes are added to the tables' parts."""
    first, second = np.zeros(len(column), np.int64), np.zeros(len(column), np.int64)
    if _wire(field) == wires.LENGTH:
        at = sum(map(len, tables.parts))
        tables.parts.append(note_bytes(_bytes_of(field, column), first, second, at))
    else:
        first[:] = numbers_of(column)
    if column.null_count:
        second[np.asarray(column.is_null())] = -1
    return first, second


def _wire(field: Any) -> int:
    return _WIRES.get(field.type, wires.VARINT)


def _bytes_of(field: Any, column: pa.Array) -> pa.Array:
    if field.type == _BYTES:
        return column
    if field.type == _STRING:
        return _texts(column)
    if pa.types.is_timestamp(column.type):
        return _timestamps(column)
    parts = {part.name: values for part, values in zip(column.type, column.flatten(), strict=True)}
    return _messages(field.message_type, parts, len(column))


def _texts(column: pa.Array) -> pa.Array:
    """Dates, times without a zone, decimals and the keys of maps as their text."""
    if pa.types.is_decimal(column.type):
        return pa.array([None if each is None else format(each, "f") for each in column.to_pylist()], pa.string())
    return lone_key(column)


def _timestamps(column: pa.Array) -> pa.Array:
    """``google.protobuf.Timestamp``: seconds and nanoseconds, each where it is not 0."""
    tables = _Tables.of(2, len(column))
    seconds, micros = np.divmod(numbers_of(column), _SECOND_MICROS)
    for row, numbers in enumerate((seconds, micros * 1000)):
        tables.program[row] = (row + 1) << 3, wires.VARINT, native.SINGLE
        tables.first[row] = numbers
        tables.second[row] = np.where(numbers == 0, -1, 0)
    return tables.written(len(column))
