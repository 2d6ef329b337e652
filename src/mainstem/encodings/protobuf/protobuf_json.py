"""Protobuf messages as the product's JSON, by Protobuf's own library: the plain way to read them. Pure functions.

64-bit integers are numbers, bytes base64, enums their names, times RFC 3339, wrappers their values, a ``oneof`` the one
field that is set. ``google.type.Date`` and ``confluent.type.Decimal``, which Kafka Connect writes, are text.
"""

from __future__ import annotations

import base64
import datetime
import decimal
import json
import math
from typing import Any, Final, TypeAlias

import pyarrow as pa

from mainstem.client.values import time_text
from mainstem.encodings.protobuf.protobuf_messages import message_class, split_place
from mainstem.errors import SchemaError

Wanted: TypeAlias = tuple[tuple[str, pa.DataType], ...]
"""The fields of a message that columns ask for, with the types of the columns."""

TIMESTAMP: Final = "google.protobuf.Timestamp"
WRAPPERS: Final = frozenset(
    f"google.protobuf.{kind}Value"
    for kind in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
)
DECIMALS: Final = frozenset({"confluent.type.Decimal", "confluent.types.Decimal"})
DATE: Final = "google.type.Date"

_EPOCH: Final = datetime.datetime(1970, 1, 1)
_DECIMAL_BYTES_MAX: Final = 32
_SCALE_MAX: Final = 76
"""A decimal of more has no column that it fits; its text could be very long."""
_DIGITS: Final = decimal.Context(prec=80)


def json_of(data: bytes, text: str, wanted: Wanted | None = None) -> bytes:
    """One value as JSON: the fields that are wanted (None: all). Raises SchemaError."""
    place, at = split_place(data)
    return message_json(message_class(text, place), data[at:], None if wanted is None else pa.struct(wanted))


def message_json(message_type: Any, data: bytes, wanted: pa.DataType | None) -> bytes:
    """The bytes of a message as JSON, as a column of the wanted type reads it. Raises SchemaError."""
    from google.protobuf.message import DecodeError

    message = message_type()
    try:
        message.ParseFromString(data)
        return json.dumps(_message(message, wanted), ensure_ascii=False, separators=(",", ":")).encode()
    except (DecodeError, UnicodeError, RecursionError) as error:
        raise SchemaError(" ".join(str(error).split())[:300] or "its bytes do not add up") from error


def is_plain(message: Any) -> bool:
    """Whether messages of a type (a descriptor) are objects in JSON, each field by its name."""
    name = message.full_name
    return not (name in DECIMALS or name == DATE or name.startswith("google.protobuf."))


def is_map(field: Any) -> bool:
    """Whether a repeated field is a map."""
    return field.message_type is not None and bool(field.message_type.GetOptions().map_entry)


def scalar_json(value: Any, field: Any) -> Any:
    """The value of a scalar field, as JSON has it; it has no NaN and no infinity."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if field.enum_type is not None:
        known = field.enum_type.values_by_number.get(value)
        return str(value) if known is None else known.name
    return base64.b64encode(value).decode() if isinstance(value, bytes) else value


def _object(message: Any, wanted: pa.DataType | None) -> dict[str, Any]:
    is_chosen = wanted is not None and pa.types.is_struct(wanted)
    kinds = {each.name: each.type for each in wanted} if wanted is not None and is_chosen else {}
    found: dict[str, Any] = {}
    for field in message.DESCRIPTOR.fields:
        if is_chosen and field.name not in kinds:
            continue
        kind = kinds.get(field.name)
        if field.is_repeated:
            found[field.name] = _many(getattr(message, field.name), field, kind)
        elif not field.has_presence or message.HasField(field.name):
            found[field.name] = _one(getattr(message, field.name), field, kind)
    return found


def _many(values: Any, field: Any, wanted: pa.DataType | None) -> Any:
    if not is_map(field):
        inner = wanted.value_type if wanted is not None and pa.types.is_list(wanted) else None
        return [_one(each, field, inner) for each in values]
    of_value = field.message_type.fields_by_name["value"]
    inner = wanted.item_type if wanted is not None and pa.types.is_map(wanted) else None
    return {_key(name): _one(values[name], of_value, inner) for name in values}


def _key(key: Any) -> str:
    return ("true" if key else "false") if isinstance(key, bool) else str(key)


def _one(value: Any, field: Any, wanted: pa.DataType | None) -> Any:
    return scalar_json(value, field) if field.message_type is None else _message(value, wanted)


def _message(message: Any, wanted: pa.DataType | None) -> Any:
    name = message.DESCRIPTOR.full_name
    if is_plain(message.DESCRIPTOR):
        return _object(message, wanted)
    if name in DECIMALS:
        return _decimal_text(message)
    if name == DATE:
        return f"{message.year:04}-{message.month:02}-{message.day:02}"
    if name == TIMESTAMP:
        try:
            return time_text(_EPOCH + datetime.timedelta(seconds=message.seconds, microseconds=message.nanos // 1000))
        except OverflowError:
            return f"{message.seconds} s after 1970"  # no time that a column has: it does not fit
    if name in WRAPPERS:
        return scalar_json(message.value, message.DESCRIPTOR.fields_by_name["value"])
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
