"""The columns that the source gives: those of a record, or a topic's own typed ones beside where they came from.

Typed columns are always nullable, whatever the schema says: a value that does not fit its column is null there.
Pure data and functions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from mainstem.schema.ddl import columns_of
from mainstem.schema.types import TopicSchema

RECORD_COLUMNS: Mapping[str, str] = MappingProxyType(
    {
        "key": "BINARY",
        "value": "BINARY",
        "topic": "STRING",
        "partition": "INT",
        "offset": "BIGINT",
        "timestamp": "TIMESTAMP",
        "timestamp_type": "INT",
        "headers": "ARRAY<STRUCT<key: STRING, value: BINARY>>",
    }
)
"""A record's columns, in order, by name: their types in Spark's DDL."""

# Beside a topic's typed columns; → the record's column that it is.
PLACE_COLUMNS: Mapping[str, str] = MappingProxyType(
    {"_offset": "offset", "_partition": "partition", "_timestamp": "timestamp"}
)


def record_ddl(columns: Iterable[str] | None = None) -> str:
    """The DDL of these of a record's columns, all by default."""
    return ", ".join(f"{name} {RECORD_COLUMNS[name]}" for name in columns or RECORD_COLUMNS)


def typed_ddl(value_schema: str, *, with_place: bool) -> str:
    """The DDL of a topic's typed columns, with the columns of the record's place behind them where asked for."""
    columns = TopicSchema(columns_of(value_schema)).columns
    place = [f"{name} {RECORD_COLUMNS[column]}" for name, column in PLACE_COLUMNS.items()] if with_place else []
    return ", ".join([*(f"`{column.name.replace('`', '``')}` {column.type}" for column in columns), *place])
