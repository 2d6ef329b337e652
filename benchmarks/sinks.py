"""Sinks beside their peers: ``python -m benchmarks.sinks --database mariadb``.

A topic of orders goes into a table, in turn by a sink, by a loop that one would write by hand (confluent-kafka,
``json.loads``, the library that most use, a commit for each 10,000 records), and by Debezium's JDBC sink in Kafka
Connect, where the database has one. All read the same records from the same log and write to the same server, which
syncs each commit. *new*: every record has a key of its own. *replaced*: each key comes ten times. *one*: an append
until its row is seen with ``at_least``.

The sink and the loop are measured from their start. The JDBC sink is measured in a worker that has run before, from the
first row to the last. Memory is what the process has for itself (RssAnon) when the last row is there. Exit code 0
whatever was met.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import confluent_kafka
from tests.support.apache_kafka import KafkaUnavailableError

from benchmarks import by_hand, jdbc_sink
from benchmarks.brokers import Mainstem, resident_mb
from benchmarks.jdbc_sink import JdbcSink
from benchmarks.report import Comparison, Goal, load_line, machine_load
from benchmarks.sink_databases import COLUMNS, DATABASES, DDL, BenchDatabase
from mainstem.client.log import Log
from mainstem.model import Position
from mainstem.pipelines.app import App
from mainstem.pipelines.deploy import deploy
from mainstem.pipelines.kinds import Sink
from mainstem.views.host.host import ViewHost
from mainstem.views.read_options import ReadOptions
from mainstem.views.requests import GetQuery

_PARTITIONS = 4
_LOADS = {"new": 1, "replaced": 10}
_HAND = "by hand"
_CONNECT_TYPES = {"id": "int64", "paid": "boolean", "weight": "double"}
_GOALS = [
    *(Goal(f"{load}: apply", "records/s", 1.5) for load in _LOADS),
    *(Goal(f"{load}: memory", "MB", 0.5, at_most=True) for load in _LOADS),
]


@dataclass(frozen=True)
class _Load:
    """A topic of orders, all of it, and the last row of each partition."""

    topic: str
    records: int
    has_repeats: bool
    end: Position
    last: tuple[tuple[int, float], ...]


def main(argv: list[str] | None = None) -> int:
    arguments = _parser().parse_args(argv)
    sys.setswitchinterval(1e-4)
    load = machine_load()
    _say(f"{load_line(load)}; {arguments.rounds} rounds, alternating")
    with tempfile.TemporaryDirectory(prefix="mainstem-bench-") as root:
        broker = Mainstem(Path(root) / "log")
        broker.start()
        try:
            for name in arguments.database or DATABASES:
                directory = Path(root) / name
                directory.mkdir()
                database = DATABASES[name](directory)
                try:
                    _say(_measured(directory, broker.bootstrap, database, arguments, load))
                finally:
                    database.close()
        finally:
            broker.stop()
    return 0


def _measured(
    root: Path, bootstrap: str, database: BenchDatabase, arguments: argparse.Namespace, machine: float
) -> str:
    hand, jdbc = Comparison(_GOALS, _HAND, machine), Comparison(_GOALS, jdbc_sink.NAME, machine)
    with ExitStack() as stack:
        worker = _worker(root, bootstrap, database, stack)
        for name, repeats in _LOADS.items():
            load = _filled(bootstrap, f"{name}-{root.name}", arguments.records, repeats)
            for number in range(arguments.rounds + 1):
                place = root / f"{name}-{number}"
                figures = {"Mainstem": _by_sink(place, bootstrap, database, load)}
                database.checkpoint()
                figures[_HAND] = _by_loop(bootstrap, database, load)
                database.checkpoint()
                if worker is not None:
                    figures[jdbc_sink.NAME] = _by_jdbc(worker, database, load, f"{name}{number}")
                    database.checkpoint()
                sys.stderr.write(f"{database.name} {place.name}: {figures}\n")
                for who, each in figures.items() if number else ():
                    hand.add(who, f"{name}: ", each)
                    jdbc.add(who, f"{name}: ", each)
    latencies = _latencies(root / "one", bootstrap, database, arguments.reads)
    tables = [f"{database.name}\n", hand.to_text(), *([jdbc.to_text()] if jdbc.rows() else [])]
    return "\n".join([*tables, f"one: append → row with at_least, {arguments.reads} in turn: {latencies}"])


def _worker(root: Path, bootstrap: str, database: BenchDatabase, stack: ExitStack) -> JdbcSink | None:
    if database.jdbc() is None:
        return None
    fields = [{"field": name, "type": _CONNECT_TYPES.get(name, "string"), "optional": True} for name in COLUMNS]
    fields[COLUMNS.index("ordered")]["name"] = "io.debezium.time.ZonedTimestamp"
    try:
        return stack.enter_context(JdbcSink(root / "connect", bootstrap, fields))
    except KafkaUnavailableError as error:
        _say(f"without {jdbc_sink.NAME}: {error}")
        return None


def _filled(bootstrap: str, topic: str, records: int, repeats: int) -> _Load:
    with Log(bootstrap, timeout_s=60) as log:
        deploy(_app(topic), log)
        end = log.append_many(topic, _orders(records, records // repeats))
    consumer = confluent_kafka.Consumer({"bootstrap.servers": bootstrap, "group.id": "last"})
    last = []
    for place, offset in end.items():
        consumer.assign([confluent_kafka.TopicPartition(topic, place.partition, offset - 1)])
        [message] = consumer.consume(1, 60)
        row = json.loads(message.value())
        last.append((row["id"], row["weight"]))
    consumer.close()
    return _Load(topic, records, repeats > 1, end, tuple(last))


def _app(topic: str, sink: Sink | None = None) -> App:
    app = App(f"bench-{topic}")
    declared = app.topic(topic, DDL, key="id", partitions=_PARTITIONS)
    if sink is not None:
        app.sink(declared, sink)
    return app


def _by_sink(place: Path, bootstrap: str, database: BenchDatabase, load: _Load) -> dict[str, float]:
    """The sink in a process of its own, into the table ``orders``, which the next round replaces."""
    for table in ("orders", "mainstem_sinks"):
        database.execute(f"DROP TABLE IF EXISTS {table}")
    with ProcessPoolExecutor(1, get_context("spawn")) as process:
        work = process.submit(_host, place, bootstrap, database.sink("orders"), load)
        seconds, memory_mb = work.result()
    return {"apply": load.records / seconds, "memory": memory_mb}


def _host(place: Path, bootstrap: str, sink: Sink, load: _Load) -> tuple[float, float]:
    """In its process: the seconds until a sink has a topic, and the memory that the process has then."""
    begin_s = time.perf_counter()
    with ViewHost(tuple(_app(load.topic, sink).views.values()), bootstrap, place) as host:
        host.wait("orders", lambda status: status.position.covers(load.end), 300)
        return time.perf_counter() - begin_s, resident_mb(os.getpid())


def _by_loop(bootstrap: str, database: BenchDatabase, load: _Load) -> dict[str, float]:
    with _new_table(database, "by_hand"):
        loop = database.loop("by_hand")
        seconds, _ = by_hand.run(bootstrap, load.topic, load.records, loop)
        loop.close()
    return {"apply": load.records / seconds}


def _by_jdbc(worker: JdbcSink, database: BenchDatabase, load: _Load, name: str) -> dict[str, float]:
    with _new_table(database, "by_jdbc"):
        settings = {
            **(database.jdbc() or {}),
            "topics": load.topic,
            "primary.key.fields": "id",
            "collection.name.format": "by_jdbc",
            # The fastest of those tried: 1, 2 and 4 tasks; batches of 500, 2,000 and 5,000; with and without the
            # buffer, which keeps the last row of each key.
            "tasks.max": "2",
            "batch.size": "5000",
            "consumer.override.max.poll.records": "5000",
            "use.reduction.buffer": "true" if load.has_repeats else "false",
        }
        session = database.connect()
        cursor = session.cursor()

        def found(query: str) -> list[Any]:
            cursor.execute(query)
            rows = list(cursor.fetchall())
            session.rollback()
            return rows

        ids = ", ".join(str(number) for number, _ in load.last)
        wanted = sorted(load.last)
        with worker.running(name, settings) as wait:
            begin_s = wait(lambda: bool(found("SELECT 1 FROM by_jdbc LIMIT 1")))
            query = f"SELECT id, weight FROM by_jdbc WHERE id IN ({ids})"
            end_s = wait(lambda: sorted(found(query)) == wanted)
            memory_mb = resident_mb(worker.pid)
        session.close()
    return {"apply": load.records / (end_s - begin_s), "memory": memory_mb}


@contextmanager
def _new_table(database: BenchDatabase, table: str) -> Iterator[None]:
    """A table of its own, which has the rows of the sink's at the end."""
    database.create(table)
    yield
    columns = ", ".join(database.comparable)
    others = f"SELECT count(*) FROM (SELECT {columns} FROM {table} EXCEPT SELECT {columns} FROM orders) AS others"
    counts = [database.execute(f"SELECT count(*) FROM {name}")[0][0] for name in ("orders", table)]
    assert counts[0] == counts[1] > 0, f"both tables have the same number of rows: {counts}"
    assert database.execute(others)[0][0] == 0, "both tables hold the same"
    database.execute(f"DROP TABLE {table}")


def _latencies(place: Path, bootstrap: str, database: BenchDatabase, count: int) -> str:
    app = _app(f"one-{database.name.lower()}", database.sink("one"))
    taken = []
    with Log(bootstrap, timeout_s=60) as log, ViewHost(tuple(app.views.values()), bootstrap, place) as host:
        deploy(app, log)
        [topic] = app.topics
        host.wait("one", lambda status: status.state == "live", 60)
        for number, (key, row) in enumerate(_orders(count + 20, count)):
            begin_s = time.perf_counter()
            position = log.append(topic, row, key=key)
            assert host.query("one", GetQuery(key), ReadOptions(at_least=position)).rows
            taken += [time.perf_counter() - begin_s] if number >= 20 else []
    taken.sort()
    return f"p50 {taken[len(taken) // 2] * 1e3:.1f} ms, p99 {taken[int(len(taken) * 0.99)] * 1e3:.1f} ms"


def _orders(records: int, keys: int) -> Iterator[tuple[str, dict[str, Any]]]:
    for number in range(records):
        key = number * 7_919 % keys
        yield (
            str(key),
            {
                "id": key,
                "customer": f"customer-{number % 5_000}",
                "item": f"an item with a longer name {number % 700}",
                "amount": f"{number % 100_000 / 100:.2f}",
                "ordered": f"2024-01-{1 + number % 28:02d}T12:{number % 60:02d}:00Z",
                "paid": number % 3 == 0,
                "weight": number / 7,
            },
        )


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="benchmarks.sinks", description=__doc__)
    parser.add_argument("--database", action="append", choices=sorted(DATABASES), help="one of them; all by default")
    parser.add_argument("--records", type=int, default=200_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--reads", type=int, default=300)
    return parser


if __name__ == "__main__":
    raise SystemExit(main())
