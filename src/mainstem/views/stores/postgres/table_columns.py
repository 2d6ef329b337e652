"""A topic's schema as a table of PostgreSQL: its columns, their types and the primary key. Pure functions.

A record's key names its row, and a row its record's key, so that a tombstone finds its row and a verification finds
what a row was made of. Where the topic's key columns have types whose values have one text each (``_KEY_TYPES``), they
are the primary key. Otherwise a column ``_key`` with the record's key is, beside all columns of the schema. A topic
without a schema has ``_key`` and ``value``, the JSON object.

``identity_sql`` gives the record's key of a row, as `mainstem.schema.encoding` writes it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from mainstem.errors import DefinitionError
from mainstem.schema.types import TopicSchema
from mainstem.views.stores.json_reader import JsonColumn

KEY: Final = "_key"
VALUE: Final = "value"
_NAME_BYTES_MAX: Final = 63
_TYPES: Final = {
    "STRING": "text",
    "BOOLEAN": "boolean",
    "TINYINT": "smallint",
    "SMALLINT": "smallint",
    "INT": "integer",
    "BIGINT": "bigint",
    "FLOAT": "real",
    "DOUBLE": "double precision",
    "DATE": "date",
    "TIMESTAMP": "timestamp with time zone",
    "TIMESTAMP_NTZ": "timestamp without time zone",
    "BINARY": "bytea",
}
_KEY_TYPES: Final = frozenset({"STRING", "BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "DATE"})
_TEXT_IN_JSON: Final = frozenset({"STRING", "DATE"})


@dataclass(frozen=True, slots=True)
class SinkColumn:
    """A column: its name, its type in the schema and in PostgreSQL, and whether it is ``NOT NULL``."""

    name: str
    type: str
    sql_type: str
    is_required: bool


@dataclass(frozen=True, slots=True)
class SinkColumns:
    """The columns of a sink's table in their order, and the names of those that are its primary key."""

    columns: tuple[SinkColumn, ...]
    key: tuple[str, ...]
    has_schema: bool = True

    @classmethod
    def of(cls, schema: TopicSchema | None, key: Sequence[str]) -> SinkColumns:
        """The table for a topic with that schema and key. Raises DefinitionError for what cannot be a table."""
        identity = SinkColumn(KEY, "STRING", "text", True)
        if schema is None:
            return cls((identity, SinkColumn(VALUE, "", "jsonb", True)), (KEY,), False)
        columns = [SinkColumn(c.name, c.type, postgres_type(c.type), not c.nullable) for c in schema.columns]
        for column in columns:
            _check_name(column.name)
        types = {column.name: column.type for column in columns}
        missing = [name for name in key if name not in types]
        if missing:
            raise DefinitionError(
                f"the key column {', '.join(missing)} is not a column of the topic; there are {', '.join(types)}"
            )
        if not key or not {types[name] for name in key} <= _KEY_TYPES:
            return cls((identity, *columns), (KEY,))
        required = [SinkColumn(c.name, c.type, c.sql_type, c.is_required or c.name in key) for c in columns]
        return cls(tuple(required), tuple(key))

    @property
    def names(self) -> tuple[str, ...]:
        """The columns' names, in order."""
        return tuple(column.name for column in self.columns)

    @property
    def has_own_key(self) -> bool:
        """Whether the primary key is the column ``_key``, and not columns of the topic."""
        return self.key == (KEY,)

    @property
    def fields(self) -> list[JsonColumn]:
        """The columns that are read from a record's value."""
        if not self.has_schema:
            return []
        return [JsonColumn(c.name, c.type, not c.is_required) for c in self.columns if c.name != KEY]

    @property
    def key_columns(self) -> tuple[SinkColumn, ...]:
        """The columns of the primary key."""
        found = {column.name: column for column in self.columns}
        return tuple(found[name] for name in self.key)

    @property
    def key_numbers(self) -> tuple[int, ...]:
        """Where the columns of the primary key stand among the columns."""
        return tuple(map(self.names.index, self.key))

    def identity_sql(self) -> str:
        """The record's key of a row, as an SQL expression of the type text."""
        if len(self.key) == 1:
            return f"{quoted(self.key[0])}::text"
        parts = " || ',' || ".join(
            f"to_json({quoted(column.name)})::text" if column.type in _TEXT_IN_JSON else f"{quoted(column.name)}::text"
            for column in self.key_columns
        )
        return f"('[' || {parts} || ']')"

    def to_json(self) -> dict[str, Any]:
        """The form in JSON documents."""
        columns = [[c.name, c.sql_type, c.is_required] for c in self.columns]
        return {"columns": columns, "key": list(self.key)}

    def to_text(self) -> str:
        """The stored form."""
        return json.dumps(self.to_json())


def postgres_type(spark_type: str) -> str:
    """The PostgreSQL type of a canonical Spark SQL type, as PostgreSQL itself writes it."""
    if spark_type.startswith("DECIMAL("):
        return f"numeric({spark_type[len('DECIMAL(') : -1]})"
    return _TYPES.get(spark_type, "jsonb")


def quoted(name: str) -> str:
    """``name`` as a quoted identifier."""
    return '"' + name.replace('"', '""') + '"'


def _check_name(name: str) -> None:
    if len(name.encode()) > _NAME_BYTES_MAX or "\0" in name:
        raise DefinitionError(
            f"column {name!r} cannot be a column in PostgreSQL: a name there has at most {_NAME_BYTES_MAX} bytes"
        )
