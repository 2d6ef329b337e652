"""JSON values into typed Arrow columns: the one reading of a record's value by its topic's schema, for every reader.

SQL and lake views, metrics, Spark's streams, batches and tables, ``load`` and checked appends all read by this module,
so one record has one value. docs/reference/types.md has the table of what each type takes.

Contract: one row for each value. A field that is missing or null is null, and so is one whose value does not fit its
column, which ``misfits`` says. A value that is not one JSON object has nulls in all columns, and ``verdicts`` says why.
The result for a record depends on that record alone, never on its neighbors. Pure functions; safe from any thread.

The work is native (``record.native.native_json``): some 300,000 records of 20 columns a second and core.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mainstem.json_depth import DEPTH_MAX
from mainstem.record.native import native_json as native
from mainstem.record.native import native_json_cells as cells_of

Numbers: TypeAlias = Any
"""A numpy array."""

NO_UTF8: Final = 5
NO_VALUE: Final = 6
"""Verdicts beside those of ``record.native.native_json``: bytes that are not UTF-8; null."""

_BASE64: Final = r"^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$"
_ERROR_CHARS_MAX: Final = 300
_SHOWN_CHARS_MAX: Final = 80


@dataclass(frozen=True, slots=True)
class JsonField:
    """A field to read: its name in the object, its type. ``as_text``: a nested value or bytes as their JSON text."""

    name: str
    type: pa.DataType
    as_text: bool = False


class Column(NamedTuple):
    """A column, and in which rows a value that is not null does not fit (None: in no row)."""

    array: pa.Array
    misfits: Numbers | None


class JsonColumns(NamedTuple):
    """``columns`` as the fields were asked for; ``verdicts``: ``GOOD``, or why a value is not one JSON object."""

    columns: list[Column]
    verdicts: Numbers
    cells: list[Cells]
    places: tuple[Numbers, Numbers, Numbers]
    """All bytes, where each value begins, and where it ends."""

    @property
    def all_good(self) -> bool:
        """Whether every value is one JSON object."""
        return not self.verdicts.any()

    def shown(self, column: int, row: int) -> str:
        """The text of a cell, for an error."""
        return self.cells[column].shown(row)


def decode(values: pa.Array, fields: Sequence[JsonField]) -> JsonColumns:
    """Read the fields of every value (binary or string, of up to 2 GiB in all)."""
    data, starts, ends, verdicts = _located(values)
    names, name_ends = _names(tuple(field.name for field in fields))
    shape = (len(fields), len(values))
    firsts, lasts = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
    kinds = np.zeros(shape, np.uint8)
    found = np.zeros(len(values), np.uint8)
    native.scan_objects(data, starts, ends, names, name_ends, firsts, lasts, kinds, found)
    verdicts = found if verdicts is None else np.where(verdicts, verdicts, found)
    cells = [Cells(data, *each) for each in zip(firsts, lasts, kinds, strict=True)]
    columns = [_column(each, field) for each, field in zip(cells, fields, strict=True)]
    return JsonColumns(columns, verdicts, cells, (data, starts, ends))


def compact_texts(decoded: JsonColumns) -> pa.Array:
    """Each good value's JSON text without white space, numbers as they are written; null for the others."""
    kinds = np.where(decoded.verdicts == native.GOOD, np.uint8(native.OBJECT), np.uint8(native.MISSING))
    return _texts(Cells(*decoded.places, kinds))


def reason(value: bytes, verdict: int) -> str:
    """Why a value is not one JSON object, as its verdict says."""
    if verdict == NO_UTF8:
        try:
            value.decode()
        except UnicodeDecodeError as error:
            return f"the value is not UTF-8 text: {error.reason} at byte {error.start}"
    if verdict == native.TOO_DEEP:
        return f"the value is nested deeper than {DEPTH_MAX} levels"
    if verdict == native.NO_OBJECT:
        return "the value is JSON, but not an object"
    if verdict == native.LONE_SURROGATE:
        return "the value is not JSON: it has a lone surrogate"
    try:
        json.loads(value.decode())
    except (ValueError, RecursionError) as error:
        return f"the value is not JSON: {error}"[:_ERROR_CHARS_MAX]
    return "the value is not JSON"


# ---- where things lie


@dataclass(frozen=True, slots=True, eq=False)
class Cells:
    """Where the values of a column lie in ``data``, and their kinds; see ``record.native.native_json``."""

    data: Numbers
    starts: Numbers
    ends: Numbers
    kinds: Numbers

    @property
    def present(self) -> Numbers:
        return self.kinds > native.NULL

    def of(self, kind: int) -> Numbers:
        return self.kinds == kind

    def only(self, wanted: Numbers) -> Cells:
        """The same with no value where it is not wanted."""
        return Cells(self.data, self.starts, self.ends, np.where(wanted, self.kinds, np.uint8(native.MISSING)))

    def shown(self, row: int) -> str:
        text: str = self.data[self.starts[row] : self.ends[row]].tobytes().decode("utf-8", "replace")
        return text if len(text) <= _SHOWN_CHARS_MAX else text[:_SHOWN_CHARS_MAX] + "…"

    def unescaped(self) -> Cells:
        """The same with every string as plain text."""
        if not (self.kinds == native.ESCAPED).any():
            return self
        texts = _text_buffers(self)
        offsets = texts.offsets.astype(np.int64)
        is_text = self.of(native.TEXT) | self.of(native.ESCAPED)
        # Kernels take a text's quotes to be there: the byte before it and the one after it are not looked at.
        padded = np.concatenate([np.zeros(1, np.uint8), texts.data, np.zeros(1, np.uint8)])
        quotes = is_text.astype(np.int64)
        kinds = np.where(is_text, np.uint8(native.TEXT), self.kinds)
        return Cells(_read_only(padded), offsets[:-1] + 1 - quotes, offsets[1:] + 1 + quotes, kinds)


class _TextBuffers(NamedTuple):
    offsets: Numbers
    data: Numbers


def _located(values: pa.Array) -> tuple[Numbers, Numbers, Numbers, Numbers | None]:
    """(all bytes, where each value begins, where it ends, verdicts on those that are not UTF-8 or null; None: none)."""
    if not len(values):
        nothing = np.empty(0, np.int64)
        return _read_only(np.empty(0, np.uint8)), nothing, nothing, None
    if pa.types.is_large_binary(values.type) or pa.types.is_large_string(values.type):
        values = values.cast(pa.binary())
    _, offsets_buffer, data_buffer = values.buffers()
    offsets = np.frombuffer(offsets_buffer, np.int32)[values.offset : values.offset + len(values) + 1].astype(np.int64)
    data = np.empty(0, np.uint8) if data_buffer is None else np.frombuffer(data_buffer, np.uint8)
    starts, ends = offsets[:-1].copy(), offsets[1:].copy()
    verdicts = None
    if values.null_count:
        verdicts = np.where(np.asarray(values.is_null()), np.uint8(NO_VALUE), np.uint8(0))
    if not pa.types.is_string(values.type):
        try:
            values.cast(pa.string())
        except pa.ArrowInvalid:
            wrong = np.array([not _is_utf8(value) for value in values.to_pylist()])
            verdicts = np.where(wrong, np.uint8(NO_UTF8), np.uint8(0) if verdicts is None else verdicts)
    if verdicts is not None:
        ends[verdicts != 0] = starts[verdicts != 0]
    return _read_only(data), starts, ends, verdicts


def _is_utf8(value: bytes | None) -> bool:
    try:
        return value is None or value.decode() is not None
    except UnicodeDecodeError:
        return False


def _read_only(data: Numbers) -> Numbers:
    data.flags.writeable = False
    return data


@lru_cache(maxsize=256)
def _names(names: tuple[str, ...]) -> tuple[Numbers, Numbers]:
    encoded = [name.encode() for name in names]
    ends = np.cumsum([0, *map(len, encoded)]).astype(np.int64)
    return _read_only(np.frombuffer(b"".join(encoded), np.uint8).copy()), ends


# ---- columns


def _column(cells: Cells, field: JsonField) -> Column:
    if pa.types.is_nested(field.type) and field.as_text:
        return _checked_text(cells, _nested(cells, field.type).misfits)
    if pa.types.is_binary(field.type):
        return _binary_column(cells, as_text=field.as_text)
    return typed_column(cells, field.type)


def typed_column(cells: Cells, kind: pa.DataType) -> Column:
    """The cells as a column of a type."""
    if pa.types.is_string(kind):
        return Column(_texts(cells), None)
    if pa.types.is_boolean(kind):
        true = cells.of(native.TRUE)
        return _fitting(cells, true, true | cells.of(native.FALSE), kind)
    if pa.types.is_integer(kind):
        return _integer_column(cells, kind)
    if pa.types.is_floating(kind):
        return _float_column(cells, kind)
    if pa.types.is_decimal128(kind):
        return _decimal_column(cells, kind)
    if pa.types.is_date32(kind) or pa.types.is_timestamp(kind):
        return _time_column(cells, kind)
    if pa.types.is_binary(kind):
        return _binary_column(cells, as_text=False)
    if pa.types.is_nested(kind):
        return _nested(cells, kind)
    return Column(pa.nulls(len(cells.kinds), kind), cells.present)


def _fitting(cells: Cells, values: Numbers, fits: Numbers, kind: pa.DataType) -> Column:
    """The values where they fit, in the type's own storage."""
    if fits.all():
        array, misfits = pa.array(values), None
    else:
        array, misfits = pa.array(values, mask=~fits), cells.present & ~fits
    array = array if array.type == kind else array.view(kind)
    return Column(array, misfits if misfits is not None and misfits.any() else None)


def _integer_column(cells: Cells, kind: pa.DataType) -> Column:
    values, fits = np.zeros(len(cells.kinds), np.int64), np.zeros(len(cells.kinds), np.uint8)
    native_read = cells_of.read_integers
    native_read(cells.data, cells.starts, cells.ends, cells.kinds, kind.bit_width, values, fits)
    return _fitting(cells, values.astype(kind.to_pandas_dtype()), fits.astype(np.bool_), kind)


def _float_column(cells: Cells, kind: pa.DataType) -> Column:
    count = len(cells.kinds)
    values, fits, left = np.zeros(count), np.zeros(count, np.uint8), np.zeros(count, np.uint8)
    is_single = bool(pa.types.is_float32(kind))
    cells_of.read_floats(cells.data, cells.starts, cells.ends, cells.kinds, is_single, values, fits, left)
    narrowed = values.astype(kind.to_pandas_dtype())
    if left.any():
        rows = np.flatnonzero(left)
        texts = _texts(cells.only(left != 0)).take(pa.array(rows))
        numbers = _long_floats(texts, kind)
        narrowed[rows] = numbers
        fits[rows] = np.isfinite(numbers)
    return _fitting(cells, narrowed, fits.astype(np.bool_), kind)


def _long_floats(texts: pa.Array, kind: pa.DataType) -> Numbers:
    """Numbers of many digits or a large exponent, correctly rounded; an infinity where they are out of range."""
    try:
        return texts.cast(kind).to_numpy(zero_copy_only=False)
    except pa.ArrowInvalid:  # beyond the largest, or nearer to zero than the smallest
        return np.array([_long_float(text, kind) for text in texts.to_pylist()], kind.to_pandas_dtype())


def _long_float(text: str, kind: pa.DataType) -> float:
    try:
        return float(pa.scalar(text).cast(kind).as_py())
    except pa.ArrowInvalid:
        number = float(text)
        return number if pa.types.is_float64(kind) or abs(number) <= 1 else float("inf")


def _decimal_column(cells: Cells, kind: pa.DataType) -> Column:
    numbers = _numbers_in_strings(cells)
    values, fits = np.zeros((len(cells.kinds), 2), np.uint64), np.zeros(len(cells.kinds), np.uint8)
    cells_of.read_decimals(
        numbers.data, numbers.starts, numbers.ends, numbers.kinds, kind.precision, kind.scale, values, fits
    )
    validity = pa.array(fits.astype(np.bool_)).buffers()[1]
    array = pa.Array.from_buffers(kind, len(fits), [validity, pa.py_buffer(values)])
    misfits = cells.present & (fits == 0)
    return Column(array, misfits if misfits.any() else None)


def _numbers_in_strings(cells: Cells, wanted: Sequence[int] = (native.INTEGER, native.FRACTION)) -> Cells:
    """The same, with each string that is such a value in JSON as that value."""
    plain = cells.unescaped()
    is_text = plain.of(native.TEXT)
    if not is_text.any():
        return plain
    kinds = np.zeros(len(plain.kinds), np.uint8)
    native.note_kinds(plain.data, plain.starts, plain.ends, kinds, is_text.astype(np.uint8))
    inside = is_text & np.isin(kinds, wanted)
    shift = inside.astype(np.int64)
    return Cells(plain.data, plain.starts + shift, plain.ends - shift, np.where(inside, kinds, plain.kinds))


def _time_column(cells: Cells, kind: pa.DataType) -> Column:
    plain = cells.unescaped()
    is_date = bool(pa.types.is_date32(kind))
    values, fits = np.zeros(len(plain.kinds), np.int64), np.zeros(len(plain.kinds), np.uint8)
    cells_of.read_times(plain.data, plain.starts, plain.ends, plain.kinds, is_date, values, fits)
    return _fitting(cells, values.astype(np.int32) if is_date else values, fits.astype(np.bool_), kind)


def _binary_column(cells: Cells, *, as_text: bool) -> Column:
    texts = _texts(cells.only(cells.of(native.TEXT) | cells.of(native.ESCAPED)))
    fits = np.asarray(pc.fill_null(pc.match_substring_regex(texts, _BASE64), False))
    misfits = cells.present & ~fits
    if misfits.any():
        texts = pc.if_else(pa.array(fits), texts, pa.scalar(None, pa.string()))
    if not as_text:
        decoded = [None if text is None else base64.b64decode(text) for text in texts.to_pylist()]
        texts = pa.array(decoded, pa.binary())
    return Column(texts, misfits if misfits.any() else None)


def _checked_text(cells: Cells, misfits: Numbers | None) -> Column:
    return Column(_texts(cells if misfits is None else cells.only(~misfits)), misfits)


def _text_buffers(cells: Cells) -> _TextBuffers:
    sizes = np.where(cells.present, cells.ends - cells.starts, 0)
    data = np.empty(int(sizes.sum()), np.uint8)
    offsets = np.zeros(len(cells.kinds) + 1, np.int32)
    cells_of.write_texts(cells.data, cells.starts, cells.ends, cells.kinds, offsets, data)
    return _TextBuffers(offsets, data)


def _texts(cells: Cells) -> pa.Array:
    buffers = _text_buffers(cells)
    present = cells.present
    validity = None if present.all() else pa.array(present).buffers()[1]
    parts = [validity, pa.py_buffer(buffers.offsets), pa.py_buffer(buffers.data)]
    return pa.Array.from_buffers(pa.string(), len(cells.kinds), parts)


# ---- nested columns


def _nested(cells: Cells, kind: pa.DataType) -> Column:
    """Lists, objects and maps: a part that does not fit makes that the whole does not."""
    if pa.types.is_struct(kind):
        return _struct_column(cells, kind)
    if pa.types.is_map(kind):
        return _map_column(cells, kind)
    if pa.types.is_list(kind):
        return _list_column(cells, kind)
    return Column(pa.nulls(len(cells.kinds), kind), cells.present)


def _struct_column(cells: Cells, kind: pa.DataType) -> Column:
    is_object = cells.of(native.OBJECT)
    names, name_ends = _names(tuple(field.name for field in kind))
    shape = (kind.num_fields, len(cells.kinds))
    firsts, lasts = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
    kinds, verdicts = np.zeros(shape, np.uint8), np.zeros(shape[1], np.uint8)
    starts, ends = _bounds(cells, is_object)
    native.scan_objects(cells.data, starts, ends, names, name_ends, firsts, lasts, kinds, verdicts)
    parts = [
        typed_column(Cells(cells.data, *each), field.type)
        for *each, field in zip(firsts, lasts, kinds, kind, strict=True)
    ]
    misfits = cells.present & ~is_object
    for part in parts:
        if part.misfits is not None:
            misfits = misfits | part.misfits
    array = pa.StructArray.from_arrays(
        [part.array for part in parts], fields=list(kind), mask=pa.array(~is_object | misfits)
    )
    return Column(array, misfits if misfits.any() else None)


def _list_column(cells: Cells, kind: pa.DataType) -> Column:
    is_list = cells.of(native.LIST)
    elements = _elements(cells, is_list, is_map=False)
    part = typed_column(elements.values, kind.value_type)
    misfits = (cells.present & ~is_list) | _parents(elements, part.misfits)
    mask = pa.array(~is_list | misfits)
    array = pa.ListArray.from_arrays(pa.array(elements.offsets), part.array, type=kind, mask=mask)
    return Column(array, misfits if misfits.any() else None)


def _map_column(cells: Cells, kind: pa.DataType) -> Column:
    is_object = cells.of(native.OBJECT)
    elements = _elements(cells, is_object, is_map=True)
    keys, items = key_column(elements.names, kind.key_type), typed_column(elements.values, kind.item_type)
    misfits = (cells.present & ~is_object) | _parents(elements, keys.misfits) | _parents(elements, items.misfits)
    mask = pa.array(~is_object | misfits)
    # A map's key is never null: where one does not fit the map is null, and what stands in its place does not matter.
    array = pa.ListArray.from_arrays(
        pa.array(elements.offsets),
        pa.StructArray.from_arrays([_without_null(keys.array), items.array], names=["key", "value"]),
        mask=mask,
    )
    return Column(_as_map(array, kind), misfits if misfits.any() else None)


def key_column(names: Cells, kind: pa.DataType) -> Column:
    """The names of an object as the keys of a map."""
    if pa.types.is_boolean(kind):
        names = _numbers_in_strings(names, (native.TRUE, native.FALSE))
    elif pa.types.is_integer(kind) or pa.types.is_floating(kind):
        names = _numbers_in_strings(names)
    return typed_column(names, kind)


class _Elements(NamedTuple):
    """The elements of all rows' lists or maps, one after the other; ``offsets``: where each row's begin."""

    offsets: Numbers
    names: Cells
    values: Cells


def _elements(cells: Cells, wanted: Numbers, *, is_map: bool) -> _Elements:
    starts, ends = _bounds(cells, wanted)
    counts = np.zeros(len(starts), np.int64)
    native.count_elements(cells.data, starts, ends, counts, int(is_map))
    offsets = np.zeros(len(starts) + 1, np.int32)
    np.cumsum(counts, out=offsets[1:])
    total = int(offsets[-1])
    names, values = np.zeros((2, total), np.int64), np.zeros((2, total), np.int64)
    kinds = np.zeros(total, np.uint8)
    native.note_elements(cells.data, starts, ends, names, values, kinds, int(is_map))
    name_kinds = np.full(total, native.ESCAPED, np.uint8)
    return _Elements(
        offsets, Cells(cells.data, names[0], names[1], name_kinds), Cells(cells.data, values[0], values[1], kinds)
    )


def _bounds(cells: Cells, wanted: Numbers) -> tuple[Numbers, Numbers]:
    return np.where(wanted, cells.starts, 0), np.where(wanted, cells.ends, 0)


def _parents(elements: _Elements, misfits: Numbers | None) -> Numbers:
    """Which rows have an element that does not fit."""
    found = np.zeros(len(elements.offsets) - 1, np.bool_)
    if misfits is not None:
        found[np.searchsorted(elements.offsets, np.flatnonzero(misfits), side="right") - 1] = True
    return found


def _without_null(keys: pa.Array) -> pa.Array:
    if not keys.null_count:
        return keys
    return pa.Array.from_buffers(keys.type, len(keys), [None, *keys.buffers()[1:]], null_count=0)


def _as_map(lists: pa.Array, kind: pa.DataType) -> pa.Array:
    pairs = lists.values
    parts = [lists.buffers()[0], lists.buffers()[1]]
    entries = pa.StructArray.from_arrays(pairs.flatten(), fields=[kind.key_field, kind.item_field])
    return pa.Array.from_buffers(kind, len(lists), parts, children=[entries])
