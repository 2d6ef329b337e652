"""What a capture takes from which database, and the names that follow from its own name. Immutable."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, get_args

from mainstem.errors import DefinitionError

Envelope = Literal["row", "debezium"]
ENVELOPES: Final[tuple[str, ...]] = get_args(Envelope)
_NAME: Final = re.compile(r"[a-z][a-z0-9_-]{0,39}")
_PART: Final = r'(?:[^."]+|"(?:[^"]|"")+")'
_TABLE: Final = re.compile(rf"({_PART})\.({_PART})")
TABLES_MAX: Final = 1_000


@dataclass(frozen=True, slots=True, order=True)
class TableName:
    """A table by its schema and name, as the catalog has them."""

    schema: str
    name: str

    @classmethod
    def parse(cls, text: str) -> TableName:
        """``orders`` (of the schema public), ``sales.orders``, ``sales."Order lines"``. Raises DefinitionError."""
        match = _TABLE.fullmatch(text if _TABLE.fullmatch(text) else f"public.{text}")
        if match is None:
            raise DefinitionError(f"{text!r} is not the name of a table: use SCHEMA.TABLE, for example public.orders")
        return cls(_unquoted(match[1]), _unquoted(match[2]))

    def __str__(self) -> str:
        return f"{self.schema}.{self.name}"


@dataclass(frozen=True, slots=True)
class CaptureSettings:
    """One capture. ``name`` names its topics, its slot and its progress; ``dsn`` is libpq's, and is never shown.

    ``envelope``: ``row`` (the row after the change; a tombstone for a deletion), or ``debezium``.
    ``partitions``: of each topic that is created.
    Raises DefinitionError for a name, a table or an envelope that cannot be.
    """

    name: str
    dsn: str = field(repr=False)
    tables: tuple[TableName, ...]
    envelope: Envelope = "row"
    partitions: int = 1

    @classmethod
    def of(
        cls, name: str, dsn: str, tables: Sequence[str], *, envelope: str = "row", partitions: int = 1
    ) -> CaptureSettings:
        """The settings of these words."""
        if isinstance(tables, str):
            raise DefinitionError(f"tables is a list of names, not one text: ({tables!r},)")
        found = tuple(dict.fromkeys(TableName.parse(table) for table in tables))
        if not isinstance(name, str) or _NAME.fullmatch(name) is None:
            raise DefinitionError(
                f"invalid name {name!r} of a capture: use at most 40 small letters, digits, '_' and '-', a letter first"
            )
        if not 1 <= len(found) <= TABLES_MAX:
            raise DefinitionError(f"capture {name}: name from 1 to {TABLES_MAX} tables, not {len(found)}")
        if envelope not in ENVELOPES:
            raise DefinitionError(f"capture {name}: envelope is one of {', '.join(ENVELOPES)}, not {envelope!r}")
        if not isinstance(partitions, int) or partitions < 1:
            raise DefinitionError(f"capture {name}: invalid partitions {partitions!r}: use 1 or more")
        settings = cls(name, dsn, found, envelope, partitions)  # type: ignore[arg-type]
        topics = [settings.topic_of(table) for table in found]
        for table, topic in zip(found, topics, strict=True):
            if topics.count(topic) > 1:
                raise DefinitionError(f"capture {name}: table {table} and another one would share the topic {topic}")
        return settings

    def topic_of(self, table: TableName) -> str:
        """The topic of a table: ``shop.orders``, and of a schema other than public ``shop.sales.orders``."""
        parts = (self.name, table.name) if table.schema == "public" else (self.name, table.schema, table.name)
        return ".".join(re.sub(r"[^A-Za-z0-9_-]", "_", part) for part in parts)[:249]

    @property
    def slot(self) -> str:
        """The name of the replication slot, and of the publication."""
        return f"mainstem_{self.name.replace('-', '_')}"


def _unquoted(part: str) -> str:
    return part[1:-1].replace('""', '"') if part.startswith('"') else part
