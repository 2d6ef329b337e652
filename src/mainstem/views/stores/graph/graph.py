"""Graph views: one edge for each record, from its source to its target, in SQLite.

Layout: ``supports`` holds for each record key its edge; ``edges`` has each edge once, with the
number of records that support it. An edge exists while that number is over 0: so upserts and tombstones are exact, and
a graph with few edges stays small to walk however many records there are. ``apply`` is one transaction of both and the
bookmark, in SQLite's write-ahead log with ``synchronous=NORMAL``: consistent after a power cut, perhaps without the
last batches.

The account is the digest of everything, kept in the same transaction: removed entries are looked up anyway, so the
digest costs a tenth of ``apply``. SQLite lets other processes write at any time, so the digest is taken again when it
is asked for.

Nodes are the text of the record's fields; a node exists while an edge has it. Walks
(`views.stores.graph.graph_walks`) cost what they visit.

Concurrency: as in `views.stores.store`. One connection writes. Each snapshot borrows a reader connection from a pool,
and closes its statements before it gives the connection back: the next snapshot would see the old state through a
statement that was not read to its end.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeAlias, TypeVar
from weakref import WeakSet

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mainstem.errors import StorageError
from mainstem.pipelines.kinds import Graph
from mainstem.views.requests import NeighborsQuery, PathQuery, Request, wrong_kind
from mainstem.views.stores.graph.graph_digest import NO_EDGE, edge_hash, edge_term, record_term, summed
from mainstem.views.stores.graph.graph_walks import neighbors, shortest_path, where_in
from mainstem.views.stores.json_reader import JsonColumn, JsonReader, last_of_each_key
from mainstem.views.stores.store import (
    Account,
    Bookmark,
    Bucket,
    DeadLetters,
    Digest,
    ReadRecords,
    Row,
    Snapshot,
    StoreDefinition,
    ViewStore,
)

Edge: TypeAlias = tuple[str, str]
_Connection = TypeVar("_Connection", bound=sqlite3.Connection)

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
_FETCH_ROWS = 2_048
_RECORD = "record "
_WRONG_EDGES = """
SELECT 'edge ' || source || ' → ' || target AS name, records, ifnull(found, 0)
FROM edges LEFT JOIN (SELECT edge, count(*) AS found FROM supports GROUP BY edge) ON edge = id
WHERE records <> ifnull(found, 0) ORDER BY name"""


class GraphStore(ViewStore):
    """The store of a graph view, in SQLite."""

    def __init__(self, path: Path, definition: StoreDefinition) -> None:
        kind = definition.kind
        assert isinstance(kind, Graph)
        path.mkdir(parents=True, exist_ok=True)
        self._path = path / "view.sqlite"
        try:
            self._connection = _connect(self._path, _CACHE_KIB, sqlite3.Connection)
            self._connection.executescript(_DDL)
            self._bookmark = _read_bookmark(self._connection)
        except sqlite3.Error as error:
            raise StorageError(f"the graph store in {path} cannot be opened: {error}") from error
        fields = (JsonColumn(kind.source, nullable=False), JsonColumn(kind.target, nullable=False))
        self._reader = JsonReader(fields, text=False)
        self._edge_ids: dict[Edge, int] = {}
        self._edge_hashes: dict[int, bytes] = {}
        self._made_edges = 0
        self._idle_readers: list[_Reader] = []

    def read(self, arrow_batch: pa.RecordBatch) -> ReadRecords:
        read = self._reader.read(arrow_batch)
        table = last_of_each_key(read.table)
        in_order = table.take(pc.sort_indices(table.column("key")))  # as SQLite likes it
        return ReadRecords(in_order, read.poisons)

    def write(self, read: ReadRecords, bookmark: Bookmark, dead_letters: DeadLetters) -> None:
        if read.poisons:
            dead_letters(read.poisons)
        bookmark = bookmark.after(self._bookmark, read.poisons)
        try:
            bookmark = self._write(read.table, bookmark)
        except sqlite3.Error as error:
            raise StorageError(f"the graph store cannot be written: {error}") from error
        self._bookmark = bookmark

    def snapshot(self) -> GraphSnapshot:
        try:
            reader = self._idle_readers.pop()
        except IndexError:
            reader = _connect(self._path, _READER_CACHE_KIB, _Reader)
        return GraphSnapshot(reader, self._give_back)

    @property
    def bookmark(self) -> Bookmark:
        return self._bookmark

    def close(self) -> None:
        for connection in (*self._idle_readers, self._connection):
            connection.close()
        self._idle_readers.clear()

    def _give_back(self, reader: _Reader) -> None:
        if len(self._idle_readers) < _IDLE_READERS_MAX:
            self._idle_readers.append(reader)
        else:
            reader.close()

    def _write(self, table: pa.Table, bookmark: Bookmark) -> Bookmark:
        connection = self._connection
        connection.execute("BEGIN IMMEDIATE")
        try:
            self._made_edges = 0
            change = self._move_supports(table.column("key").to_pylist(), self._edges_of(table))
            bookmark = bookmark.accounted(self._account_after(*change))
            connection.execute("INSERT OR REPLACE INTO bookmark VALUES (1, ?)", (bookmark.to_text(),))
            connection.execute("COMMIT")
        except BaseException:
            self._forget_edges()  # they may be rolled back
            connection.execute("ROLLBACK")
            raise
        return bookmark

    def _account_after(self, entries: int, terms: Iterable[int]) -> Account | None:
        account = self._bookmark.account
        if account is None or account.digest is None:
            return None
        return Account(summed(account.digest, entries, terms))

    def _move_supports(self, keys: list[str], edges: list[int | None]) -> tuple[int, list[int]]:
        """Let each key support its edge (None: no edge), and no other any more.

        What that changes of the digest: how many entries more, and their terms.
        """
        connection = self._connection
        before = dict(where_in(connection, "SELECT key, edge FROM supports WHERE key IN ({})", keys))
        change = Counter(edge for edge in edges if edge is not None)
        change.subtract(before.values())
        moved = [
            (key, edge) for key, edge in zip(keys, edges, strict=True) if edge is not None and before.get(key) != edge
        ]
        gone = [(key,) for key, edge in zip(keys, edges, strict=True) if edge is None and key in before]
        terms = self._terms(before, moved, gone, change)
        connection.executemany("DELETE FROM supports WHERE key = ?", gone)
        connection.executemany("INSERT OR REPLACE INTO supports VALUES (?, ?)", moved)
        changes = [(count, edge) for edge, count in change.items() if count]
        connection.executemany("UPDATE edges SET records = records + ? WHERE id = ?", changes)
        entries = self._made_edges - len(gone) + sum(key not in before for key, _edge in moved)
        if any(count < 0 for count, _edge in changes):
            entries -= self._drop_unsupported([edge for count, edge in changes if count < 0])
        return entries, terms

    def _terms(
        self, before: dict[str, int], moved: list[tuple[str, int]], gone: list[tuple[str]], change: Counter[int]
    ) -> list[int]:
        """The change of the checksum by records that move to another edge, removed records, and edges' new counts."""
        hashes = self._hashes_of({*before.values(), *change})
        terms = [record_term(key, hashes[edge]) for key, edge in moved]
        terms += [-record_term(key, hashes[before[key]]) for key, _edge in moved if key in before]
        terms += [-record_term(key, hashes[before[key]]) for (key,) in gone]
        return terms + [edge_term(hashes[edge], count) for edge, count in change.items() if count]

    def _hashes_of(self, edges: set[int]) -> dict[int, bytes]:
        if len(self._edge_hashes) >= _KNOWN_EDGES_MAX:
            self._edge_hashes.clear()
        known = self._edge_hashes
        ends = "SELECT id, source, target FROM edges WHERE id IN ({})"
        for edge, source, target in where_in(self._connection, ends, [edge for edge in edges if edge not in known]):
            known[edge] = edge_hash(source, target)
        return {edge: known.get(edge, NO_EDGE) for edge in edges}

    def _forget_edges(self) -> None:
        self._edge_ids.clear()
        self._edge_hashes.clear()

    def _edges_of(self, table: pa.Table) -> list[int | None]:
        """The id of each row's edge, None for a tombstone. Each pair of nodes is looked up once, however many rows."""
        source, target = (
            pc.struct_field(table.column("row"), [number]).combine_chunks().dictionary_encode() for number in (0, 1)
        )
        codes = [
            pc.fill_null(end.indices, -1).to_numpy(zero_copy_only=False).astype(np.int64) for end in (source, target)
        ]
        width = max(1, len(target.dictionary))
        pairs, rows = np.unique(np.where(codes[0] < 0, -1, codes[0] * width + codes[1]), return_inverse=True)
        nodes, more_nodes = source.dictionary.to_pylist(), target.dictionary.to_pylist()
        ids = [
            None if pair < 0 else self._edge_id((nodes[pair // width], more_nodes[pair % width]))
            for pair in pairs.tolist()
        ]
        return [ids[row] for row in rows.tolist()]

    def _drop_unsupported(self, edges: list[int]) -> int:
        """Delete the edges that have no record any more; how many."""
        drop = "DELETE FROM edges WHERE records = 0 AND id IN ({}) RETURNING id"
        dropped = len(list(where_in(self._connection, drop, edges)))
        if dropped:
            self._forget_edges()
        return dropped

    def _edge_id(self, edge: Edge) -> int:
        """The edge's id; it is made, with no records yet, when it is new."""
        known = self._edge_ids.get(edge)
        if known is not None:
            return known
        row = self._connection.execute("SELECT id FROM edges WHERE source = ? AND target = ?", edge).fetchone()
        if row is None:
            made = "INSERT INTO edges (source, target, records) VALUES (?, ?, 0) RETURNING id"
            row = self._connection.execute(made, edge).fetchone()
            self._made_edges += 1
        if len(self._edge_ids) >= _KNOWN_EDGES_MAX:
            self._forget_edges()
        self._edge_ids[edge] = int(row[0])
        return int(row[0])


class _Reader(sqlite3.Connection):
    """A connection that knows which of its statements may still be open. For one thread at a time."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._statements: WeakSet[sqlite3.Cursor] = WeakSet()

    def execute(self, *arguments: Any) -> sqlite3.Cursor:
        statement = super().execute(*arguments)
        self._statements.add(statement)
        return statement

    def end(self) -> None:
        """Let the state go that was read."""
        for statement in list(self._statements):
            statement.close()
        self._statements.clear()
        super().execute("ROLLBACK")


class GraphSnapshot(Snapshot):
    """One state of a GraphStore: a read transaction on a reader's connection."""

    def __init__(self, reader: _Reader, give_back: Callable[[_Reader], None]) -> None:
        self._reader: _Reader | None = reader
        self._give_back = give_back
        reader.execute("BEGIN")
        self.bookmark = _read_bookmark(reader)  # the first read fixes what the transaction sees

    def query(self, request: Request) -> list[Row]:
        match request:
            case NeighborsQuery():
                return neighbors(self._open, request)
            case PathQuery():
                return shortest_path(self._open, request)
            case _:
                raise wrong_kind(request, "graph")

    def digest(self) -> Digest:
        edges: dict[int, bytes] = {}
        terms = []
        for edge, source, target, records in self._open.execute("SELECT id, source, target, records FROM edges"):
            edges[edge] = edge_hash(source, target)
            terms.append(edge_term(edges[edge], records))
        supports = self._open.execute("SELECT key, edge FROM supports")
        digest = summed(Digest(0, 0), len(terms), terms)
        while rows := supports.fetchmany(_FETCH_ROWS):
            named = [record_term(key, edges[edge]) for key, edge in rows if edge in edges]
            digest = summed(digest, len(named), named)
        return digest

    def intact(self) -> bool | None:
        account = self.bookmark.account
        if account is None or account.digest is None:
            return None
        return account.digest == self.digest()

    def count(self) -> int:
        return int(self._open.execute("SELECT count(*) FROM supports").fetchone()[0])

    def entries(self) -> Iterator[tuple[str, Row]]:
        edges = "SELECT 'edge ' || source || ' → ' || target AS name, records FROM edges ORDER BY name"
        for name, records in self._open.execute(edges):
            yield name, {"records": records}
        records = "SELECT key, source, target FROM supports JOIN edges ON edge = id ORDER BY key"
        for key, source, target in self._open.execute(records):
            yield f"{_RECORD}{key}", {"source": source, "target": target}

    def sample(self, bucket: Bucket) -> Iterator[tuple[str, Row]]:
        """The bucket's records; and, with the first bucket, each edge that has not the number of its records."""
        if bucket.number == 0:
            for name, records, found in self._open.execute(_WRONG_EDGES):
                yield name, {"records": records, "found": found}
        for name, row in self.entries():
            if name.startswith(_RECORD) and bucket.has(name.removeprefix(_RECORD).encode()):
                yield name, row

    def close(self) -> None:
        if self._reader is not None:
            self._reader.end()
            self._give_back(self._reader)
            self._reader = None

    @property
    def _open(self) -> sqlite3.Connection:
        assert self._reader is not None, "the snapshot is closed"
        return self._reader


def _connect(path: Path, cache_kib: int, made: type[_Connection]) -> _Connection:
    connection = made(path, timeout=_BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = NORMAL")
    connection.execute(f"PRAGMA cache_size = -{cache_kib}")
    return connection


def _read_bookmark(connection: sqlite3.Connection) -> Bookmark:
    row = connection.execute("SELECT document FROM bookmark").fetchone()
    return Bookmark(account=Account(Digest(0, 0))) if row is None else Bookmark.from_text(row[0])
