"""Avro values into typed Arrow columns, natively where the writer's record is flat: some millions of records a second.

Values are bare (one writer's schema for all), or framed as Confluent's serializers do it: a zero, the four bytes of the
writer's schema id, the record. Columns are the reader's fields; each takes its value from the writer's field of that
name (or of an alias), promoted where the types differ as Avro allows. A field that the writer does not have is its
default, or null; one whose value does not fit its column is null, and ``fits`` says so. A value that its writer's
schema does not read to the last byte, or whose schema is unknown, is a row of nulls, and ``is_object`` says so.

Invariant: the native way and the plain one (``schema.avro``) give the same rows. Owned by one task.
"""

from __future__ import annotations

import decimal
import functools
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mainstem.client.values import json_text
from mainstem.errors import SchemaError
from mainstem.record.native import native_avro as native
from mainstem.record.native.native_decode import copy_fields
from mainstem.schema.avro import AvroField, AvroType, parse_avro, read_value
from mainstem.schema.avro_registry import AvroRegistry
from mainstem.schema.json_columns import JsonField, decode
from mainstem.schema.json_rows import DecodedRows

_FRAME_BYTES = 5
_KINDS = {
    "null": native.NULL,
    "boolean": native.BOOLEAN,
    "int": native.LONG,
    "long": native.LONG,
    "float": native.FLOAT,
    "double": native.DOUBLE,
    "bytes": native.BYTES_KIND,
    "string": native.BYTES_KIND,
    "fixed": native.FIXED,
    "enum": native.ENUM,
}
_LOGICAL = {
    "date": pa.date32(),
    "timestamp-millis": pa.timestamp("us", "UTC"),
    "timestamp-micros": pa.timestamp("us", "UTC"),
    "local-timestamp-millis": pa.timestamp("us"),
    "local-timestamp-micros": pa.timestamp("us"),
}
_parsed = functools.lru_cache(maxsize=256)(parse_avro)


@dataclass(frozen=True, slots=True)
class AvroDecoder:
    """``reader``: the schema of the columns, and without a ``registry`` the writer's as well."""

    reader: str
    registry: AvroRegistry | None = field(default=None)

    @property
    def reads_headers(self) -> bool:
        """Headers say nothing about how a value is read."""
        return False

    @property
    def refusal(self) -> str:
        return "is not an Avro record"

    def decode(self, values: pa.Array, schema: pa.Schema) -> DecodedRows:
        """Read ``values`` (binary) into the columns of ``schema``. Raises LogUnavailableError without the registry."""
        if self.registry is None:
            return decode_records(values, 0, _parsed(self.reader), _parsed(self.reader), schema)
        ids = _schema_ids(values)
        blocks, order = [], []
        for schema_id in np.unique(ids).tolist():
            rows = np.flatnonzero(ids == schema_id)
            writer = self._writer(schema_id)
            chosen = values if len(rows) == len(values) else values.take(pa.array(rows))
            if writer is None:
                blocks.append(unreadable(len(rows), schema))
            else:
                blocks.append(decode_records(chosen, _FRAME_BYTES, writer, _parsed(self.reader), schema))
            order.append(rows)
        return together(blocks, order, schema)

    def reason(self, value: bytes) -> str:
        """Why a value is not read."""
        if self.registry is None:
            return reason_of(value, _parsed(self.reader))
        if len(value) < _FRAME_BYTES or value[0] != 0:
            return "the value does not begin with a zero and a schema id, as framed Avro does"
        schema_id = int.from_bytes(value[1:_FRAME_BYTES], "big", signed=True)
        writer = self._writer(schema_id)
        if writer is None:
            return f"the schema registry knows no schema {schema_id} that is an Avro record"
        return reason_of(value[_FRAME_BYTES:], writer)

    def _writer(self, schema_id: int) -> AvroType | None:
        assert self.registry is not None
        text = self.registry.schema(schema_id) if schema_id >= 0 else None
        try:
            return None if text is None else _parsed(text)
        except SchemaError:
            return None


def reason_of(data: bytes, writer: AvroType) -> str:
    """Why a record is not read."""
    try:
        read_value(data, writer)
    except SchemaError as error:
        return f"the value is not an Avro record of its schema: {error}"
    return "the value is not an Avro record of its schema"


def _schema_ids(values: pa.Array) -> Any:
    """The schema id of each value; -1 for one that has none."""
    heads = pc.binary_slice(values, 0, _FRAME_BYTES).to_pylist()
    return np.array(
        [
            int.from_bytes(head[1:], "big", signed=True) if len(head) == _FRAME_BYTES and head[0] == 0 else -1
            for head in heads
        ],
        np.int64,
    )


def unreadable(count: int, schema: pa.Schema) -> DecodedRows:
    """The rows of values that are not read."""
    none = pa.repeat(pa.scalar(False), count)
    columns = [pa.nulls(count, each.type) for each in schema]
    return DecodedRows(pa.RecordBatch.from_arrays(columns, schema=schema), none, none)


def together(blocks: list[DecodedRows], order: list[Any], schema: pa.Schema) -> DecodedRows:
    """The rows of all blocks, each where its value stood."""
    if len(blocks) == 1:
        return blocks[0]
    if not blocks:
        return DecodedRows(_no_rows(schema), None, None)
    place = pa.array(np.argsort(np.concatenate(order), kind="stable"))
    rows = pa.Table.from_batches([block.arrow_batch for block in blocks]).combine_chunks().to_batches()[0].take(place)
    counts = [block.arrow_batch.num_rows for block in blocks]
    masks = []
    for each in ([block.is_object for block in blocks], [block.fits for block in blocks]):
        whole = [pa.repeat(pa.scalar(True), n) if mask is None else mask for mask, n in zip(each, counts, strict=True)]
        masks.append(pa.concat_arrays(whole).take(place))
    misfits: Counter[str] = Counter()
    for block in blocks:
        misfits.update(block.misfits)
    is_object, fits = masks
    return DecodedRows(rows, is_object, fits, misfits)


def _no_rows(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([], each.type) for each in schema], schema=schema)


def decode_records(
    values: pa.Array, skipped: int, writer: AvroType, reader: AvroType, schema: pa.Schema
) -> DecodedRows:
    """Read the records after the first ``skipped`` bytes of each value."""
    sources = [_source(name, writer, reader) for name in schema.names]
    is_flat = not any(each.type.without_null()[0].is_nested for each in writer.fields)
    make = _natively if is_flat else _plainly
    columns, good, misfits = make(values, skipped, writer, sources, schema)
    for index, source in enumerate(sources):
        if isinstance(source, _Default):
            wanted = schema.field(index).type
            cell = pa.array([source.cell(wanted)], wanted)[0]
            columns[index] = pc.if_else(good, cell, pa.scalar(None, wanted))
    rows = pa.RecordBatch.from_arrays(columns, schema=schema)
    is_all_good = bool(pc.all(good).as_py()) if len(values) else True
    if is_all_good and not misfits.any():
        return DecodedRows(rows, None, None)
    return DecodedRows(rows, good, pc.and_(good, pa.array(~misfits)))


@dataclass(frozen=True, slots=True)
class _Default:
    """A column that the writer knows nothing of."""

    reader: AvroField | None

    def cell(self, wanted: pa.DataType) -> Any:
        if self.reader is None or not self.reader.has_default or self.reader.default is None:
            return None
        kind, value = self.reader.type.without_null()[0], self.reader.default
        if kind.kind in ("bytes", "fixed"):
            value = str(value).encode("latin-1", "replace")
        return _cell(value, kind, wanted)


def _source(name: str, writer: AvroType, reader: AvroType) -> AvroField | _Default:
    """The writer's field that the column takes its values from, or what it has without one."""
    asked = next((each for each in reader.fields if each.name == name), None)
    names = (name,) if asked is None else (name, *asked.aliases)
    for known in names:
        for each in writer.fields:
            if each.name == known:
                return each
    return _Default(asked)


Columns = tuple[list[Any], Any, Any]
"""A column each (None for a default), which values are good (Arrow), and which have a misfit (numpy)."""


def _plainly(
    values: pa.Array, skipped: int, writer: AvroType, sources: list[AvroField | _Default], schema: pa.Schema
) -> Columns:
    found: list[dict[str, Any] | None] = []
    for value in values.to_pylist():
        try:
            found.append(read_value(value[skipped:], writer))
        except SchemaError:
            found.append(None)
    misfits = np.zeros(len(values), np.bool_)
    columns: list[Any] = []
    for source, wanted in zip(sources, schema, strict=True):
        if isinstance(source, _Default):
            columns.append(None)
            continue
        raw = [None if row is None else row[source.name] for row in found]
        kind = source.type.without_null()[0]
        if kind.is_nested and pa.types.is_nested(wanted.type):
            column = _nested_column(raw, source.type, wanted.type)
        else:
            column = pa.array([_cell(value, kind, wanted.type) for value in raw], wanted.type)
        is_null = np.array([value is None for value in raw], np.bool_)
        misfits |= np.asarray(column.is_null()) & ~is_null
        columns.append(column)
    return columns, pa.array([row is not None for row in found], pa.bool_()), misfits


def _natively(
    values: pa.Array, skipped: int, writer: AvroType, sources: list[AvroField | _Default], schema: pa.Schema
) -> Columns:
    numbers = {source.name: index for index, source in enumerate(sources) if isinstance(source, AvroField)}
    program = np.array([_step(each, numbers.get(each.name, -1)) for each in writer.fields], np.int64)
    _, offsets, data = values.buffers()
    at = np.frombuffer(offsets, np.int32)[values.offset : values.offset + len(values) + 1].copy()
    source = np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8)
    source.flags.writeable = False
    first = np.zeros((len(sources), len(values)), np.int64)
    second = np.full((len(sources), len(values)), -1, np.int64)
    good = np.zeros(len(values), np.uint8)
    native.decode_values(source, at, skipped, program, first, second, good)
    misfits = np.zeros(len(values), np.bool_)
    columns: list[Any] = []
    for index, each in enumerate(sources):
        if isinstance(each, _Default):
            columns.append(None)
            continue
        # Two columns may be one field's: its values are where the last of them is.
        cells = _Cells(first[numbers[each.name]], second[numbers[each.name]], source)
        column = _column(cells, each.type.without_null()[0], schema.field(index).type)
        misfits |= np.asarray(column.is_null()) & ~cells.is_null
        columns.append(column)
    return columns, pa.array(good.astype(np.bool_)), misfits


def _step(each: AvroField, column: int) -> tuple[int, int, int, int]:
    kind, null_branch = each.type.without_null()
    return _KINDS[kind.kind], column, null_branch, kind.size or len(kind.symbols)


@dataclass(frozen=True, slots=True)
class _Cells:
    """A field of all values, as the native decoder notes it."""

    first: Any
    second: Any
    source: Any

    @property
    def is_null(self) -> Any:
        return self.second < 0

    def numbers(self, kind: AvroType) -> Any:
        if kind.kind == "float":
            return self.first.astype(np.uint32).view(np.float32).astype(np.float64)
        return self.first.view(np.float64) if kind.kind == "double" else self.first

    def bytes(self) -> pa.Array:
        sizes = np.maximum(self.second, 0)
        offsets = np.zeros(len(sizes) + 1, np.int32)
        np.cumsum(sizes, out=offsets[1:])
        data = np.empty(int(offsets[-1]), np.uint8)
        copy_fields(self.source, self.first, offsets, data)
        validity = pa.array(~self.is_null).buffers()[1]
        return pa.Array.from_buffers(pa.binary(), len(sizes), [validity, pa.py_buffer(offsets), pa.py_buffer(data)])


def _column(cells: _Cells, kind: AvroType, wanted: pa.DataType) -> pa.Array:
    """The cells as a column; a value that does not fit is null. Does for all cells what ``_cell`` does for one."""
    if kind.kind in ("bytes", "string", "fixed"):
        return _column_of_bytes(cells.bytes(), kind, wanted)
    null = cells.is_null
    if kind.kind == "enum" and pa.types.is_string(wanted):
        return pa.array(kind.symbols, pa.string()).take(pa.array(cells.first, mask=null))
    if kind.kind == "boolean" and pa.types.is_boolean(wanted):
        return pa.array(cells.first != 0, mask=null)
    numbers = cells.numbers(kind)
    if kind.kind in ("int", "long") and pa.types.is_integer(wanted):
        bounds = np.iinfo(wanted.to_pandas_dtype())
        beyond = (numbers < bounds.min) | (numbers > bounds.max)
        return pa.array(np.where(beyond, 0, numbers).astype(bounds.dtype), wanted, mask=null | beyond)
    if _is_promoted(kind, wanted):
        return pa.array(numbers.astype(wanted.to_pandas_dtype()), wanted, mask=null)
    if kind.kind in ("int", "long") and pa.types.is_temporal(wanted):
        return _moments(numbers, null, kind, wanted)
    return pa.nulls(len(null), wanted)


def _is_promoted(kind: AvroType, wanted: pa.DataType) -> bool:
    if pa.types.is_float64(wanted):
        return kind.kind in ("int", "long", "float", "double")
    return bool(pa.types.is_float32(wanted)) and kind.kind in ("int", "long", "float")


def _moments(numbers: Any, null: Any, kind: AvroType, wanted: pa.DataType) -> pa.Array:
    factor = _factor(kind, wanted)
    if factor == 0:
        return pa.nulls(len(null), wanted)
    stored = pa.int32() if pa.types.is_date32(wanted) else pa.int64()
    bound = np.iinfo(stored.to_pandas_dtype()).max // factor
    beyond = (numbers > bound) | (numbers < -bound)
    return pa.array(
        (np.where(beyond, 0, numbers) * factor).astype(stored.to_pandas_dtype()), stored, mask=null | beyond
    ).view(wanted)


def _factor(kind: AvroType, wanted: pa.DataType) -> int:
    """The number of the column's units in one unit of the field; 0 if the field cannot be read as the column."""
    if pa.types.is_date32(wanted):
        return 1 if kind.logical == "date" else 0
    if not pa.types.is_timestamp(wanted) or "timestamp" not in kind.logical:
        return 0
    return 1000 if kind.logical.endswith("millis") else 1


def _column_of_bytes(column: pa.Array, kind: AvroType, wanted: pa.DataType) -> pa.Array:
    if pa.types.is_string(wanted) and kind.kind != "fixed" and not kind.logical:
        try:
            return column.cast(pa.string())
        except pa.ArrowInvalid:  # not UTF-8: read with replacement characters, as header names are
            return _by_cell(column, kind, wanted)
    if pa.types.is_binary(wanted) and not kind.logical:
        return column
    return _by_cell(column, kind, wanted)


def _by_cell(column: pa.Array, kind: AvroType, wanted: pa.DataType) -> pa.Array:
    return pa.array([_cell(value, kind, wanted) for value in column.to_pylist()], wanted)


def _cell(value: Any, kind: AvroType, wanted: pa.DataType) -> Any:
    """One value as its column has it, or None where it does not fit."""
    if value is None:
        return None
    if kind.is_nested:
        return _nested_text(value, kind) if pa.types.is_string(wanted) else None
    convert = _BY_KIND[kind.kind]
    try:
        return convert(value, kind, wanted)
    except (ValueError, OverflowError, decimal.InvalidOperation, pa.ArrowException):
        return None


def _nested_column(raw: list[Any], kind: AvroType, wanted: pa.DataType) -> pa.Array:
    """Nested values as columns of nested types have them: by their JSON."""
    texts = [_nested_text(value, kind) or "null" for value in raw]
    return (
        decode(pa.array([f'{{"v":{text}}}' for text in texts], pa.string()), [JsonField("v", wanted)]).columns[0].array
    )


def _plain(value: Any, kind: AvroType) -> Any:
    """A value in the types that JSON's text is made of, by its logical type."""
    if kind.kind == "union":
        kind = kind.without_null()[0]
    if value is None or kind.kind == "union":
        return value
    if kind.kind == "record":
        return {field.name: _plain(value[field.name], field.type) for field in kind.fields}
    if kind.kind == "map":
        return {name: _plain(each, kind.branches[0]) for name, each in value.items()}
    if kind.kind == "array":
        return [_plain(each, kind.branches[0]) for each in value]
    wanted = _LOGICAL.get(kind.logical)
    if kind.logical == "decimal":
        wanted = pa.decimal128(kind.precision, kind.scale)
    if wanted is None:
        return value
    cell = _cell(value, kind, wanted)
    return cell.as_py() if isinstance(cell, pa.Scalar) else cell


def _nested_text(value: Any, kind: AvroType) -> str | None:
    try:
        value = _plain(value, kind)
        text = value if isinstance(value, str) else json_text(value)
        return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    except SchemaError:  # NaN has no JSON form
        return None


def _cell_of_number(value: Any, kind: AvroType, wanted: pa.DataType) -> Any:
    if pa.types.is_integer(wanted) and kind.kind in ("int", "long"):
        return pa.scalar(value, wanted).as_py()
    if _is_promoted(kind, wanted):
        return float(np.dtype(wanted.to_pandas_dtype()).type(value))
    factor = _factor(kind, wanted)
    stored = pa.int32() if pa.types.is_date32(wanted) else pa.int64()
    # The lowest number has no opposite: it is out of bounds here as it is for all at once.
    return pa.scalar(value * factor, stored).cast(wanted) if factor and pa.scalar(-value * factor, stored) else None


def _cell_of_bytes(value: Any, kind: AvroType, wanted: pa.DataType) -> Any:
    data = value.encode("utf-8", "surrogateescape") if isinstance(value, str) else value
    if kind.logical == "decimal":
        if not pa.types.is_decimal(wanted):
            return None
        unscaled = decimal.Decimal(int.from_bytes(data, "big", signed=True))
        return pa.scalar(unscaled.scaleb(-kind.scale, decimal.Context(prec=76)), wanted).as_py()
    if pa.types.is_binary(wanted):
        return data
    return data.decode("utf-8", "replace") if pa.types.is_string(wanted) and kind.kind != "fixed" else None


def _cell_of_choice(value: Any, kind: AvroType, wanted: pa.DataType) -> Any:
    fits = pa.types.is_boolean(wanted) if kind.kind == "boolean" else pa.types.is_string(wanted)
    return value if fits else None


_BY_KIND: dict[str, Callable[[Any, AvroType, pa.DataType], Any]] = {
    **dict.fromkeys(("int", "long", "float", "double"), _cell_of_number),
    **dict.fromkeys(("bytes", "string", "fixed"), _cell_of_bytes),
    **dict.fromkeys(("boolean", "enum", "null"), _cell_of_choice),
}
