"""A topic's schema in Arrow's types. Imported only where Arrow is at work, because loading pyarrow takes 0.1 s."""

from __future__ import annotations

import pyarrow as pa

from mainstem.schema.ddl import fields_of, nested_parts, parts_of, readable_type

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
    """The Arrow type of a canonical Spark SQL type, nested ones as Arrow's own; a part of another type is a string."""
    return _value_type(readable_type(name))


def _value_type(name: str) -> pa.DataType:
    opening, inside = nested_parts(name)
    if opening == "ARRAY":
        return pa.list_(_value_type(inside))
    if opening == "MAP":
        parts = parts_of(inside)
        return pa.map_(_value_type(parts[0]), _value_type(parts[-1]))
    if opening == "STRUCT":
        return pa.struct([pa.field(field, _value_type(kind)) for field, kind in fields_of(inside)])
    return arrow_type(name.strip())
