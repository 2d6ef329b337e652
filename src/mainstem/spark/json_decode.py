"""JSON values into a topic's typed Arrow columns, natively: some 270,000 records a second and core, 20 columns each.

Contract: one row for each value. A field that is unknown is passed over; one that is missing or null is null, and so is
one whose value does not fit its column (a number beside text: the column STRING takes numbers, booleans, lists and
objects as their JSON text). A value that is no JSON object gives a row of nulls, and ``is_object`` says so; ``fits``
says of which rows every value that the columns ask for fitted.

Invariant: what a record becomes depends on it alone. Arrow's parser reads a block at once; where it refuses the block,
the block is halved until the record that it refuses stands (almost) alone, and that is read by Python's parser, which
gives the same columns for whatever Arrow's parser takes. Pure; safe from any thread.
"""

from __future__ import annotations

import base64
import decimal
import json
import re
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from mainstem.errors import SchemaError
from mainstem.schema.encoding import decode_value

_HALVED_DOWN_TO = 32
_OPENS = re.compile(rb"[ \t\r\n]*\{")


class DecodedRows(NamedTuple):
    """The rows, and which of them (boolean arrays; None: all) came from an object, and from one that fits."""

    arrow_batch: pa.RecordBatch
    is_object: pa.Array | None
    fits: pa.Array | None


class JsonDecoder(NamedTuple):
    """JSON as a way to decode values; see ``typed_scan.ValueDecoder``."""

    @property
    def refusal(self) -> str:
        """What is said of a value that is not read."""
        return "is no JSON object"

    def decode(self, values: pa.Array, schema: pa.Schema) -> DecodedRows:
        """``decode_json``."""
        return decode_json(values, schema)

    def reason(self, value: bytes) -> str:
        """Why a value is not read."""
        try:
            decode_value(value)
        except SchemaError as error:
            return str(error)
        return "the value is no JSON object"


def decode_json(values: pa.Array, schema: pa.Schema) -> DecodedRows:
    """Read ``values`` (binary) into the columns of ``schema``."""
    blocks = list(_blocks(values, schema))
    if len(blocks) == 1:
        return blocks[0]
    table = pa.Table.from_batches([block.arrow_batch for block in blocks], schema)
    arrow_batch = table.combine_chunks().to_batches()[0]
    is_object = _joined([(block.is_object, block.arrow_batch.num_rows) for block in blocks])
    return DecodedRows(arrow_batch, is_object, _joined([(block.fits, block.arrow_batch.num_rows) for block in blocks]))


def _joined(masks: list[tuple[pa.Array | None, int]]) -> pa.Array:
    return pa.concat_arrays([pa.repeat(pa.scalar(True), count) if mask is None else mask for mask, count in masks])


def _blocks(values: pa.Array, schema: pa.Schema) -> list[DecodedRows]:
    arrow_batch = _parse_block(values, schema)
    if arrow_batch is None and any(_is_beyond_arrow(field.type) for field in schema):
        return [_careful(values, schema)]
    if arrow_batch is not None:
        return [DecodedRows(arrow_batch, None, None)]
    if len(values) <= _HALVED_DOWN_TO:
        return [_careful(values, schema)]
    middle = len(values) // 2
    return _blocks(values[:middle], schema) + _blocks(values[middle:], schema)


def _parse_block(values: pa.Array, schema: pa.Schema) -> pa.RecordBatch | None:
    """All values by Arrow's parser in one pass; None when it refuses one of them."""
    if len(values) == 0 or values.null_count or not _all_open_an_object(values):
        return None
    if any(_is_beyond_arrow(field.type) for field in schema):
        return None
    block = pc.binary_join(pa.ListArray.from_arrays(pa.array([0, len(values)], pa.int32()), values), b"\n")[0]
    buffer = block.as_buffer()
    parsing = pj.ParseOptions(explicit_schema=_parsed_schema(schema), unexpected_field_behavior="ignore")
    reading = pj.ReadOptions(use_threads=False, block_size=buffer.size + 1)
    try:
        table = pj.read_json(pa.BufferReader(buffer), read_options=reading, parse_options=parsing)
        # Each value opens an object, so that several objects in one value make too many rows.
        if table.num_rows != len(values):
            return None
        columns = [_cast(table.column(field.name).combine_chunks(), field.type) for field in schema]
    except (ValueError, pa.ArrowNotImplementedError):  # ArrowInvalid is a ValueError
        return None
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _all_open_an_object(values: pa.Array) -> bool:
    if pc.all(pc.starts_with(values, b"{")).as_py():
        return True
    return all(_OPENS.match(value) for value in values.to_pylist())


def _parsed_schema(schema: pa.Schema) -> pa.Schema:
    return pa.schema([pa.field(field.name, _parsed_type(field.type)) for field in schema])


def _parsed_type(wanted: pa.DataType) -> pa.DataType:
    """What Arrow's parser is asked for: it reads dates as numbers, and bytes as they stand instead of as base64."""
    if pa.types.is_struct(wanted):
        return pa.struct([field.with_type(_parsed_type(field.type)) for field in wanted])
    if pa.types.is_list(wanted):
        return pa.list_(wanted.value_field.with_type(_parsed_type(wanted.value_type)))
    return pa.string() if pa.types.is_date(wanted) or pa.types.is_binary(wanted) else wanted


def _is_beyond_arrow(wanted: pa.DataType, *, inside: bool = False) -> bool:
    """Whether the type has a part that Arrow's parser, and a cast after it, cannot give: a map, bytes inside."""
    if pa.types.is_struct(wanted):
        return any(_is_beyond_arrow(field.type, inside=True) for field in wanted)
    if pa.types.is_list(wanted):
        return _is_beyond_arrow(wanted.value_type, inside=True)
    return pa.types.is_map(wanted) or (inside and pa.types.is_binary(wanted))


def _cast(column: pa.Array, wanted: pa.DataType) -> pa.Array:
    if pa.types.is_binary(wanted):
        return pa.array([None if text is None else _bytes(text) for text in column.to_pylist()], wanted)
    return column if column.type == wanted else column.cast(wanted)


def _careful(values: pa.Array, schema: pa.Schema) -> DecodedRows:
    """Each value by Python's parser, each cell by itself."""
    rows = [_object(value) for value in values.to_pylist()]
    fits = [row is not None for row in rows]
    is_object = pa.array(fits, pa.bool_())
    columns = []
    for field in schema:
        found = [None if row is None else row.get(field.name) for row in rows]
        cells = [_cell(value, field.type) for value in found]
        fits = [
            fit and (cell is not None or value is None) for fit, cell, value in zip(fits, cells, found, strict=True)
        ]
        columns.append(pa.array(cells, field.type))
    return DecodedRows(pa.RecordBatch.from_arrays(columns, schema=schema), is_object, pa.array(fits, pa.bool_()))


def _object(value: bytes | None) -> dict[str, Any] | None:
    if value is None:
        return None
    try:
        row = json.loads(value)
    except (ValueError, RecursionError):  # UnicodeDecodeError is a ValueError
        return None
    return row if isinstance(row, dict) else None


def _cell(value: Any, wanted: pa.DataType) -> Any:
    """``value`` as the column's type has it, or None where it does not fit."""
    if value is None:
        return None
    if pa.types.is_string(wanted):
        return _text(value)
    if isinstance(value, bool) != pa.types.is_boolean(wanted):
        return None
    try:
        if pa.types.is_nested(wanted):
            return _nested_cell(value, wanted)
        if pa.types.is_integer(wanted) and isinstance(value, float):
            value = int(value) if value.is_integer() else None
        if pa.types.is_binary(wanted):
            return _bytes(value)
        if pa.types.is_decimal(wanted):
            value = decimal.Decimal(str(value))
        if isinstance(value, str) and (pa.types.is_temporal(wanted)):
            return _moment(value, wanted)
        return pa.scalar(value, wanted).as_py() if not pa.types.is_temporal(wanted) else None
    except (pa.ArrowException, ValueError, TypeError, OverflowError, decimal.InvalidOperation):
        return None


def _nested_cell(value: Any, wanted: pa.DataType) -> Any:
    """A list, an object or a map. Raises ValueError when a part of it does not fit: then the whole does not."""
    if pa.types.is_list(wanted) and isinstance(value, list):
        return [_part(part, wanted.value_type) for part in value]
    if pa.types.is_struct(wanted) and isinstance(value, dict):
        return {field.name: _part(value.get(field.name), field.type) for field in wanted}
    if not (pa.types.is_map(wanted) and isinstance(value, dict)):
        raise ValueError(f"{value!r} is no {wanted}")
    key, item = wanted.key_type, wanted.item_type
    is_bare = pa.types.is_integer(key) or pa.types.is_floating(key) or pa.types.is_boolean(key)
    return [(_part(json.loads(name) if is_bare else name, key), _part(part, item)) for name, part in value.items()]


def _part(value: Any, wanted: pa.DataType) -> Any:
    cell = _cell(value, wanted)
    if cell is None and value is not None:
        raise ValueError(f"{value!r} is no {wanted}")
    return cell.as_py() if isinstance(cell, pa.Scalar) else cell


def _bytes(text: str) -> bytes:
    return base64.b64decode(text, validate=True)


def _text(value: Any) -> str | None:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    try:
        text.encode()
    except UnicodeEncodeError:  # half of a surrogate pair
        return None
    return text


def _moment(text: str, wanted: pa.DataType) -> Any:
    """A date or time by Arrow's own parser, so that both ways agree."""
    if pa.types.is_date(wanted):
        return pa.array([text]).cast(wanted)[0].as_py()
    block = json.dumps({"moment": text}).encode()
    parsing = pj.ParseOptions(explicit_schema=pa.schema([("moment", wanted)]))
    return pj.read_json(pa.BufferReader(block), parse_options=parsing).column("moment")[0]
