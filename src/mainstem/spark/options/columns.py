"""The columns that the source gives: those of a record, or a topic's own typed ones beside where they came from.

Typed columns are always nullable, whatever the schema says: a value that does not fit its column is null there.
Pure data and functions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from mainstem.errors import SchemaError
from mainstem.schema.ddl import columns_of, readable_type
from mainstem.schema.types import TopicSchema

RECORD_COLUMNS: Mapping[str, str] = MappingProxyType(
    {
        "key": "BINARY",
        "value": "BINARY",
        "topic": "STRING",
        "partition": "INT",
        "offset": "BIGINT",
        "timestamp": "TIMESTAMP",
        "timestampType": "INT",
        "headers": "ARRAY<STRUCT<key: STRING, value: BINARY>>",
    }
)
"""A record's columns, in order, by the names that Spark's Kafka connector has: their types in Spark's DDL."""

FORMER_NAMES: Mapping[str, str] = MappingProxyType({"timestamp_type": "timestampType"})
"""Names of columns in former releases, which the option ``columns`` and ``.schema(…)`` still take."""
OFFERED_COLUMNS: Mapping[str, str] = MappingProxyType(
    {**RECORD_COLUMNS} | {former: RECORD_COLUMNS[name] for former, name in FORMER_NAMES.items()}
)

# Beside a topic's typed columns; → the record's column that it is.
PLACE_COLUMNS: Mapping[str, str] = MappingProxyType(
    {"_offset": "offset", "_partition": "partition", "_timestamp": "timestamp"}
)


def record_ddl(columns: Iterable[str] | None = None) -> str:
    """The DDL of these of a record's columns, all by default."""
    return ", ".join(f"{name} {OFFERED_COLUMNS[name]}" for name in columns or RECORD_COLUMNS)


def decoded_name(column: str) -> str:
    """The name that the decoder has for a record's column."""
    return "timestamp_type" if column == "timestampType" else column


def typed_columns(value_schema: str, *, with_place: bool, corrupt: str) -> dict[str, str]:
    """All columns, with their types, that a read of typed columns can give, whether it was asked for them or not."""
    place = {name: RECORD_COLUMNS[column] for name, column in PLACE_COLUMNS.items()} if with_place else {}
    return {**place, corrupt: "STRING"} | {
        column.name: readable_type(column.type) for column in columns_of(value_schema)
    }


def typed_ddl(value_schema: str, *, with_place: bool, corrupt: str | None = None) -> str:
    """The DDL of a topic's typed columns; after them, where asked for, the record's place and what does not parse.

    Raises SchemaError when the topic has a column named ``corrupt`` itself.
    """
    columns = TopicSchema(columns_of(value_schema)).columns
    if corrupt is not None and corrupt.lower() in (column.name.lower() for column in columns):
        raise SchemaError(
            f"option columnNameOfCorruptRecord: the topic has a column {corrupt} itself; take another name"
        )
    beside = [f"{name} {RECORD_COLUMNS[column]}" for name, column in PLACE_COLUMNS.items()] if with_place else []
    beside += [f"{quoted(corrupt)} STRING"] if corrupt is not None else []
    return ", ".join([*(f"{quoted(column.name)} {readable_type(column.type)}" for column in columns), *beside])


def quoted(name: str) -> str:
    """A column's name in Spark's SQL."""
    return f"`{name.replace('`', '``')}`"
