"""What a user would write instead of a view: a confluent-kafka loop, ``json.loads``, and the same store's own library.

Each sink upserts by key and deletes on a null value, with the durability that the view's store has. It checks nothing
and keeps no position: the least that one gets away with. ``write_s`` is what the store alone took of a loop's time.

``Follower`` is such a loop that has caught up, in a thread of the reader's own process: a read of one's own write out
of it has no HTTP and no other process in it, so it shows what log and store leave at the least.
"""

from __future__ import annotations

import json
import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import confluent_kafka
import duckdb
import pyarrow as pa
import tantivy
from rocksdict import Options, Rdict, WriteBatch

from mainstem.model import Position

BATCH = 10_000
_GIVE_UP_S = 300.0
Keyed = Sequence[tuple[str, bytes | None]]
COLUMNS = ("flight_id", "carrier", "origin", "dest", "tailnum", "dep_delay", "arr_delay", "distance")
FLOATS = ("dep_delay", "arr_delay", "distance")


class KeyValueSink:
    """RocksDB: the JSON text by key. It is parsed, so that what is no JSON is noticed."""

    def __init__(self, directory: Path) -> None:
        self._db = Rdict(str(directory), Options(raw_mode=True))

    def prepare(self, records: Keyed) -> Any:
        for _key, value in records:
            if value is not None:
                json.loads(value)
        return [(key.encode(), value) for key, value in records]

    def write(self, rows: Any) -> None:
        batch = WriteBatch(raw_mode=True)
        for key, value in rows:
            if value is None:
                batch.delete(key)
            else:
                batch.put(key, value)
        self._db.write(batch)

    def read(self, key: str, origin: str) -> int:
        del origin
        return int(self._db.get(key.encode()) is not None)

    def close(self) -> None:
        self._db.close()


class SqlSink:
    """DuckDB: INSERT OR REPLACE from Arrow."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True)
        self._connection = duckdb.connect(str(directory / "t.duckdb"))
        columns = ", ".join(f"{name} {'DOUBLE' if name in FLOATS else 'VARCHAR'}" for name in COLUMNS)
        self._connection.execute(f"CREATE TABLE t (_key VARCHAR PRIMARY KEY, {columns})")
        self._reader = self._connection.cursor()

    def prepare(self, records: Keyed) -> Any:
        last = {key: None if value is None else json.loads(value) for key, value in records}
        rows = [{"_key": key, **{name: row[name] for name in COLUMNS}} for key, row in last.items() if row is not None]
        return pa.Table.from_pylist(rows), [(key,) for key, row in last.items() if row is None]

    def write(self, rows: Any) -> None:
        upserts, deletions = rows
        self._connection.execute("BEGIN")
        if deletions:
            self._connection.executemany("DELETE FROM t WHERE _key = ?", deletions)
        self._connection.register("upserts", upserts)
        self._connection.execute("INSERT OR REPLACE INTO t SELECT * FROM upserts")
        self._connection.execute("COMMIT")

    def read(self, key: str, origin: str) -> int:
        del origin
        return len(self._reader.execute(f"SELECT origin FROM t WHERE _key = '{key}'").fetchall())

    def close(self) -> None:
        self._connection.close()


class SearchSink:
    """tantivy: delete by key, add, commit."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True)
        builder = tantivy.SchemaBuilder()
        builder.add_text_field("_key", stored=True, tokenizer_name="raw")
        builder.add_bytes_field("_text", stored=True, indexed=False)
        for name in ("carrier", "tailnum", "origin", "dest"):
            builder.add_text_field(name)
        self._index = tantivy.Index(builder.build(), path=str(directory))
        self._index.config_reader("manual")
        self._writer = self._index.writer(heap_size=64 << 20, num_threads=1)

    def prepare(self, records: Keyed) -> Any:
        return [(key, value, None if value is None else json.loads(value)) for key, value in dict(records).items()]

    def write(self, rows: Any) -> None:
        for key, text, row in rows:
            self._writer.delete_documents_by_term("_key", key)
            if row is not None:
                document = tantivy.Document()
                document.add_text("_key", key)
                document.add_bytes("_text", text)
                for name in ("carrier", "tailnum", "origin", "dest"):
                    document.add_text(name, row[name])
                self._writer.add_document(document)
        self._writer.commit()

    def read(self, key: str, origin: str) -> int:
        del origin
        self._index.reload()
        searcher = self._index.searcher()
        found = searcher.search(self._index.parse_query(f"_key:{key}", ["carrier"]), 10, count=False).hits
        return len([searcher.doc(address) for _, address in found])

    def close(self) -> None:
        self._writer.wait_merging_threads()


class GraphSink:
    """SQLite: an edge for each key, with an index the other way round."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True)
        self._connection = sqlite3.connect(directory / "t.sqlite", isolation_level=None, check_same_thread=False)
        self._reader = sqlite3.connect(directory / "t.sqlite", isolation_level=None)
        self._connection.executescript(
            "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL;"
            "CREATE TABLE edges (key TEXT PRIMARY KEY, source TEXT NOT NULL, target TEXT NOT NULL);"
            "CREATE INDEX by_source ON edges (source, target); CREATE INDEX by_target ON edges (target, source);"
        )

    def prepare(self, records: Keyed) -> Any:
        last = {key: None if value is None else json.loads(value) for key, value in records}
        upserts = [(key, row["origin"], row["dest"]) for key, row in last.items() if row is not None]
        return upserts, [(key,) for key, row in last.items() if row is None]

    def write(self, rows: Any) -> None:
        upserts, deletions = rows
        self._connection.execute("BEGIN")
        self._connection.executemany("DELETE FROM edges WHERE key = ?", deletions)
        self._connection.executemany("INSERT OR REPLACE INTO edges VALUES (?, ?, ?)", upserts)
        self._connection.execute("COMMIT")

    def read(self, key: str, origin: str) -> int:
        del key
        return len(self._reader.execute("SELECT DISTINCT target FROM edges WHERE source = ?", [origin]).fetchall())

    def close(self) -> None:
        self._reader.close()
        self._connection.close()


SINKS: dict[str, Callable[[Path], Any]] = {
    "key-value": KeyValueSink,
    "sql": SqlSink,
    "search": SearchSink,
    "graph": GraphSink,
}


def run(bootstrap: str, topic: str, records: int, sink: Any) -> tuple[float, float]:
    """Consume a topic of so many records into a sink; seconds in all, and of these in the store."""
    begin_s = time.perf_counter()
    consumer = _consumer(bootstrap, topic)
    seen, write_s = 0, 0.0
    while seen < records:
        messages = [message for message in consumer.consume(BATCH, 0.5) if message.error() is None]
        if time.perf_counter() - begin_s > _GIVE_UP_S:
            raise RuntimeError(f"the loop had {seen} of {records} records after {_GIVE_UP_S:g} s")
        if not messages:
            continue
        rows = sink.prepare(_keyed(messages))
        before_s = time.perf_counter()
        sink.write(rows)
        write_s += time.perf_counter() - before_s
        seen += len(messages)
    total_s = time.perf_counter() - begin_s
    consumer.close()
    return total_s, write_s


class Follower:
    """A loop in a thread of this process, from a topic's beginning on into a sink; a context manager."""

    def __init__(self, bootstrap: str, topic: str, sink: Any) -> None:
        self._consumer = _consumer(bootstrap, topic)
        self._sink = sink
        self._written: dict[int, int] = {}
        self._moved = threading.Condition()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Follower:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join()
        self._consumer.close()

    def wait(self, position: Position) -> None:
        """Return when the store has every record before ``position``. Raises RuntimeError when it takes minutes."""
        ends = {tp.partition: offset for tp, offset in position.items()}
        with self._moved:
            if not self._moved.wait_for(
                lambda: all(self._written.get(number, 0) >= end for number, end in ends.items()), _GIVE_UP_S
            ):
                raise RuntimeError(f"the loop had not written {position} after {_GIVE_UP_S:g} s")

    def _run(self) -> None:
        while not self._stopping.is_set():
            first = self._consumer.poll(0.5)
            if first is None:
                continue
            messages = [each for each in (first, *self._consumer.consume(BATCH, 0)) if each.error() is None]
            if not messages:
                continue
            self._sink.write(self._sink.prepare(_keyed(messages)))
            with self._moved:
                self._written.update({message.partition(): message.offset() + 1 for message in messages})
                self._moved.notify_all()


def _consumer(bootstrap: str, topic: str) -> confluent_kafka.Consumer:
    """A consumer of all partitions of a topic, from their beginning."""
    group = f"by-hand-{time.perf_counter()}"
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": bootstrap, "group.id": group, "auto.offset.reset": "earliest"}
    )
    partitions = consumer.list_topics(topic, 30).topics[topic].partitions
    consumer.assign([confluent_kafka.TopicPartition(topic, number, 0) for number in partitions])
    return consumer


def _keyed(messages: Sequence[Any]) -> list[tuple[str, bytes | None]]:
    return [((message.key() or b"").decode(), message.value()) for message in messages]
