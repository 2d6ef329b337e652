"""Graph views: one edge for each record, from its source to its target, in SQLite.

Layout: ``supports`` holds for each record key the edge that it stands for; ``edges`` has each edge once, with the
number of records that support it. An edge exists while that number is over 0: so upserts and tombstones are exact, and
a graph with few edges stays small to walk however many records there are. ``apply`` is one transaction of both and the
bookmark, in SQLite's write-ahead log with ``synchronous=NORMAL``: consistent after a power cut, perhaps without the
last batches.

Nodes are the text of the record's fields; a node exists while an edge has it. Walks (`views.graph_walks`) cost what
they visit; what needs the whole graph loads its edges (`views.graph_algorithms`).

Concurrency: as `views.store` says; one connection writes, each snapshot takes one of a pool of readers.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, TypeAlias

import pyarrow.compute as pc

from mainstem.errors import StorageError
from mainstem.pipelines.kinds import Graph
from mainstem.views.graph_algorithms import components, rank
from mainstem.views.graph_walks import neighbors, shortest_path, where_in
from mainstem.views.hashing import digest_of
from mainstem.views.json_reader import JsonColumn, JsonReader
from mainstem.views.requests import Components, Neighbors, Path, Rank, Request, wrong_kind
from mainstem.views.store import Bookmark, DeadLetters, Digest, Row, Snapshot, StoreDefinition, ViewStore

if TYPE_CHECKING:
    import pyarrow as pa

Edge: TypeAlias = tuple[str, str]

_DDL = """
CREATE TABLE IF NOT EXISTS edges (
    id INTEGER PRIMARY KEY, source TEXT NOT NULL, target TEXT NOT NULL, records INTEGER NOT NULL,
    UNIQUE (source, target));
CREATE INDEX IF NOT EXISTS edges_by_target ON edges (target, source);
CREATE TABLE IF NOT EXISTS supports (key TEXT PRIMARY KEY, edge INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS bookmark (one INTEGER PRIMARY KEY CHECK (one = 1), document TEXT NOT NULL);
"""
_CACHE_KIB = 64 << 10
_READER_CACHE_KIB = 8 << 10
_KNOWN_EDGES_MAX = 200_000
_IDLE_READERS_MAX = 4
_BUSY_TIMEOUT_S = 10.0
_EVERYTHING = """
SELECT 'record', key, source, target FROM supports JOIN edges ON edge = id
UNION ALL SELECT 'edge', records, source, target FROM edges"""


class GraphStore(ViewStore):
    """See the module."""

    def __init__(self, path: FilePath, definition: StoreDefinition) -> None:
        kind = definition.kind
        assert isinstance(kind, Graph)
        path.mkdir(parents=True, exist_ok=True)
        self._path = path / "view.sqlite"
        try:
            self._connection = _connect(self._path, _CACHE_KIB)
            self._connection.executescript(_DDL)
            self._bookmark = _read_bookmark(self._connection)
        except sqlite3.Error as error:
            raise StorageError(f"the graph store in {path} cannot be opened: {error}") from error
        fields = (JsonColumn(kind.source, nullable=False), JsonColumn(kind.target, nullable=False))
        self._reader = JsonReader(fields, text=False)
        self._edge_ids: dict[Edge, int] = {}
        self._idle_readers: list[sqlite3.Connection] = []

    def apply(self, arrow_batch: pa.RecordBatch, bookmark: Bookmark, dead_letters: DeadLetters) -> None:
        read = self._reader.read(arrow_batch)
        if read.poisons:
            dead_letters(read.poisons)
        bookmark = bookmark.after(self._bookmark, read.poisons)
        try:
            self._write(_edge_of_each_key(read.table), bookmark)
        except sqlite3.Error as error:
            raise StorageError(f"the graph store cannot be written: {error}") from error
        self._bookmark = bookmark

    def snapshot(self) -> GraphSnapshot:
        try:
            reader = self._idle_readers.pop()
        except IndexError:
            reader = _connect(self._path, _READER_CACHE_KIB)
        return GraphSnapshot(reader, self._give_back)

    @property
    def bookmark(self) -> Bookmark:
        return self._bookmark

    def close(self) -> None:
        self._reader.close()
        for connection in (*self._idle_readers, self._connection):
            connection.close()
        self._idle_readers.clear()

    def _give_back(self, reader: sqlite3.Connection) -> None:
        if len(self._idle_readers) < _IDLE_READERS_MAX:
            self._idle_readers.append(reader)
        else:
            reader.close()

    def _write(self, edge_of: dict[str, Edge | None], bookmark: Bookmark) -> None:
        connection = self._connection
        connection.execute("BEGIN IMMEDIATE")
        try:
            self._move_supports(edge_of)
            connection.execute("INSERT OR REPLACE INTO bookmark VALUES (1, ?)", (bookmark.to_text(),))
            connection.execute("COMMIT")
        except BaseException:
            self._edge_ids.clear()  # it may name edges that are rolled back
            connection.execute("ROLLBACK")
            raise

    def _move_supports(self, edge_of: dict[str, Edge | None]) -> None:
        """Let each key support its edge, and no other any more."""
        connection = self._connection
        before = dict(where_in(connection, "SELECT key, edge FROM supports WHERE key IN ({})", edge_of))
        change: Counter[int] = Counter()
        moved: list[tuple[str, int]] = []
        gone: list[tuple[str]] = []
        for key, edge in edge_of.items():
            old = before.get(key)
            new = None if edge is None else self._edge_id(edge)
            if new == old:
                continue
            if old is not None:
                change[old] -= 1
            if new is None:
                gone.append((key,))
            else:
                change[new] += 1
                moved.append((key, new))
        connection.executemany("DELETE FROM supports WHERE key = ?", gone)
        connection.executemany("INSERT OR REPLACE INTO supports VALUES (?, ?)", sorted(moved))
        changes = [(count, edge) for edge, count in change.items()]
        connection.executemany("UPDATE edges SET records = records + ? WHERE id = ?", changes)
        if any(count < 0 for count in change.values()):
            self._drop_unsupported([edge for edge, count in change.items() if count < 0])

    def _drop_unsupported(self, edges: list[int]) -> None:
        drop = "DELETE FROM edges WHERE records = 0 AND id IN ({}) RETURNING id"
        if list(where_in(self._connection, drop, edges)):
            self._edge_ids.clear()

    def _edge_id(self, edge: Edge) -> int:
        """The edge's id; it is made, with no records yet, when it is new."""
        known = self._edge_ids.get(edge)
        if known is not None:
            return known
        row = self._connection.execute(
            "INSERT INTO edges (source, target, records) VALUES (?, ?, 0) "
            "ON CONFLICT DO UPDATE SET records = records RETURNING id",
            edge,
        ).fetchone()
        if len(self._edge_ids) >= _KNOWN_EDGES_MAX:
            self._edge_ids.clear()
        self._edge_ids[edge] = int(row[0])
        return int(row[0])


class GraphSnapshot(Snapshot):
    """One state of a GraphStore: a read transaction on a reader's connection."""

    def __init__(self, reader: sqlite3.Connection, give_back: Callable[[sqlite3.Connection], None]) -> None:
        self._reader: sqlite3.Connection | None = reader
        self._give_back = give_back
        reader.execute("BEGIN")
        self.bookmark = _read_bookmark(reader)  # the first read fixes what the transaction sees

    def query(self, request: Request) -> list[Row]:
        match request:
            case Neighbors():
                return neighbors(self._open, request)
            case Path():
                return shortest_path(self._open, request)
            case Components():
                return components(self._open, request)
            case Rank():
                return rank(self._open, request)
            case _:
                raise wrong_kind(request, "graph")

    def digest(self) -> Digest:
        return digest_of(tuple(str(part).encode() for part in row) for row in self._open.execute(_EVERYTHING))

    def count(self) -> int:
        return int(self._open.execute("SELECT count(*) FROM supports").fetchone()[0])

    def entries(self) -> Iterator[tuple[str, Row]]:
        edges = "SELECT 'edge ' || source || ' → ' || target AS name, records FROM edges ORDER BY name"
        for name, records in self._open.execute(edges):
            yield name, {"records": records}
        records = "SELECT key, source, target FROM supports JOIN edges ON edge = id ORDER BY key"
        for key, source, target in self._open.execute(records):
            yield f"record {key}", {"source": source, "target": target}

    def close(self) -> None:
        if self._reader is not None:
            self._reader.execute("ROLLBACK")
            self._give_back(self._reader)
            self._reader = None

    @property
    def _open(self) -> sqlite3.Connection:
        assert self._reader is not None, "the snapshot is closed"
        return self._reader


def _edge_of_each_key(table: pa.Table) -> dict[str, Edge | None]:
    """Key → the edge of its last record, None for a tombstone."""
    source, target = (pc.struct_field(table.column("row"), [number]).to_pylist() for number in (0, 1))
    edges = zip(table.column("key").to_pylist(), table.column("tombstone").to_pylist(), source, target, strict=True)
    return {key: None if tombstone else (source, target) for key, tombstone, source, target in edges}


def _connect(path: FilePath, cache_kib: int) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=_BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = NORMAL")
    connection.execute(f"PRAGMA cache_size = -{cache_kib}")
    return connection


def _read_bookmark(connection: sqlite3.Connection) -> Bookmark:
    row = connection.execute("SELECT document FROM bookmark").fetchone()
    return Bookmark() if row is None else Bookmark.from_text(row[0])
