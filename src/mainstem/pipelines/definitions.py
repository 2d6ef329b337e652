"""The parts of an App: topics, tables, captures, pipelines and views, as frozen definitions.

Nothing here touches a log or Spark: a definition only says what shall be, and where in the user's file it says so
(``where``, ``flights.py:12``), so that every later error can point there.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias, get_args

from mainstem.client.dead_letter_headers import pipeline_topic, view_topic
from mainstem.errors import DefinitionError, InputError
from mainstem.model import OnDamaged, is_topic_name
from mainstem.pipelines.kinds import Kind
from mainstem.schema.types import ENCODINGS, FRAMINGS

Envelope: TypeAlias = Literal["row", "debezium"]
ENVELOPES: Final[tuple[str, ...]] = get_args(Envelope)
_NAME: Final = re.compile(r"[a-z][a-z0-9_-]{0,39}")
_PLAIN: Final = re.compile(r'[^."]+')
_PART: Final = rf'(?:{_PLAIN.pattern}|"(?:[^"]|"")+")'
_TABLE: Final = re.compile(rf"({_PART})\.({_PART})")
TABLES_MAX: Final = 1_000
Mode: TypeAlias = Literal["append", "update", "complete"]
MODES: tuple[str, ...] = get_args(Mode)


def require_name(word: str, name: str) -> None:
    """Raises InputError for a name that no App can declare as ``word``. A checked name is safe as part of a path."""
    if not is_topic_name(name) or name.startswith("__"):
        raise InputError(
            f"invalid name {name!r} for {word}: use letters, digits, '.', '_' and '-', not '__' at the start"
        )


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic that the App reads or writes.

    ``schema`` is what the user gave: a dataclass, a pydantic model, a DDL string, or None when the topic's registered
    schema shall be used. ``key`` are the key's columns; none means records without a key.
    ``encoding`` is the form of its values, None for plain JSON, ``key_encoding`` that of its keys, None for text.
    ``framing`` says where its values name their schema.
    ``stands_for`` is the topic that it will be compared
    with, while a new version of a pipeline derives into it.
    """

    name: str
    schema: Any = None
    key: tuple[str, ...] = ()
    partitions: int = 1
    compacted: bool = False
    configs: Mapping[str, str] = field(default_factory=dict, hash=False)
    where: str = field(default="", compare=False)
    encoding: str | None = None
    key_encoding: str | None = None
    framing: str = FRAMINGS[0]
    stands_for: str = ""
    captured: bool = False
    """Whether a capture makes it, and knows its columns and key from the database."""

    @property
    def schema_topic(self) -> str:
        """The topic under whose name its schema is registered."""
        return self.stands_for or self.name

    def table(self) -> Table:
        """This topic as a table: the latest value of each key, fresh at each micro-batch."""
        return Table(self)


@dataclass(frozen=True, slots=True)
class Table:
    """A topic read as a table: the latest value of each of its keys."""

    topic: Topic


Input: TypeAlias = Topic | Table


@dataclass(frozen=True, slots=True)
class Pipeline:
    """A function from DataFrames to a DataFrame for each of ``outputs``, the topics that these are appended to.

    With ``each_batch`` it is a function of one micro-batch and its id instead, called for what it does by itself;
    ``outputs`` are then the topics that it appends to, which may be none. ``stands_for`` is the pipeline whose new
    version it is, while that is derived beside the old one. ``on_damaged``: whether it stops at input records that
    are in the log and cannot be read, or skips them.
    """

    name: str
    function: Callable[..., Any]
    inputs: tuple[Input, ...]
    outputs: tuple[Topic, ...]
    mode: Mode
    each_batch: bool = False
    where: str = field(default="", compare=False)
    app: str = ""
    stands_for: str = ""
    on_damaged: OnDamaged = "stop"

    @property
    def streams(self) -> tuple[Topic, ...]:
        """The inputs that are read as streams: coverage follows these."""
        return tuple(entry for entry in self.inputs if isinstance(entry, Topic))

    @property
    def dead_letter_topic(self) -> str:
        """Where records of typed streams go whose value does not parse."""
        return pipeline_topic(self.app, self.stands_for or self.name)

    @property
    def tables(self) -> tuple[Topic, ...]:
        """The topics that are read as tables."""
        return tuple(entry.topic for entry in self.inputs if isinstance(entry, Table))


@dataclass(frozen=True, slots=True)
class View:
    """An index over one topic, of one kind.

    ``on_damaged``: whether it stops at records that are in the log and cannot be read, or skips them as dead letters.
    """

    app: str
    name: str
    topic: Topic
    kind: Kind
    where: str = field(default="", compare=False)
    on_damaged: OnDamaged = "stop"

    @property
    def dead_letter_topic(self) -> str:
        """Where records go that this view cannot apply; not where those of a pipeline of the same name do."""
        return view_topic(self.app, self.name)


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
        """The name in the form that ``parse`` reads: quoted where it has to be."""
        return f"{_quoted(self.schema)}.{_quoted(self.name)}"


@dataclass(frozen=True, slots=True)
class CaptureSettings:
    """One capture. ``name`` names its topics, its slot and its progress; ``dsn`` is libpq's, and is never shown.

    ``envelope``: ``row`` (the row after the change; a tombstone for a deletion), or ``debezium``.
    ``partitions``: of each topic that is created. ``encoding``: the form of values, None for plain JSON.
    Raises DefinitionError for a name, a table or an envelope that cannot be.
    """

    name: str
    dsn: str = field(repr=False)
    tables: tuple[TableName, ...]
    envelope: Envelope = "row"
    partitions: int = 1
    encoding: str | None = None

    @classmethod
    def of(
        cls,
        name: str,
        dsn: str,
        tables: Sequence[str],
        *,
        envelope: str = "row",
        partitions: int = 1,
        encoding: str | None = None,
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
        if encoding is not None and encoding not in ENCODINGS:
            raise DefinitionError(f"capture {name}: encoding is one of {', '.join(ENCODINGS)}, not {encoding!r}")
        if encoding is not None and envelope != "row":
            raise DefinitionError(f"capture {name}: an encoding needs the envelope row: {envelope} has no columns")
        settings = cls(name, dsn, found, envelope, partitions, encoding)  # type: ignore[arg-type]
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


def _quoted(part: str) -> str:
    if _PLAIN.fullmatch(part):
        return part
    doubled = part.replace('"', '""')
    return f'"{doubled}"'


def _unquoted(part: str) -> str:
    return part[1:-1].replace('""', '"') if part.startswith('"') else part


class CapturedTables(Mapping[str, Topic]):
    """The tables of a database that an App captures, each a topic by its table's name: ``shop["public.orders"]``."""

    def __init__(self, settings: CaptureSettings, where: str) -> None:
        self.settings = settings
        self.where = where
        self._topics = {
            table: Topic(
                settings.topic_of(table),
                partitions=settings.partitions,
                where=where,
                encoding=settings.encoding,
                captured=True,
            )
            for table in settings.tables
        }

    def __getitem__(self, table: str) -> Topic:
        """The topic of a table. Raises DefinitionError, which lists the tables that there are."""
        found = self._topics.get(TableName.parse(table))
        if found is None:
            raise DefinitionError(
                f"capture {self.settings.name} ({self.where}) has no table {table!r}; it has: "
                f"{', '.join(map(str, self._topics))}"
            )
        return found

    def __iter__(self) -> Iterator[str]:
        return map(str, self._topics)

    def __len__(self) -> int:
        return len(self._topics)
