"""A topic's schema in Arrow's types. Imported only where Arrow is at work, because loading pyarrow takes 0.1 s."""

from __future__ import annotations

import pyarrow as pa

from mainstem.errors import DefinitionError
from mainstem.schema.ddl import columns_of, parts_of
from mainstem.schema.types import type_name

_SCALARS = {
    "STRING": pa.string(),
    "BOOLEAN": pa.bool_(),
    "TINYINT": pa.int8(),
    "SMALLINT": pa.int16(),
    "INT": pa.int32(),
    "BIGINT": pa.int64(),
    "FLOAT": pa.float32(),
    "DOUBLE": pa.float64(),
    "DATE": pa.date32(),
    "TIMESTAMP": pa.timestamp("us", "UTC"),
    "TIMESTAMP_NTZ": pa.timestamp("us"),
    "BINARY": pa.binary(),
}


def arrow_type(name: str) -> pa.DataType:
    """The Arrow type of a canonical Spark SQL type; a nested one is its JSON text, a string."""
    if name.startswith("DECIMAL("):
        precision, scale = name[len("DECIMAL(") : -1].split(",")
        return pa.decimal128(int(precision), int(scale))
    return _SCALARS.get(name, pa.string())


def value_type(name: str) -> pa.DataType:
    """The Arrow type of a canonical Spark SQL type, nested ones as Arrow's own.

    A part of an unknown type (VARIANT, an interval) is any JSON, read as its text.
    """
    opening = name.partition("<")[0].strip().upper()
    if opening not in ("ARRAY", "MAP", "STRUCT"):
        return arrow_type(name)
    inside = name[name.index("<") + 1 : name.rindex(">")]
    if opening == "ARRAY":
        return pa.list_(_part_type(inside))
    if opening == "MAP":
        parts = parts_of(inside)
        return pa.map_(_part_type(parts[0]), _part_type(parts[-1]))
    try:
        return pa.struct([pa.field(column.name, value_type(column.type)) for column in columns_of(inside)])
    except DefinitionError:
        return pa.string()


def _part_type(text: str) -> pa.DataType:
    found = type_name(text)
    return pa.string() if found is None else value_type(found)
