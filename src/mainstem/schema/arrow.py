"""A topic's schema in Arrow's types. Imported only where Arrow is at work, because loading pyarrow takes 0.1 s."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from mainstem.schema.types import TopicSchema

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


def arrow_schema(schema: TopicSchema) -> pa.Schema:
    """The columns of ``schema`` as Arrow fields, in order."""
    return pa.schema([pa.field(c.name, arrow_type(c.type), nullable=c.nullable) for c in schema.columns])
