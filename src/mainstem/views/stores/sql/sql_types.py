"""The columns of a SQL view: from a topic's schema to DuckDB's types. Pure functions.

A column holds what Spark's type holds: TIMESTAMP is an instant (shown in UTC), TIMESTAMP_NTZ a time without a zone. A
nested type is DuckDB's JSON, so that ``column->>'field'`` works. BINARY stays the base64 text that the value carries.
A topic without a schema has one column, ``value``, of the type JSON.
"""

from __future__ import annotations

from dataclasses import dataclass

from mainstem.schema.types import TopicSchema
from mainstem.views.stores.json_reader import JsonColumn

_TYPES = {
    "STRING": "VARCHAR",
    "BOOLEAN": "BOOLEAN",
    "TINYINT": "TINYINT",
    "SMALLINT": "SMALLINT",
    "INT": "INTEGER",
    "BIGINT": "BIGINT",
    "FLOAT": "FLOAT",
    "DOUBLE": "DOUBLE",
    "DATE": "DATE",
    "TIMESTAMP": "TIMESTAMPTZ",
    "TIMESTAMP_NTZ": "TIMESTAMP",
    "BINARY": "VARCHAR",
}


@dataclass(frozen=True, slots=True)
class SqlColumns:
    """How the table of a SQL view is made and filled. ``fields`` is empty where the topic has no schema."""

    fields: tuple[JsonColumn, ...]

    @classmethod
    def of(cls, schema: TopicSchema | None) -> SqlColumns:
        """The columns for a topic's schema, or for none."""
        if schema is None:
            return cls(())
        return cls(tuple(JsonColumn(c.name, c.type, c.nullable) for c in schema.columns))

    def table_ddl(self) -> str:
        """The columns as CREATE TABLE needs them, after the key."""
        if not self.fields:
            return "value JSON NOT NULL"
        return ", ".join(
            f"{identifier(c.name)} {duckdb_type(c.type)}" + ("" if c.nullable else " NOT NULL") for c in self.fields
        )

    def selection(self) -> str:
        """The columns as they are taken from what the JSON reader read."""
        if not self.fields:
            return "text"
        return ", ".join(f"struct_extract_at(row, {number})" for number in range(1, len(self.fields) + 1))


def duckdb_type(spark_type: str) -> str:
    """The DuckDB type of a canonical Spark SQL type."""
    return spark_type if spark_type.startswith("DECIMAL(") else _TYPES.get(spark_type, "JSON")


def identifier(name: str) -> str:
    """``name`` as a quoted SQL identifier."""
    return '"' + name.replace('"', '""') + '"'
