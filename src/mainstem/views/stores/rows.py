"""Rows as a query answers them: plain JSON values, whatever the store's own types are. Pure functions.

A row of a key-value, SQL or search view carries its record's key as ``_key``. What JSON cannot hold is answered as
text: dates and times in ISO 8601, numbers beyond a double's range, bytes in base64. NaN and Infinity are answered as
null. The fields that a row adds about its record replace a value's own fields of these names: ``_key``, and ``_score``
of a search.
"""

from __future__ import annotations

import base64
import datetime
import decimal
import json
import math
import re
from typing import Any

from mainstem.views.stores.store import Row

KEY = "_key"
_STRING_OR_NO_NUMBER = re.compile(r'"(?:[^"\\]|\\.)*"|-?(?:nan|inf(?:inity)?)', re.DOTALL | re.IGNORECASE)


def row_of(key: str, text: str | bytes) -> Row:
    """The row of a key: the key and the fields of its JSON object; other JSON becomes the field ``value``.

    So does text that is not JSON: a view writes none, but another process may have written it to the store, and a
    verification then shows it.
    """
    try:
        value = value_of(text)
    except ValueError:
        value = text if isinstance(text, str) else readable(text)
    own = {KEY: key}
    return own | value | own if isinstance(value, dict) else {KEY: key, "value": value}


def readable(text: bytes) -> str:
    """UTF-8 as it is, and other bytes by their numbers, with a backslash."""
    return text.decode(errors="backslashreplace")


def value_of(text: str | bytes) -> Any:
    """The value of a stored JSON text."""
    text = text if isinstance(text, str) else text.decode()
    try:
        return _DECODER.decode(text)
    except ValueError:
        return _forgiving(text)


def _forgiving(text: str) -> Any:
    """Read what Python's parser refuses and a store may hold: ``nan``, ``inf``, integers of over 4,300 digits."""
    strict = _STRING_OR_NO_NUMBER.sub(lambda found: found[0] if found[0].startswith('"') else "null", text)
    return json.loads(strict, parse_float=_number, parse_int=_integer)


def plain(value: Any) -> Any:
    """``value`` in JSON's types."""
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else None
        case datetime.datetime():
            return _iso(value)
        case datetime.date() | datetime.time():
            return value.isoformat()
        case decimal.Decimal():
            return str(value)
        case bytes() | bytearray() | memoryview():
            return base64.b64encode(value).decode()
        case dict():
            return {str(plain(name)): plain(entry) for name, entry in value.items()}
        case list() | tuple() | set():
            return [plain(entry) for entry in value]
        case _:
            return str(value)


def _iso(value: datetime.datetime) -> str:
    if value.tzinfo is None:
        return value.isoformat()
    return value.astimezone(datetime.UTC).replace(tzinfo=None).isoformat() + "Z"


def _number(text: str) -> float | str:
    number = float(text)
    return number if math.isfinite(number) else text


def _integer(text: str) -> int | str:
    try:
        return int(text)
    except ValueError:
        return text


def _null(_name: str) -> None:
    return None


_DECODER = json.JSONDecoder(parse_float=_number, parse_constant=_null)  # json.loads would make one at each call
