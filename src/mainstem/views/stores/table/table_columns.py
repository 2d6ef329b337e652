"""A topic's schema as a table: its columns, their types and the primary key. Pure functions.

A record's key names its row, and a row its record's key, so that a tombstone finds its row and a verification finds
what a row was made of. Where the topic's key columns have types whose values have one text each (``_KEY_TYPES``), they
are the primary key. Otherwise a column ``_key`` with the record's key is, beside all columns of the schema. A topic
without a schema has ``_key`` and ``value``, the JSON object.

``identity_sql`` gives the record's key of a row, as `mainstem.schema.encoding` writes it. The types and their text are
those of the product (`views.stores.table.dialect`).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from mainstem.errors import DefinitionError
from mainstem.schema.types import TopicSchema
from mainstem.views.stores.json_reader import JsonColumn
from mainstem.views.stores.table.dialect import Dialect
from mainstem.views.stores.table.statements import Sql

KEY: Final = "_key"
VALUE: Final = "value"
SCALARS: Final = frozenset(
    (
        *("STRING", "BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE"),
        *("DATE", "TIMESTAMP", "TIMESTAMP_NTZ", "BINARY"),
    )
)
"""The types, beside DECIMAL, whose values are no JSON documents."""
_KEY_TYPES: Final = frozenset({"STRING", "BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "DATE"})


@dataclass(frozen=True, slots=True)
class SinkColumn:
    """A column: its name, its type in the schema and in the database, and whether it is ``NOT NULL``."""

    name: str
    type: str
    sql_type: str
    is_required: bool

    @property
    def is_json(self) -> bool:
        """Whether it holds JSON: an array, a map, a struct, or the value of a topic without a schema."""
        return self.type not in SCALARS and not self.type.startswith("DECIMAL(")


@dataclass(frozen=True, slots=True)
class SinkColumns:
    """The columns of a sink's table in their order, and the names of those that are its primary key."""

    dialect: Dialect
    columns: tuple[SinkColumn, ...]
    key: tuple[str, ...]
    has_schema: bool = True

    @classmethod
    def of(cls, schema: TopicSchema | None, key: Sequence[str], dialect: Dialect) -> SinkColumns:
        """The table for a topic with that schema and key. Raises DefinitionError for what cannot be a table."""
        identity = SinkColumn(KEY, "STRING", dialect.sql_type("STRING", 1), True)
        if schema is None:
            return cls(dialect, (identity, SinkColumn(VALUE, "", dialect.sql_type(""), True)), (KEY,), False)
        columns = [SinkColumn(c.name, c.type, dialect.sql_type(c.type), not c.nullable) for c in schema.columns]
        for column in columns:
            _check_name(column.name, dialect)
        types = {column.name: column.type for column in columns}
        missing = [name for name in key if name not in types]
        if missing:
            raise DefinitionError(
                f"the key column {', '.join(missing)} is not a column of the topic; there are {', '.join(types)}"
            )
        if not key or not {types[name] for name in key} <= _KEY_TYPES:
            return cls(dialect, (identity, *columns), (KEY,))
        keyed = [
            SinkColumn(c.name, c.type, dialect.sql_type(c.type, len(key)), True) if c.name in key else c
            for c in columns
        ]
        return cls(dialect, tuple(keyed), tuple(key))

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

    def identity_sql(self) -> Sql:
        """The record's key of a row, as an SQL expression that is text."""
        if len(self.key) == 1:
            return Sql(self.dialect.key_text(self.key_columns[0], in_json=False))
        parts = " || ',' || ".join(self.dialect.key_text(column, in_json=True) for column in self.key_columns)
        return Sql(f"('[' || {parts} || ']')")

    def to_json(self) -> dict[str, Any]:
        """The form in JSON documents."""
        columns = [[c.name, c.sql_type, c.is_required] for c in self.columns]
        return {"columns": columns, "key": list(self.key)}

    def to_text(self) -> str:
        """The stored form."""
        return json.dumps(self.to_json())


def _check_name(name: str, dialect: Dialect) -> None:
    if len(name.encode()) > dialect.name_bytes_max or "\0" in name:
        raise DefinitionError(
            f"column {name!r} cannot be a column in {dialect.product}: a name there has at most "
            f"{dialect.name_bytes_max} bytes"
        )
