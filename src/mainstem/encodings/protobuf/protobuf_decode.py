"""Protobuf values into typed Arrow columns, natively where their messages are ordinary ones of proto3. Pure; safe from
any thread.

Fields go to columns by name. A field that was not set is null where Protobuf knows that, and the type's default where
it does not (scalars of proto3 without ``optional``). Repeated fields and maps are never null. Unknown fields are passed
over. NaN and the infinities are null.

Invariant: what the native decoder does not read, Protobuf's own library judges (``protobuf_json``); where both read a
value, they read the same.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa

from mainstem.encodings.protobuf.protobuf_json import Wanted, json_of
from mainstem.encodings.protobuf.protobuf_messages import message_class, split_place
from mainstem.encodings.protobuf.protobuf_native import MessageLevel, Messages, read_messages
from mainstem.encodings.protobuf.protobuf_programs import is_native, wanted_of
from mainstem.errors import SchemaError
from mainstem.schema.avro_decode import together
from mainstem.schema.json_rows import DecodedRows, decode_json, without_columns

_UNREADABLE: Final = b""
_TYPES_MAX: Final = 16
"""Values of more message types than this are read one at a time."""


def decode_messages(values: pa.Array, frame_bytes: int, text: str, schema: pa.Schema) -> DecodedRows:
    """Read the messages after the first ``frame_bytes`` bytes of each value into the columns of ``schema``."""
    wanted = tuple((field.name, field.type) for field in schema)
    source, starts, ends = _bounds(values, frame_bytes)
    left = np.arange(len(values))
    blocks, order = [], []
    plain: list[Any] = []
    for _ in range(_TYPES_MAX):
        if not len(left):
            break
        opening, has_it = _same_type(source, starts, ends, left)
        rows, left = left[has_it], left[~has_it]
        level = _natively(Messages.of(source, starts[rows] + len(opening), ends[rows]), opening, text, wanted)
        good = np.zeros(len(rows), np.bool_) if level is None else level.good
        if level is not None and good.any():
            blocks.append(_rows_of(level, schema))
            order.append(rows[good])
        plain.append(rows[~good])
    others = np.concatenate([*plain, left])
    if len(others) or not blocks:
        blocks.append(_plainly(values.take(pa.array(others)), frame_bytes, text, schema))
        order.append(others)
    return together(blocks, order, schema)


def reason_of_message(data: bytes, text: str) -> str:
    """Why a value is not read."""
    try:
        json_of(data, text)
    except SchemaError as error:
        return f"the value is not a Protobuf message of its schema: {error}"
    return "the value does not fit its columns"


def _bounds(values: pa.Array, frame_bytes: int) -> tuple[Any, Any, Any]:
    """All bytes, and where in them each value begins after its frame."""
    _, offsets, data = values.buffers()
    at = np.frombuffer(offsets, np.int32)[values.offset : values.offset + len(values) + 1].astype(np.int64)
    source = np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8)
    source.flags.writeable = False
    return source, at[:-1] + frame_bytes, at[1:].copy()


def _same_type(source: Any, starts: Any, ends: Any, rows: Any) -> tuple[bytes, Any]:
    """The place of the first row's message as it stands there, and which of the rows begin with it."""
    start, end = int(starts[rows[0]]), int(ends[rows[0]])
    try:
        _, size = split_place(source[start:end].tobytes())
    except SchemaError:
        return b"", rows == rows[0]
    opening = source[start : start + size].tobytes()
    has_it = ends[rows] - starts[rows] >= size
    for at, byte in enumerate(opening):
        places = np.where(has_it, starts[rows] + at, 0)
        has_it &= source[places] == byte
    return opening, has_it


def _natively(messages: Messages, opening: bytes, text: str, wanted: Wanted) -> MessageLevel | None:
    """The messages whose place is the opening; None where they are not read natively."""
    try:
        place, _ = split_place(opening)
        message = message_class(text, place).DESCRIPTOR
    except SchemaError:
        return None
    return read_messages(messages, message, wanted) if is_native(message, wanted) else None


def _rows_of(level: MessageLevel, schema: pa.Schema) -> DecodedRows:
    """The rows of the good messages."""
    if not len(schema):
        return DecodedRows(without_columns(int(level.good.sum())), None, None)
    rows = pa.RecordBatch.from_arrays([column.array for column in level.columns], schema=schema)
    misfits = {
        name: column.misfits[level.good]
        for name, column in zip(schema.names, level.columns, strict=True)
        if column.misfits is not None and column.misfits[level.good].any()
    }
    if not level.good.all():
        rows = rows.filter(pa.array(level.good))
    if not misfits:
        return DecodedRows(rows, None, None)
    fits = ~np.logical_or.reduce(list(misfits.values()))
    counts = {name: int(each.sum()) for name, each in misfits.items()}
    return DecodedRows(rows, pa.array(np.ones(rows.num_rows, np.bool_)), pa.array(fits), counts)


def _plainly(values: pa.Array, frame_bytes: int, text: str, schema: pa.Schema) -> DecodedRows:
    texts = []
    for value in values.to_pylist():
        try:
            texts.append(json_of(value[frame_bytes:], text, wanted_of(schema)))
        except SchemaError:
            texts.append(_UNREADABLE)
    return decode_json(pa.array(texts, pa.binary()), schema)
