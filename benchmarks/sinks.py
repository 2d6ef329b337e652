"""A sink beside what a user would write by hand: ``python -m benchmarks.sinks``.

A topic of orders goes into a table of PostgreSQL, by a sink and, in turn, by a hand-written loop: confluent-kafka,
``json.loads``, psycopg2's ``execute_values`` with ``ON CONFLICT DO UPDATE``, a commit for each 10,000 records. The loop
checks nothing and keeps no position in the database. *new*: every record has a key of its own. *replaced*: each key
comes ten times. *one*: an append until its row is seen with ``at_least``. Exit code 0 whatever was met.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from psycopg2.extras import execute_values
from tests.support.postgres import PostgresCluster, PostgresDatabase

from benchmarks import by_hand
from benchmarks.brokers import Mainstem
from benchmarks.report import Comparison, Goal
from mainstem.client.log import Log
from mainstem.model import Position
from mainstem.pipelines.app import App
from mainstem.pipelines.deploy import deploy
from mainstem.pipelines.kinds import Postgres
from mainstem.views.host.host import ViewHost
from mainstem.views.read_options import ReadOptions
from mainstem.views.requests import GetQuery

PEER = "by hand"
DDL = "id BIGINT, customer STRING, item STRING, amount DECIMAL(12,2), ordered TIMESTAMP, paid BOOLEAN, weight DOUBLE"
_COLUMNS = ("id", "customer", "item", "amount", "ordered", "paid", "weight")
_TYPES = (
    "id bigint PRIMARY KEY, customer text, item text, amount numeric(12,2), ordered timestamptz, paid boolean, "
    "weight float8"
)
_LOADS = {"new": 1, "replaced": 10}


class PostgresSink:
    """What many write: the last row of each key of a batch, in one INSERT for each thousand."""

    def __init__(self, database: PostgresDatabase) -> None:
        self._session = database.connect()
        self._session.autocommit = False
        self._cursor = self._session.cursor()
        self._cursor.execute(f"CREATE TABLE by_hand ({_TYPES})")
        self._session.commit()
        sets = ", ".join(f"{name} = excluded.{name}" for name in _COLUMNS[1:])
        self._insert = f"INSERT INTO by_hand VALUES %s ON CONFLICT (id) DO UPDATE SET {sets}"

    def prepare(self, records: by_hand.Keyed) -> Any:
        last = {key: None if value is None else json.loads(value) for key, value in records}
        upserts = [tuple(row[name] for name in _COLUMNS) for row in last.values() if row is not None]
        return upserts, [(int(key),) for key, row in last.items() if row is None]

    def write(self, rows: Any) -> None:
        upserts, deletions = rows
        if deletions:
            execute_values(self._cursor, "DELETE FROM by_hand WHERE id IN (VALUES %s)", deletions, page_size=1_000)
        if upserts:
            execute_values(self._cursor, self._insert, upserts, page_size=1_000)
        self._session.commit()

    def close(self) -> None:
        self._session.close()


def main(argv: list[str] | None = None) -> int:
    arguments = _parser().parse_args(argv)
    sys.setswitchinterval(1e-4)
    load = os.getloadavg()[0]
    cluster = PostgresCluster({"fsync": "on", "shared_buffers": "256MB", "max_wal_size": "4GB"})
    try:
        cluster.create()
        with tempfile.TemporaryDirectory(prefix="mainstem-bench-") as root:
            sys.stdout.write(
                f"{os.cpu_count()} cores, load {load:.1f} before; {arguments.rounds} rounds, alternating\n"
            )
            sys.stdout.write(_measured(Path(root), cluster, arguments) + "\n")
    finally:
        cluster.close()
    return 0


def _measured(root: Path, cluster: PostgresCluster, arguments: argparse.Namespace) -> str:
    comparison = Comparison([Goal(f"{load}: apply", "records/s", 1.5) for load in _LOADS], PEER)
    broker = Mainstem(root / "log")
    broker.start()
    try:
        for load, repeats in _LOADS.items():
            app = App(f"bench-{load}")
            topic = app.topic(load, DDL, key="id", partitions=4)
            with Log(broker.bootstrap, timeout_s=60) as log:
                deploy(app, log)
                end = log.append_many(load, _orders(arguments.records, arguments.records // repeats))
            for number in range(arguments.rounds + 1):
                figures = _once(root / f"{load}-{number}", broker.bootstrap, cluster, topic, (arguments.records, end))
                sys.stderr.write(f"{load} {number}: {figures}\n")
                for who, rate in figures.items() if number else ():
                    comparison.add(who, f"{load}: ", {"apply": rate})
        latencies = _latencies(root / "one", broker.bootstrap, cluster, arguments.reads)
    finally:
        broker.stop()
    return f"{comparison.to_text()}\none: append → row with at_least, {arguments.reads} in turn: {latencies}"


def _once(
    place: Path, bootstrap: str, cluster: PostgresCluster, topic: Any, load: tuple[int, Position]
) -> dict[str, float]:
    """Records a second of the sink and of the loop, each into a table of its own."""
    records, end = load
    database = PostgresDatabase(cluster, f"bench_{place.name.replace('-', '_')}")
    cluster.execute(f"CREATE DATABASE {database.name}")
    app = App(f"bench-{topic.name}")
    declared = app.topic(topic.name, DDL, key="id", partitions=4)
    app.sink(declared, Postgres(database.dsn, table="orders"))
    begin_s = time.perf_counter()
    with ViewHost(tuple(app.views.values()), bootstrap, place / "views") as host:
        host.wait("orders", lambda status: status.position.covers(end), 300)
        sink_s = time.perf_counter() - begin_s
    cluster.execute("CHECKPOINT")
    sink = PostgresSink(database)
    loop_s, _ = by_hand.run(bootstrap, topic.name, records, sink)
    sink.close()
    same = "SELECT (SELECT count(*) FROM orders), (SELECT count(*) FROM (TABLE by_hand EXCEPT TABLE orders) d)"
    [(rows, others)] = database.execute(same)
    assert (rows > 0, others) == (True, 0), "both tables hold the same"
    cluster.execute(f"DROP DATABASE {database.name}")
    cluster.execute("CHECKPOINT")
    return {"Mainstem": records / sink_s, PEER: records / loop_s}


def _latencies(place: Path, bootstrap: str, cluster: PostgresCluster, count: int) -> str:
    cluster.execute("CREATE DATABASE bench_one")
    app = App("bench-one")
    app.sink(app.topic("one", DDL, key="id"), Postgres(PostgresDatabase(cluster, "bench_one").dsn, table="orders"))
    taken = []
    with Log(bootstrap, timeout_s=60) as log, ViewHost(tuple(app.views.values()), bootstrap, place) as host:
        deploy(app, log)
        host.wait("orders", lambda status: status.state == "live", 60)
        for number, (key, row) in enumerate(_orders(count + 20, count)):
            begin_s = time.perf_counter()
            position = log.append("one", row, key=key)
            assert host.query("orders", GetQuery(key), ReadOptions(at_least=position)).rows
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


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="benchmarks.sinks", description=__doc__)
    parser.add_argument("--records", type=int, default=200_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--reads", type=int, default=300)
    return parser


if __name__ == "__main__":
    raise SystemExit(main())
