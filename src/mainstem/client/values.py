"""How Python values become a record's bytes: JSON objects for structured values, UTF-8 for text, bytes as they are.

The JSON is compact UTF-8. Times are RFC 3339 in UTC (``2013-01-01T10:00:00Z``, six digits of fraction where there is
one; a datetime without a zone is taken as UTC), dates ISO, bytes base64, Decimals and UUIDs text. NaN and the
infinities have no JSON form and are refused. Pure functions; safe from any thread.
"""

from __future__ import annotations

import base64
import dataclasses
import datetime
import decimal
import enum
import json
import uuid
from typing import Any

from mainstem.errors import SchemaError


def time_text(time: datetime.datetime) -> str:
    """RFC 3339 in UTC; a datetime without a zone is taken as UTC."""
    moment = time.astimezone(datetime.UTC) if time.tzinfo is not None else time
    return moment.replace(tzinfo=None).isoformat() + "Z"


def _plain(value: Any) -> Any:
    """The JSON form of a value whose type JSON lacks."""
    if isinstance(value, datetime.datetime):
        return time_text(value)
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    if isinstance(value, bytes | bytearray | memoryview):
        return base64.b64encode(value).decode()
    if isinstance(value, decimal.Decimal | uuid.UUID):
        return str(value)
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, set | frozenset):
        return sorted(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if hasattr(value, "model_dump"):  # a pydantic model: its library is loaded then
        return value.model_dump()
    if hasattr(value, "item"):  # a scalar of numpy or pandas
        return value.item()
    raise TypeError(f"{type(value).__name__} has no JSON form")


_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=_plain)


def json_text(value: Any) -> str:
    """``value`` as compact JSON. Raises SchemaError when it has no JSON form."""
    try:
        return _ENCODER.encode(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise SchemaError(f"the value has no JSON form: {error}") from error


def value_bytes(value: Any) -> bytes | None:
    """A record's value: None (a tombstone) and bytes as they are, text as UTF-8, all else as JSON."""
    if value is None or isinstance(value, bytes):
        return value
    if isinstance(value, bytearray | memoryview):
        return bytes(value)
    return (value if isinstance(value, str) else json_text(value)).encode()


def key_bytes(key: Any) -> bytes | None:
    """A record's key: as ``value_bytes``; a tuple or list of columns is a JSON array, a lone scalar its text."""
    if isinstance(key, datetime.datetime):
        return time_text(key).encode()
    if isinstance(key, datetime.date | decimal.Decimal | uuid.UUID):
        return str(key).encode()
    return value_bytes(key)
