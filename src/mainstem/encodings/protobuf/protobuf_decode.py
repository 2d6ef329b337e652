"""Protobuf values into typed Arrow columns, through the product's JSON. Pure; safe from any thread.

Fields go to columns by name. A field that was not set is null where Protobuf knows that, and the type's default where
it does not (scalars of proto3 without ``optional``). Repeated fields and maps are never null. 64-bit integers are
numbers, bytes base64, enums their names, times RFC 3339, wrappers their values, a ``oneof`` the one field that is set.
``google.type.Date`` and ``confluent.type.Decimal``, which Kafka Connect writes, are text. Unknown fields are passed
over. NaN and the infinities are null.
"""

from __future__ import annotations

import base64
import datetime
import decimal
import json
from typing import Any, Final

import pyarrow as pa

from mainstem.client.values import time_text
from mainstem.encodings.protobuf.protobuf_messages import message_class, split_place
from mainstem.errors import SchemaError
from mainstem.schema.json_rows import DecodedRows, decode_json

_UNREADABLE: Final = b""
_EPOCH: Final = datetime.datetime(1970, 1, 1)
_WRAPPERS: Final = frozenset(
    f"google.protobuf.{kind}Value"
    for kind in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
)

_DECIMALS: Final = frozenset({"confluent.type.Decimal", "confluent.types.Decimal"})
_DECIMAL_BYTES_MAX: Final = 32
_SCALE_MAX: Final = 76
"""A decimal of more has no column that it fits; its text could be very long."""
_DIGITS: Final = decimal.Context(prec=80)


def decode_messages(values: pa.Array, frame_bytes: int, text: str, schema: pa.Schema) -> DecodedRows:
    """Read the messages behind the first ``frame_bytes`` bytes of each value into the columns of ``schema``."""
    texts = []
    for value in values.to_pylist():
        try:
            texts.append(json_of(value[frame_bytes:], text))
        except SchemaError:
            texts.append(_UNREADABLE)
    return decode_json(pa.array(texts, pa.binary()), schema)


def reason_of_message(data: bytes, text: str) -> str:
    """Why a value is not read."""
    try:
        json_of(data, text)
    except SchemaError as error:
        return f"the value is not a Protobuf message of its schema: {error}"
    return "the value does not fit its columns"


def json_of(data: bytes, text: str) -> bytes:
    """One value as JSON. Raises SchemaError."""
    from google.protobuf.message import DecodeError

    place, at = split_place(data)
    message = message_class(text, place)()
    try:
        message.ParseFromString(data[at:])
        return json.dumps(_object(message), ensure_ascii=False, separators=(",", ":")).encode()
    except (DecodeError, UnicodeError, RecursionError) as error:
        raise SchemaError(" ".join(str(error).split())[:300] or "its bytes do not add up") from error


def _object(message: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for field in message.DESCRIPTOR.fields:
        if field.is_repeated:
            found[field.name] = _many(getattr(message, field.name), field)
        elif not field.has_presence or message.HasField(field.name):
            found[field.name] = _one(getattr(message, field.name), field)
    return found


def _many(values: Any, field: Any) -> Any:
    kind = field.message_type
    if kind is None or not kind.GetOptions().map_entry:
        return [_one(each, field) for each in values]
    of_value = kind.fields_by_name["value"]
    return {_key(name): _one(values[name], of_value) for name in values}


def _key(key: Any) -> str:
    return ("true" if key else "false") if isinstance(key, bool) else str(key)


def _one(value: Any, field: Any) -> Any:
    if field.message_type is not None:
        return _message(value)
    if field.enum_type is not None:
        known = field.enum_type.values_by_number.get(value)
        return str(value) if known is None else known.name
    return base64.b64encode(value).decode() if isinstance(value, bytes) else value


def _message(message: Any) -> Any:
    name = message.DESCRIPTOR.full_name
    if name in _DECIMALS:
        return _decimal_text(message)
    if name == "google.type.Date":
        return f"{message.year:04}-{message.month:02}-{message.day:02}"
    if not name.startswith("google.protobuf."):
        return _object(message)
    if name == "google.protobuf.Timestamp":
        try:
            return time_text(_EPOCH + datetime.timedelta(seconds=message.seconds, microseconds=message.nanos // 1000))
        except OverflowError:
            return f"{message.seconds} s after 1970"  # no time that a column has: it does not fit
    if name in _WRAPPERS:
        return _one(message.value, message.DESCRIPTOR.fields_by_name["value"])
    from google.protobuf import json_format

    try:
        return json_format.MessageToDict(message)
    except (json_format.Error, TypeError, ValueError) as error:
        raise SchemaError(f"a {name} has no JSON form: {' '.join(str(error).split())[:200]}") from error


def _decimal_text(message: Any) -> str:
    """A decimal of a scale and the bytes of a whole number, big-endian."""
    if len(message.value) > _DECIMAL_BYTES_MAX or abs(message.scale) > _SCALE_MAX:
        raise SchemaError(
            f"a decimal of {len(message.value)} bytes and scale {message.scale}: at most {_DECIMAL_BYTES_MAX} bytes "
            f"and a scale up to {_SCALE_MAX} are read"
        )
    number = int.from_bytes(message.value, "big", signed=True)
    return format(decimal.Decimal(number).scaleb(-message.scale, _DIGITS), "f")
