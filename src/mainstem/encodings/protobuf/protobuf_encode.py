"""Arrow columns into Protobuf values, one at a time. Pure; safe from any thread.

A null is a field that is not set. Protobuf has no null array or map and no null inside of one: the first is written as
an empty one, the second is refused. Invariant: but for that, ``protobuf_decode`` reads back the same columns.
"""

from __future__ import annotations

import datetime
import decimal
from typing import Any, Final

import pyarrow as pa

from mainstem.client.values import key_bytes, time_text
from mainstem.encodings.avro_encode import column_of
from mainstem.encodings.protobuf.protobuf_messages import FIRST_MESSAGE, message_class
from mainstem.errors import SchemaError

_EPOCH: Final = datetime.datetime(1970, 1, 1)
_SECOND: Final = datetime.timedelta(seconds=1)


def encode_messages(arrow_batch: pa.RecordBatch, text: str, schema: pa.Schema, frame: bytes) -> pa.Array:
    """A value for each row (binary), behind ``frame``; ``schema`` has the type of each field. Raises SchemaError."""
    new = message_class(text)
    columns = [column_of(arrow_batch, field).to_pylist() for field in schema]
    opening = frame + FIRST_MESSAGE
    found = []
    for row in zip(*columns, strict=True) if columns else [()] * arrow_batch.num_rows:
        message = new()
        _fill(message, zip(schema.names, row, strict=True))
        found.append(opening + message.SerializeToString())
    return pa.array(found, pa.binary())


def _fill(message: Any, values: Any) -> None:
    fields = message.DESCRIPTOR.fields_by_name
    for name, value in values:
        if value is None:
            continue
        field = fields[name]
        try:
            if not field.is_repeated:
                _set(message, field, value)
            elif field.message_type is not None and field.message_type.GetOptions().map_entry:
                _fill_map(getattr(message, name), field.message_type.fields_by_name["value"], value)
            else:
                _extend(getattr(message, name), field, value)
        except (TypeError, ValueError) as error:
            raise SchemaError(f"column {name!r} cannot be written as Protobuf: {error}") from error


def _set(message: Any, field: Any, value: Any) -> None:
    if field.message_type is None:
        setattr(message, field.name, _plain(value))
        return
    inside = getattr(message, field.name)
    inside.SetInParent()
    _fill_message(inside, value)


def _extend(target: Any, field: Any, values: Any) -> None:
    for each in values:
        if each is None:
            raise ValueError("an array has a null in it, which Protobuf does not have")
        if field.message_type is None:
            target.append(_plain(each))
        else:
            _fill_message(target.add(), each)


def _fill_map(target: Any, field: Any, pairs: Any) -> None:
    for name, each in pairs:
        if each is None:
            raise ValueError("a map has a null in it, which Protobuf does not have")
        key = (key_bytes(name) or b"").decode()
        if field.message_type is None:
            target[key] = _plain(each)
        else:
            _fill_message(target[key], each)


def _fill_message(message: Any, value: Any) -> None:
    if not isinstance(value, datetime.datetime):
        _fill(message, value.items())
        return
    since = (value.astimezone(datetime.UTC).replace(tzinfo=None) if value.tzinfo else value) - _EPOCH
    message.seconds = since // _SECOND
    message.nanos = since % _SECOND // datetime.timedelta(microseconds=1) * 1000


def _plain(value: Any) -> Any:
    if isinstance(value, datetime.datetime):
        return time_text(value)
    if isinstance(value, datetime.date):
        return value.isoformat()
    return format(value, "f") if isinstance(value, decimal.Decimal) else value
