"""How far a capture is, as two records of ``__mainstem_progress``, written in the transaction of what they tell.

* The **progress record** (``pipelines.progress``): the database is its one source, a topic that exists only in
  positions, ``__mainstem_postgres.shop``; its offset is the database's log position (LSN). So a view's coverage follows
  a row from the database as it does through pipelines, and ``at_least=pg:LSN`` works.
* The **capture record**, key ``shop:postgres``: which database it is, and how far the snapshot of each table is.

The position is the end of the last whole transaction. One transaction of the database is never in two of the log, so no
place inside of a transaction has to be kept.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from mainstem.client.log import Log
from mainstem.errors import SchemaError, UnknownTopicError
from mainstem.model import DATABASE_TOPIC_PREFIX, Position, Record, TopicPartition
from mainstem.pipelines.progress import PROGRESS_TOPIC, Progress

_SUFFIX: Final = ":postgres"


@dataclass(frozen=True, slots=True)
class TableState:
    """How far the snapshot of a table is. ``oid``: the table's; a recreated one has another.

    ``after``: the key of the last row that was read, as PostgreSQL's texts; None before the first. ``began_at``: the
    topic's end when the snapshot began; keys that have no record after it are gone when the snapshot is done.
    ``emptied_at``: a place in the topic before the last TRUNCATE; keys that have no record after it have no value.
    """

    topic: str
    key: tuple[str, ...]
    oid: int
    is_done: bool = False
    after: tuple[str, ...] | None = None
    rows: int = 0
    began_at: Position = field(default_factory=Position)
    emptied_at: Position = field(default_factory=Position)

    def to_json(self) -> dict[str, Any]:
        """The form in the capture record."""
        return {
            "topic": self.topic,
            "key": list(self.key),
            "oid": self.oid,
            "done": self.is_done,
            "after": None if self.after is None else list(self.after),
            "rows": self.rows,
            "began_at": self.began_at.to_json(),
            "emptied_at": self.emptied_at.to_json(),
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> TableState:
        """Read ``to_json``'s form."""
        after = document["after"]
        return cls(
            str(document["topic"]),
            tuple(document["key"]),
            int(document["oid"]),
            bool(document["done"]),
            None if after is None else tuple(after),
            int(document["rows"]),
            Position.from_json(document["began_at"]),
            Position.from_json(document.get("emptied_at", {})),  # older versions did not write it
        )


@dataclass(frozen=True, slots=True)
class CapturedState:
    """How far a capture is. ``lsn`` 0: it has not begun. ``sink``: the ends of what it has written."""

    name: str
    lsn: int = 0
    sink: Position = field(default_factory=Position)
    system_id: str = ""
    database: str = ""
    tables: Mapping[str, TableState] = field(default_factory=dict)

    def with_table(self, name: str, table: TableState) -> CapturedState:
        """The state with this table's state."""
        return replace(self, tables={**self.tables, name: table})

    @property
    def source(self) -> TopicPartition:
        """The database, as positions name it."""
        return database_partition(self.name)

    def progress_record(self) -> tuple[bytes, bytes]:
        """Key and value of the progress record."""
        outputs = tuple(sorted({table.topic for table in self.tables.values()}))
        source = Position({self.source: self.lsn})
        progress = Progress(self.name, 0, source, self.sink, Position(), (self.source.topic,), outputs)
        return progress.to_record()

    def capture_record(self) -> tuple[bytes, bytes]:
        """Key and value of the capture record."""
        document = {
            "system_id": self.system_id,
            "database": self.database,
            "tables": {name: table.to_json() for name, table in self.tables.items()},
        }
        return capture_key(self.name).encode(), json.dumps(document, separators=(",", ":")).encode()


def capture_key(name: str) -> str:
    """The key of the capture record."""
    return name + _SUFFIX


def database_partition(name: str) -> TopicPartition:
    """The topic partition by which positions name a database."""
    return TopicPartition(DATABASE_TOPIC_PREFIX + name, 0)


def read_state(log: Log, name: str) -> CapturedState:
    """The state of a capture as the log has it; one that has not begun when the log has none. Raises SchemaError."""
    state = CapturedState(name)
    for key in (name, capture_key(name)):
        try:
            records = list(log.read(PROGRESS_TOPIC, key=key, every_partition=True))
        except UnknownTopicError:
            return state
        if records and records[-1].value is not None:
            state = _with(state, records[-1])
    return state


def _with(state: CapturedState, record: Record) -> CapturedState:
    try:
        if not (record.key or b"").endswith(_SUFFIX.encode()):
            progress = Progress.from_record(record)
            assert progress is not None
            return replace(state, lsn=progress.source[state.source], sink=progress.sink)
        document = json.loads(record.value or b"")
        tables = {name: TableState.from_json(table) for name, table in document["tables"].items()}
        return replace(state, system_id=document["system_id"], database=document["database"], tables=tables)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise SchemaError(f"the progress of capture {state.name} cannot be read: {error!r}") from error
