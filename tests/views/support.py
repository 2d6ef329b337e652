"""What the tests of the views share: histories of one topic as Arrow batches, and a store of each kind over them."""

from __future__ import annotations

import json
import os
import random
import signal
import zlib
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from mainstem.model import Position
from mainstem.pipelines.folds import FoldRecord
from mainstem.pipelines.kinds import (
    SQL,
    Graph,
    KeyValue,
    Kind,
    Lake,
    MariaDB,
    Metrics,
    Postgres,
    Search,
    SinkKind,
    SQLite,
)
from mainstem.record.arrow_columns import SCHEMA as SCHEMA_OF_RECORDS
from mainstem.schema.types import Column, TopicSchema
from mainstem.views.requests import MetricsQuery, NeighborsQuery, RangeQuery, Request, SearchQuery, SqlQuery
from mainstem.views.stores.lake.lake import LakeStore
from mainstem.views.stores.sql.query_process import QueryChild
from mainstem.views.stores.store import Bookmark, Poison, Snapshot, StoreDefinition, ViewStore, no_dead_letters
from mainstem.views.stores.store_kinds import open_store
from tests.support.eventually import eventually

TOPIC = "routes"
FIRST_TIMESTAMP_US = 1_700_000_000_000_000
SCHEMA = TopicSchema((Column("origin", "STRING"), Column("dest", "STRING"), Column("miles", "INT")))

KeyAndValue = tuple[bytes | None, bytes | None]


@dataclass(frozen=True)
class KindUnderTest:
    """A kind, a request that answers with every row, and whether it is an archive: a row for every record."""

    name: str
    kind: Kind
    everything: Request
    counts: bool = False
    """Whether every record counts, and not only the last of its key."""
    keeps_everything: bool = False
    keyed: bool = True
    """Whether it has a row for each key."""
    for_users: bool = False
    """Whether the store is opened as for users."""
    any_key: bool = True
    """Whether a key may have any character, and 60,000 bytes."""

    @property
    def poison(self) -> tuple[KeyAndValue, ...]:
        """What it cannot apply: only a view with a row for each key minds the key."""
        return POISON if self.keyed else POISON[:_WITHOUT_KEYS]

    def records(self, snapshot: Snapshot) -> int:
        """How many records the snapshot holds, of a history in which every record has another key."""
        if self.keyed:
            return snapshot.count()
        return sum(int(row["records"]) for row in snapshot.query(self.everything))

    def prepare(self, request: pytest.FixtureRequest) -> None:
        """See that what the kind needs is there: a database."""
        if isinstance(self.kind, Postgres | MariaDB):
            database = request.getfixturevalue(f"{self.name}_database")
            request.getfixturevalue("monkeypatch").setenv(f"MAINSTEM_{self.name.upper()}_DSN", database.dsn)

    def open(self, path: Path) -> ViewStore:
        kind = self.kind
        if isinstance(kind, SQLite):
            kind = replace(kind, path=path.parent / "sink.db")
        if isinstance(kind, SinkKind):  # its rows are not in the directory: each has a table of its own
            kind = replace(kind, table=f"routes_{zlib.crc32(bytes(path))}")
        store = open_store(path, StoreDefinition("routes", kind, SCHEMA), for_users=self.for_users)
        store.serve()
        return store


def flown(state: dict[str, Any], record: FoldRecord) -> dict[str, Any]:
    """A fold: the last flight of a key, and how many there were."""
    return {**record.value, "flights": state["flights"] + 1}


KINDS = (
    KindUnderTest("key-value", KeyValue(), RangeQuery(limit=10_000)),
    KindUnderTest("sql", SQL(), SqlQuery("SELECT * FROM routes ORDER BY _key")),
    KindUnderTest("sql in a process", SQL(), SqlQuery("SELECT * FROM routes ORDER BY _key"), for_users=True),
    KindUnderTest("search", Search("origin", "dest"), SearchQuery("*", limit=10_000)),
    KindUnderTest("graph", Graph(source="origin", target="dest"), NeighborsQuery("A", hops=16, direction="both")),
    KindUnderTest("fold", KeyValue(fold=flown, initial={"flights": 0}), RangeQuery(limit=10_000), counts=True),
    KindUnderTest("lake", Lake(), SqlQuery("SELECT * FROM routes ORDER BY _partition, _offset"), keeps_everything=True),
    KindUnderTest(
        "lake in a process",
        Lake(),
        SqlQuery("SELECT * FROM routes ORDER BY _partition, _offset"),
        keeps_everything=True,
        for_users=True,
    ),
    KindUnderTest(
        "metrics", Metrics(by=("origin", "dest"), values=("miles",)), MetricsQuery(), counts=True, keyed=False
    ),
    KindUnderTest("postgres", Postgres(table="routes"), RangeQuery(limit=10_000), for_users=True, any_key=False),
    KindUnderTest("mariadb", MariaDB(table="routes"), RangeQuery(limit=10_000), for_users=True, any_key=False),
    KindUnderTest("sqlite", SQLite(table="routes"), RangeQuery(limit=10_000), for_users=True, any_key=False),
)


def flight(key: str, origin: str, dest: str, miles: int = 1) -> KeyAndValue:
    """A record from origin to dest."""
    return key.encode(), json.dumps({"origin": origin, "dest": dest, "miles": miles}).encode()


def tombstone(key: str) -> KeyAndValue:
    """A record that deletes its key."""
    return key.encode(), None


def process_of(store: ViewStore) -> int:
    """The id of the process that answers SQL for a store that was opened for users."""
    isolated = store._sql if isinstance(store, LakeStore) else store._table  # type: ignore[attr-defined]
    child: QueryChild = isolated._process._child
    return child.pid


def kill_process_of(store: ViewStore) -> None:
    """Send SIGKILL to that process, and wait until it has ended."""
    pid = process_of(store)
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    eventually(lambda: not is_running(pid), what="the killed process has ended")


def is_running(pid: int) -> bool:
    """Whether there is such a process; a zombie is none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def arrow_batch(records: Sequence[KeyAndValue], first_offset: int = 0) -> pa.RecordBatch:
    """Records of partition 0 as the decoder gives them, with all that any kind reads."""
    return pa.record_batch(
        {
            "key": pa.array([key for key, _ in records], pa.binary()),
            "value": pa.array([value for _, value in records], pa.binary()),
            "partition": pa.array([0] * len(records), pa.int32()),
            "offset": pa.array(range(first_offset, first_offset + len(records)), pa.int64()),
            "timestamp": pa.array([FIRST_TIMESTAMP_US] * len(records), SCHEMA_OF_RECORDS.field("timestamp").type),
            "timestamp_type": pa.array([0] * len(records), pa.int32()),
            "headers": pa.array([None] * len(records), SCHEMA_OF_RECORDS.field("headers").type),
        }
    )


def apply(store: ViewStore, records: Sequence[KeyAndValue], first_offset: int = 0) -> list[Poison]:
    """Apply records and move the position behind them; the poison among them."""
    poisons: list[Poison] = []
    bookmark = Bookmark(Position.of(TOPIC, 0, first_offset + len(records)))
    store.apply(arrow_batch(records, first_offset), bookmark, poisons.extend)
    return poisons


def apply_in_batches(store: ViewStore, records: Sequence[KeyAndValue], sizes: Iterable[int]) -> None:
    """Apply a history cut into batches of the given sizes, the last one taking the rest."""
    first = 0
    for size in sizes:
        part = records[first : first + size]
        bookmark = Bookmark(Position.of(TOPIC, 0, first + len(part)))
        store.apply(arrow_batch(part, first), bookmark, no_dead_letters)
        first += len(part)
    apply(store, records[first:], first)


def history(seed: int, length: int) -> list[KeyAndValue]:
    """A seeded history over few keys, so that rows are replaced, deleted and come back; poison among it."""
    chance = random.Random(seed)
    records: list[KeyAndValue] = []
    for number in range(length):
        key = f"key-{chance.randrange(12)}"
        kind = chance.random()
        if kind < 0.15:
            records.append(tombstone(key))
        elif kind < 0.25:
            records.append(chance.choice(POISON))
        else:
            records.append(flight(key, chance.choice("ABCDE"), chance.choice("ABCDE"), number))
    return records


_WITHOUT_KEYS = 5

# Poison for every kind: one for each thing that may be wrong with a record.
POISON: tuple[KeyAndValue, ...] = (
    (b"key-1", b"not json"),
    (b"key-2", b'{"origin": "A", "dest": '),
    (b"key-3", b"[1, 2]"),
    (b"key-4", b'{"origin": "A", "dest": "B", "miles": 1}}'),
    (b"key-5", b'{"origin": "\xff", "dest": "B"}'),
    # what is wrong with the key
    (None, b'{"origin": "A", "dest": "B", "miles": 1}'),
    (b"\xff", b'{"origin": "A", "dest": "B", "miles": 1}'),
    (None, None),
)


def rows_without(rows: Iterable[dict[str, Any]], *names: str) -> list[dict[str, Any]]:
    """Rows without some of their columns."""
    return [{name: value for name, value in row.items() if name not in names} for row in rows]
