"""PostgreSQL's types as columns of a topic, and its text of a value as JSON.

A value without a form in its column's type (``NaN`` in a numeric, ``infinity`` and years before Christ in times) has no
JSON here: ``to_json`` gives None, and ``rows`` keeps PostgreSQL's text beside the row.

The text is that of a session with ``SESSION`` set. Pure functions; safe from any thread.
"""

from __future__ import annotations

import binascii
from collections.abc import Callable
from dataclasses import dataclass
from json.encoder import encode_basestring
from typing import Any, Final

from mainstem.json_depth import is_too_deep
from mainstem.postgres.native.row_code import Kind

SESSION: Final = {
    "client_encoding": "UTF8",
    "datestyle": "ISO",
    "intervalstyle": "iso_8601",
    "timezone": "UTC",
    "bytea_output": "hex",
    "extra_float_digits": "1",
    "xmlbinary": "base64",
}
"""The settings that decide how PostgreSQL writes values."""
_PRECISION_MAX: Final = 38
_HEADER: Final = 4
"""PostgreSQL adds it to a type modifier (VARHDRSZ)."""
_AROUND: Final = "[[["
"""How deep a value lies in its record, envelope included."""

ToJson = Callable[[str], str | None]


@dataclass(frozen=True, slots=True)
class PostgresType:
    """A type of the catalog: its kind (``typtype``), and for an array its element, for a domain what it is made of."""

    oid: int
    name: str
    kind: str = "b"
    element: PostgresType | None = None
    base: PostgresType | None = None
    modifier: int = -1
    """Of a domain: the modifier of its base."""


@dataclass(frozen=True, slots=True)
class ColumnType:
    """The type in a topic's schema, and how a value becomes JSON. ``to_json`` None: its text is JSON already.

    ``kind``: how machine code does it, None where it does not.
    """

    name: str
    to_json: ToJson | None
    kind: Kind | None = None


def column_type(found: PostgresType, modifier: int = -1, dimensions: int = 1) -> ColumnType:
    """The column of a PostgreSQL type; STRING with PostgreSQL's text for types without a closer one.

    ``dimensions``: those that an array was declared with. PostgreSQL does not hold values to it; others do not fit.
    """
    if found.kind == "d" and found.base is not None:
        return column_type(found.base, found.modifier, dimensions)
    if found.element is not None:
        return _array_of(column_type(found.element, modifier), max(1, dimensions))
    if found.oid == _NUMERIC:
        return _numeric(modifier)
    return _KNOWN.get(found.oid, _TEXT)


def _numeric(modifier: int) -> ColumnType:
    if modifier < _HEADER:
        return _TEXT
    precision, scale = (modifier - _HEADER) >> 16 & 0xFFFF, (modifier - _HEADER) & 0x7FF
    if not 1 <= precision <= _PRECISION_MAX or scale > precision:  # a negative scale comes as a large one
        return _TEXT
    return ColumnType(f"DECIMAL({precision},{scale})", _decimal, Kind.DECIMAL)


def _array_of(element: ColumnType, dimensions: int) -> ColumnType:
    name = "ARRAY<" * dimensions + element.name + ">" * dimensions
    return ColumnType(name, lambda text: _array(text, element.to_json, dimensions))


def _array(text: str, to_json: ToJson | None, dimensions: int) -> str | None:
    from psycopg2.extensions import UNICODE, new_array_type

    # Bounds other than 1 stand in front: [0:2]={1,2,3}
    parsed = new_array_type((1,), "TEXT_ARRAY", UNICODE)(text[text.index("{") :], None)
    return _list(parsed, to_json) if not parsed or _depth(parsed) == dimensions else None


def _depth(items: Any) -> int:
    return 1 + _depth(items[0]) if isinstance(items, list) and items else int(isinstance(items, list))


def _list(items: list[Any], to_json: ToJson | None) -> str | None:
    parts = []
    for item in items:
        part = _item(item, to_json)
        if part is None:
            return None
        parts.append(part)
    return f"[{','.join(parts)}]"


def _item(item: Any, to_json: ToJson | None) -> str | None:
    if item is None:
        return "null"
    if isinstance(item, list):
        return _list(item, to_json)
    return item if to_json is None else to_json(item)


def _boolean(text: str) -> str:
    return "true" if text == "t" else "false"


def _float(text: str) -> str | None:
    return text if text[-1].isdigit() else None


def _decimal(text: str) -> str | None:
    return f'"{text}"' if text[-1].isdigit() else None


def _date(text: str) -> str | None:
    return f'"{text}"' if len(text) == 10 and text[4] == "-" else None


def _timestamp(text: str) -> str | None:
    return f'"{text[:10]}T{text[11:]}"' if _is_year_of_four(text) and text[-1].isdigit() else None


def _timestamp_with_zone(text: str) -> str | None:
    is_plain = len(text) >= 22 and text[4] == "-" and text[-3:] == "+00"
    return f'"{text[:10]}T{text[11:-3]}Z"' if is_plain else None


def _is_year_of_four(text: str) -> bool:
    return len(text) >= 19 and text[4] == "-"


def _bytes(text: str) -> str:
    return '"' + binascii.b2a_base64(bytes.fromhex(text[2:]), newline=False).decode() + '"'


def _json(text: str) -> str:
    """JSON as it stands, so that readers find the object; what would make the record too deep to read stays text."""
    return str(encode_basestring(text)) if is_too_deep(_AROUND + text) else text.strip(" \n\r\t")


_NUMERIC: Final = 1700
_TEXT: Final = ColumnType("STRING", encode_basestring, Kind.TEXT)
_KNOWN: Final = {
    16: ColumnType("BOOLEAN", _boolean, Kind.BOOLEAN),
    17: ColumnType("BINARY", _bytes, Kind.BYTES),
    20: ColumnType("BIGINT", None, Kind.PLAIN),
    21: ColumnType("SMALLINT", None, Kind.PLAIN),
    23: ColumnType("INT", None, Kind.PLAIN),
    26: ColumnType("BIGINT", None, Kind.PLAIN),
    114: ColumnType("STRING", _json, Kind.JSON),
    700: ColumnType("FLOAT", _float, Kind.FLOAT),
    701: ColumnType("DOUBLE", _float, Kind.FLOAT),
    1082: ColumnType("DATE", _date, Kind.DATE),
    1114: ColumnType("TIMESTAMP_NTZ", _timestamp, Kind.TIMESTAMP),
    1184: ColumnType("TIMESTAMP", _timestamp_with_zone, Kind.TIMESTAMP_TZ),
    3802: ColumnType("STRING", _json, Kind.JSON),
}
"""By the type's oid, which is fixed in every PostgreSQL (pg_type.dat)."""
