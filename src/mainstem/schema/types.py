"""A topic's schema: named columns with Spark SQL's types.

Invariants, checked when a ``TopicSchema`` is made: it has at least one column, no name twice (not even in another case,
because Spark and SQL do not tell them apart), none of the names that readers add themselves, and only known types.
A value nested deeper than a column (a list, a map, an object) has the type STRING and is read as its JSON text, unless
a DDL string gave it a nested type. Everything here is immutable; safe from any thread.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from mainstem.errors import DefinitionError, SchemaError

SCALAR_TYPES = frozenset(
    {
        "STRING",
        "BOOLEAN",
        "TINYINT",
        "SMALLINT",
        "INT",
        "BIGINT",
        "FLOAT",
        "DOUBLE",
        "DATE",
        "TIMESTAMP",
        "TIMESTAMP_NTZ",
        "BINARY",
    }
)
Encoding = Literal["avro", "json-schema", "protobuf"]
ENCODINGS: tuple[str, ...] = get_args(Encoding)
"""Forms of a topic's values beside plain JSON: by a schema in the schema registry."""
Framing = Literal["id", "guid", "header"]
FRAMINGS: tuple[str, ...] = get_args(Framing)
"""A value begins with a zero and the schema's id, or with a one and its global id; or the global id is in a header."""
# Readers add these next to a topic's own columns.
RESERVED_NAMES = frozenset({"_key", "_offset", "_partition", "_timestamp"})

_ALIASES = {
    "BYTE": "TINYINT",
    "SHORT": "SMALLINT",
    "INTEGER": "INT",
    "LONG": "BIGINT",
    "REAL": "FLOAT",
    "TIMESTAMP_LTZ": "TIMESTAMP",
    "DEC": "DECIMAL(10,0)",
    "DECIMAL": "DECIMAL(10,0)",
    "NUMERIC": "DECIMAL(10,0)",
}
_DECIMAL = re.compile(r"(?:DECIMAL|DEC|NUMERIC)\s*\(\s*(\d{1,2})\s*(?:,\s*(\d{1,2})\s*)?\)")
_SIZED_TEXT = re.compile(r"(?:VARCHAR|CHAR|CHARACTER)\s*\(\s*\d+\s*\)")
_NESTED = re.compile(r"(?:ARRAY|MAP|STRUCT)\s*<.*>", re.DOTALL)
_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def type_name(text: str) -> str | None:
    """The canonical form of a Spark SQL type's name, in capitals; None when it is unknown."""
    stripped = text.strip()
    upper = _ALIASES.get(stripped.upper(), stripped.upper())
    if upper in SCALAR_TYPES:
        return upper
    if _SIZED_TEXT.fullmatch(upper):
        return "STRING"
    decimal = _DECIMAL.fullmatch(upper)
    if decimal is not None:
        precision, scale = int(decimal[1]), int(decimal[2] or 0)
        return f"DECIMAL({precision},{scale})" if 1 <= precision <= 38 and scale <= precision else None
    return stripped if _NESTED.fullmatch(upper) else None  # field names inside keep their case


@dataclass(frozen=True, slots=True)
class Column:
    """One column: its name, its Spark SQL type in canonical form, and whether it may be null."""

    name: str
    type: str
    nullable: bool = True

    def ddl_text(self) -> str:
        """``name TYPE [NOT NULL]``, the name in backticks where it is not a plain word."""
        name = self.name if _PLAIN_NAME.fullmatch(self.name) else "`" + self.name.replace("`", "``") + "`"
        return f"{name} {self.type}" + ("" if self.nullable else " NOT NULL")


@dataclass(frozen=True, slots=True)
class TopicSchema:
    """The columns of a topic, in order. ``ddl`` is the user's own text where the schema was given as one."""

    columns: tuple[Column, ...]
    ddl: str | None = None

    def __post_init__(self) -> None:
        if not self.columns:
            raise DefinitionError("a schema needs at least one column")
        seen: set[str] = set()
        for column in self.columns:
            _check_column(column)
            if column.name.lower() in seen:
                raise DefinitionError(
                    f"column {column.name!r} occurs twice in the schema (upper and lower case are equal)"
                )
            seen.add(column.name.lower())

    @property
    def names(self) -> tuple[str, ...]:
        """The columns' names, in order."""
        return tuple(column.name for column in self.columns)

    def column(self, name: str) -> Column:
        """The column of that name. Raises SchemaError, which lists the names that there are."""
        for column in self.columns:
            if column.name == name:
                return column
        raise SchemaError(f"there is no column {name!r}; there are {', '.join(self.names)}")

    def ddl_text(self) -> str:
        """The schema as a Spark DDL string."""
        return self.ddl or ", ".join(column.ddl_text() for column in self.columns)

    def to_json(self) -> dict[str, Any]:
        """The form in JSON documents; ``from_json`` is its inverse."""
        columns = [{"name": c.name, "type": c.type, "nullable": c.nullable} for c in self.columns]
        return {"columns": columns} if self.ddl is None else {"columns": columns, "ddl": self.ddl}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> TopicSchema:
        """Read ``to_json``'s form. Raises SchemaError when it is not that."""
        try:
            entries = [(entry["name"], entry["type"], entry.get("nullable", True)) for entry in document["columns"]]
            return cls(tuple(Column(str(n), str(t), bool(nullable)) for n, t, nullable in entries), document.get("ddl"))
        except (KeyError, TypeError, AttributeError, DefinitionError) as error:
            raise SchemaError(f"not a schema document: {error}") from error


def _check_column(column: Column) -> None:
    if not column.name or column.name.isspace():
        raise DefinitionError("a column of the schema has no name")
    if column.name.lower() in RESERVED_NAMES:
        raise DefinitionError(f"column {column.name!r}: the name is taken by what readers add; choose another")
    if type_name(column.type) != column.type:
        raise DefinitionError(f"column {column.name!r}: {column.type!r} is not a type; known: {_known_types()}")


def _known_types() -> str:
    return ", ".join([*sorted(SCALAR_TYPES), "DECIMAL(p,s)", "ARRAY<…>", "MAP<…>", "STRUCT<…>"])
