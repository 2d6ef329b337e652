"""Protobuf messages into typed Arrow columns by the native decoder. Pure; safe from any thread.

Messages are read level by level: those inside of messages are the rows of a level below.

Invariant: of a message that is ``good``, columns and misfits are those that ``protobuf_json`` and JSON's reader give.
A message that is not, is for these to judge.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mainstem.encodings.protobuf.protobuf_json import (
    TIMESTAMP,
    WRAPPERS,
    Wanted,
    is_map,
    is_plain,
    message_json,
    scalar_json,
)
from mainstem.encodings.protobuf.protobuf_programs import STRING, FieldPart, program_of, wanted_of
from mainstem.errors import SchemaError
from mainstem.record.native import native_protobuf as native
from mainstem.record.native.native_decode import copy_fields
from mainstem.record.native.native_json import GOOD, MISSING, TEXT
from mainstem.schema.json_columns import Cells, Column, JsonField, decode, key_column, typed_column

_DEPTH_MAX: Final = 90
"""Protobuf's own library judges what is nested deeper; it refuses 100 levels."""
_LEVELS_MAX: Final = 500
"""Levels of one batch of values. Messages of a recursive type could have as many as they have bytes."""
_SECOND_MICROS: Final = 1_000_000
_MICROS_MIN: Final = -62_135_596_800 * _SECOND_MICROS
_MICROS_MAX: Final = 253_402_300_800 * _SECOND_MICROS - 1
"""The years 1 to 9999."""
_DOUBLE, _FLOAT, _UINT64, _FIXED64, _BOOL, _BYTES, _ENUM = 1, 2, 4, 6, 8, 12, 14


@dataclass(slots=True)
class _Budget:
    """How many levels may still be read."""

    levels: int = _LEVELS_MAX


class Messages(NamedTuple):
    """Where messages lie in ``source``, and how deep they are nested."""

    source: Any
    starts: Any
    ends: Any
    budget: _Budget
    depth: int = 0

    @classmethod
    def of(cls, source: Any, starts: Any, ends: Any) -> Messages:
        """The messages of values."""
        return cls(source, starts, ends, _Budget())


class MessageLevel(NamedTuple):
    """The columns of messages, and which messages were read."""

    columns: list[Column]
    good: Any


@dataclass(frozen=True, slots=True, eq=False)
class _Values:
    """Values of a field: numbers, or where bytes lie; which are there; and how deep the message is that has them."""

    source: Any
    first: Any
    second: Any
    present: Any
    level: Messages

    def messages(self) -> Messages:
        """The values as messages; one that is not there is empty."""
        starts = np.where(self.present, self.first, 0)
        ends = starts + np.where(self.present, self.second, 0)
        return self.level._replace(starts=starts, ends=ends, depth=self.level.depth + 1)

    def bytes_of(self, row: int) -> bytes:
        start = int(self.first[row])
        data: bytes = self.source[start : start + int(self.second[row])].tobytes()
        return data


def read_messages(messages: Messages, message: Any, wanted: Wanted) -> MessageLevel:
    """Read messages of one type (its descriptor) into the wanted columns."""
    program = program_of(message, wanted)
    source, starts, ends = messages[:3]
    messages.budget.levels -= 1
    count = len(starts)
    first = np.zeros((program.single_rows, count), np.int64)
    second = np.full((program.single_rows, count), -1, np.int64)
    counts = np.zeros((len(program.repeated), count), np.int64)
    found = np.zeros(count, np.uint8)
    native.scan_messages(source, starts, ends, program.rows, first, second, counts, found)
    good = found.astype(np.bool_)
    if not good.all():
        second[:, ~good] = -1
    columns = [Column(pa.nulls(count, kind), None) for _, kind in wanted]
    for part in program.singles:
        place = part.place
        values = _Values(source, first[place], second[place], second[place] >= 0, messages)
        _read_part(part, wanted, values, good, columns, _single)
    if program.repeated and counts.any():
        places = np.zeros(counts.size + 1, np.int64)
        np.cumsum(counts, out=places[1:])
        of_elements = np.zeros((2, int(places[-1])), np.int64)
        moved = places[:-1].reshape(counts.shape).copy()
        native.list_elements(source, starts, ends, program.rows, found, moved, *of_elements)
    else:
        places, of_elements = np.zeros(counts.size + 1, np.int64), np.zeros((2, 0), np.int64)
    for part in program.repeated:
        own = places[part.place * count : (part.place + 1) * count + 1]
        first_of, second_of = of_elements[:, own[0] : own[-1]]
        values = _Values(source, first_of, second_of, np.ones(len(first_of), np.bool_), messages)
        read = functools.partial(_list, offsets=(own - own[0]).astype(np.int32))
        _read_part(part, wanted, values, good, columns, read)
    return MessageLevel(columns, good)


class _Read(NamedTuple):
    column: Column
    good: Any


def _read_part(
    part: FieldPart, wanted: Wanted, values: _Values, good: Any, columns: list[Column], read: Callable[..., _Read]
) -> None:
    """Read a field into its column; note in ``good`` which messages are left to Protobuf's library."""
    if part.column is None:
        if values.present.any():
            good &= read(part.field, values, None).good
        return
    found = read(part.field, values, wanted[part.column][1])
    good &= found.good
    columns[part.column] = found.column


def _single(field: Any, values: _Values, wanted: pa.DataType | None) -> _Read:
    if field.message_type is None and not field.has_presence:
        absent = ~values.present
        # The text before an empty one is not looked at, but has to have a place.
        first = np.where(absent, 1 if field.type in (STRING, _BYTES) else 0, values.first)
        values = _Values(
            values.source, first, np.maximum(values.second, 0), np.ones(len(first), np.bool_), values.level
        )
    return _one(field, values, wanted)


def _list(field: Any, values: _Values, wanted: pa.DataType | None, offsets: Any) -> _Read:
    rows = len(offsets) - 1
    if wanted is None:
        good = _one(field, values, None).good
        return _Read(Column(pa.nulls(rows), None), ~_rows_of(offsets, ~good))
    if is_map(field):
        return _map(field, values, wanted, offsets)
    found = _one(field, values, wanted.value_type)
    misfits = _rows_of(offsets, found.column.misfits)
    array = pa.ListArray.from_arrays(pa.array(offsets), found.column.array, type=wanted, mask=pa.array(misfits))
    return _Read(_column_of(array, misfits), ~_rows_of(offsets, ~found.good))


def _map(field: Any, values: _Values, wanted: pa.DataType, offsets: Any) -> _Read:
    of_key, of_value = (field.message_type.fields_by_name[name] for name in ("key", "value"))
    is_text = of_key.type == STRING
    asked = (("key", pa.string() if is_text else wanted.key_type), ("value", wanted.item_type))
    level = read_messages(values.messages(), field.message_type, asked)
    keys, items = level.columns
    good = level.good.copy()
    if of_value.message_type is not None:
        good &= np.asarray(items.array.is_valid()) | _misfits(items)  # an entry without a message has an empty one
    parents = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    good &= ~_is_repeated(parents, keys.array)
    if is_text:
        keys = key_column(_text_cells(keys.array), wanted.key_type)
    misfits = _rows_of(offsets, keys.misfits) | _rows_of(offsets, items.misfits)
    names = keys.array
    if names.null_count:
        names = pa.Array.from_buffers(names.type, len(names), [None, *names.buffers()[1:]], null_count=0)
    entries = pa.StructArray.from_arrays([names, items.array], fields=[wanted.key_field, wanted.item_field])
    validity = pa.array(~misfits).buffers()[1]
    array = pa.Array.from_buffers(wanted, len(offsets) - 1, [validity, pa.py_buffer(offsets)], children=[entries])
    return _Read(_column_of(array, misfits), ~_rows_of(offsets, ~good))


def _text_cells(column: pa.Array) -> Cells:
    _, offsets, data = column.buffers()
    at = np.frombuffer(offsets, np.int32)[: len(column) + 1].astype(np.int64)
    source = np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8)
    source.flags.writeable = False
    return Cells(source, at[:-1] - 1, at[1:] + 1, np.full(len(column), TEXT, np.uint8))


def _is_repeated(parents: Any, keys: pa.Array) -> Any:
    """Which entries have a key that stands before in the same map: the last one counts, which is for JSON to say."""
    codes = np.asarray(pc.fill_null(pc.dictionary_encode(keys).indices, -1)).astype(np.int64)
    order = np.lexsort((codes, parents))
    found = np.zeros(len(codes), np.bool_)
    again = (np.diff(codes[order]) == 0) & (np.diff(parents[order]) == 0)
    found[order[1:][again]] = True
    return found


def _rows_of(offsets: Any, chosen: Any) -> Any:
    """Which rows have an element that is chosen."""
    rows = np.zeros(len(offsets) - 1, np.bool_)
    if chosen is not None:
        rows[np.searchsorted(offsets, np.flatnonzero(chosen), side="right") - 1] = True
    return rows


# ---- one value in each row


def _one(field: Any, values: _Values, wanted: pa.DataType | None) -> _Read:
    if field.message_type is not None:
        return _message(field.message_type, values, wanted)
    assert wanted is not None
    native_column = _scalar(field, values, wanted)
    if native_column is not None:
        return _Read(native_column, np.ones(len(values.first), np.bool_))
    return _by_json(values, wanted, lambda row: _text_of(field, values, row))


def _message(message: Any, values: _Values, wanted: pa.DataType | None) -> _Read:
    if values.level.depth >= _DEPTH_MAX or values.level.budget.levels <= 0:
        return _Read(Column(pa.nulls(len(values.first), wanted or pa.null()), None), ~values.present)
    if wanted is None:
        return _Read(Column(pa.nulls(len(values.first)), None), read_messages(values.messages(), message, ()).good)
    if message.full_name == TIMESTAMP and pa.types.is_timestamp(wanted):
        return _timestamp(message, values, wanted)
    if message.full_name in WRAPPERS:
        level = read_messages(values.messages(), message, (("value", wanted),))
        array = level.columns[0].array.take(pa.array(np.arange(len(values.first)), mask=~values.present))
        return _Read(_column_of(array, _misfits(level.columns[0]) & values.present), level.good)
    if is_plain(message) and pa.types.is_struct(wanted):
        level = read_messages(values.messages(), message, wanted_of(wanted))
        misfits = np.zeros(len(values.first), np.bool_)
        for column in level.columns:
            misfits |= _misfits(column)
        misfits &= values.present
        arrays = [column.array for column in level.columns]
        array = pa.StructArray.from_arrays(arrays, fields=list(wanted), mask=pa.array(~values.present | misfits))
        return _Read(_column_of(array, misfits), level.good)
    from google.protobuf import message_factory  # an extra's library

    message_type = message_factory.GetMessageClass(message)
    return _by_json(values, wanted, lambda row: message_json(message_type, values.bytes_of(row), wanted))


def _timestamp(message: Any, values: _Values, wanted: pa.DataType) -> _Read:
    level = read_messages(values.messages(), message, (("seconds", pa.int64()), ("nanos", pa.int32())))
    seconds, nanos = (np.asarray(column.array).astype(np.int64) for column in level.columns)
    is_near = (seconds >= _MICROS_MIN // _SECOND_MICROS - 10) & (seconds <= _MICROS_MAX // _SECOND_MICROS + 10)
    micros = np.where(is_near, seconds, 0) * _SECOND_MICROS + nanos // 1000
    fits = is_near & (micros >= _MICROS_MIN) & (micros <= _MICROS_MAX)
    array = pa.array(micros, pa.int64(), mask=~(fits & values.present)).view(wanted)
    return _Read(_column_of(array, values.present & ~fits), level.good)


def _scalar(field: Any, values: _Values, wanted: pa.DataType) -> Column | None:
    """The column, by the rules of the product's JSON; None for a pair of types that has no native way."""
    absent, numbers = ~values.present, values.first
    if field.type == STRING:
        kinds = np.where(values.present, np.uint8(TEXT), np.uint8(MISSING))
        cells = Cells(values.source, numbers - 1, numbers + np.maximum(values.second, 0) + 1, kinds)
        return typed_column(cells, wanted)
    if field.type == _BYTES:
        return Column(_bytes_column(values), None) if pa.types.is_binary(wanted) else None
    if field.type in (_DOUBLE, _FLOAT):
        floats = numbers.view(np.float64) if field.type == _DOUBLE else _singles(numbers)
        if not (pa.types.is_float64(wanted) or (pa.types.is_float32(wanted) and field.type == _FLOAT)):
            return None
        null = absent | ~np.isfinite(floats)
        return Column(pa.array(np.where(null, 0, floats).astype(wanted.to_pandas_dtype()), wanted, mask=null), None)
    if field.type == _BOOL:
        return Column(pa.array(numbers != 0, mask=absent), None) if pa.types.is_boolean(wanted) else None
    if field.type == _ENUM:
        return Column(_names(field, values), None) if pa.types.is_string(wanted) else None
    if not pa.types.is_integer(wanted):
        return None
    bounds = np.iinfo(wanted.to_pandas_dtype())
    beyond = (numbers < bounds.min) | (numbers > bounds.max)
    if field.type in (_UINT64, _FIXED64):
        beyond |= numbers < 0
    array = pa.array(np.where(beyond, 0, numbers).astype(bounds.dtype), wanted, mask=absent | beyond)
    return _column_of(array, beyond & values.present)


def _singles(numbers: Any) -> Any:
    return numbers.astype(np.uint32).view(np.float32)


def _bytes_column(values: _Values) -> pa.Array:
    offsets = np.zeros(len(values.first) + 1, np.int32)
    np.cumsum(np.where(values.present, values.second, 0), out=offsets[1:])
    data = np.empty(int(offsets[-1]), np.uint8)
    copy_fields(values.source, np.ascontiguousarray(values.first), offsets, data)
    validity = pa.array(values.present).buffers()[1]
    parts = [validity, pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.binary(), len(values.first), parts)


def _names(field: Any, values: _Values) -> pa.Array:
    numbers, codes = np.unique(values.first, return_inverse=True)
    names = [scalar_json(number, field) for number in numbers.tolist()]
    return pa.array(names, pa.string()).take(pa.array(codes, mask=~values.present))


def _text_of(field: Any, values: _Values, row: int) -> bytes:
    number: Any = int(values.first[row])
    if field.type == _BYTES:
        number = values.bytes_of(row)
    elif field.type == _DOUBLE:
        number = float(values.first[row : row + 1].view(np.float64)[0])
    elif field.type == _FLOAT:
        number = float(_singles(values.first[row : row + 1])[0])
    elif field.type == _BOOL:
        number = bool(number)
    elif field.type in (_UINT64, _FIXED64):
        number &= (1 << 64) - 1
    return json.dumps(scalar_json(number, field)).encode()


def _by_json(values: _Values, wanted: pa.DataType, text_of: Callable[[int], bytes]) -> _Read:
    """The column from each value's JSON."""
    texts = [b"{}"] * len(values.first)
    good = np.ones(len(values.first), np.bool_)
    for row in np.flatnonzero(values.present).tolist():
        try:
            texts[row] = b'{"v":' + text_of(row) + b"}"
        except SchemaError:
            good[row] = False
    found = decode(pa.array(texts, pa.binary()), [JsonField("v", wanted)])
    return _Read(found.columns[0], good & (found.verdicts == GOOD))


def _misfits(column: Column) -> Any:
    return np.zeros(len(column.array), np.bool_) if column.misfits is None else column.misfits


def _column_of(array: pa.Array, misfits: Any) -> Column:
    return Column(array, misfits if misfits.any() else None)
