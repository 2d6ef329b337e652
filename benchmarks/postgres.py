"""A capture of PostgreSQL beside Debezium: ``python -m benchmarks.postgres``.

Both capture one database into JSON with Debezium's envelope. Mainstem writes it into its log, each record durable
before the slot moves; Debezium's embedded engine counts its changes and drops them, with the heap of Kafka Connect (at
most 2 GB). *snapshot*: from the first row to the last; the start is not counted. The other loads are written while both
processes stand still (SIGSTOP); then one of them goes on, and its changes are timed until it has the last one. *small*:
transactions of pgbench (three updates and an insert). *copy*: one transaction. *updates*: of 100 rows each. Memory is
the peak of the process that captures. *reads*: an update and its commit, and the read of the row from a view with
``at_least=pg:LSN`` over HTTP; log, capture, view host and gateway are processes of their own. Exit code 0 whatever was
met.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from tests.broker.harness import child_environment
from tests.support.debezium_engine import ENGINE_PROGRAM, debezium_jars, engine_properties, write_properties
from tests.support.ports import free_port
from tests.support.postgres import PostgresCluster, PostgresDatabase, postgres_programs

from benchmarks.brokers import Mainstem
from benchmarks.report import Comparison, Goal, judgement, machine_load
from mainstem.client.http.views import views
from mainstem.client.log import Log
from mainstem.model import Position
from mainstem.pipelines.definitions import CaptureSettings
from mainstem.postgres.captured_state import CapturedState, read_state

PEER = "Debezium"
TABLES = ("orders", "pgbench_accounts", "pgbench_tellers", "pgbench_branches", "pgbench_history")
_SETTINGS = {"fsync": "on", "shared_buffers": "256MB", "max_wal_size": "4GB", "wal_sender_timeout": "0"}
_HEAP = ("-Xms256M", "-Xmx2G")
_DDL = """
CREATE TABLE orders (
  id bigint PRIMARY KEY, customer text, item text, amount numeric(12,2), ordered timestamptz, paid boolean
);
ALTER TABLE pgbench_history ADD id bigserial PRIMARY KEY;
CREATE PROCEDURE change(transactions int, per int) LANGUAGE plpgsql AS $$
BEGIN
  FOR n IN 0..transactions - 1 LOOP
    UPDATE orders SET amount = amount + 1, paid = NOT paid WHERE id BETWEEN n * per + 1 AND n * per + per;
    COMMIT;
  END LOOP;
END $$;
"""
_ROWS = """
SELECT n, 'customer-' || n % 5000, 'an item with a longer name ' || n % 700, (n % 100000) / 100.0,
  timestamptz '2024-01-01 12:00:00Z' + n * interval '1 second', n % 3 = 0 FROM generate_series({}, {}) n
"""
_APP = """
import mainstem as ms
app = ms.App("bench")
shop = app.postgres("reads", dsn={dsn!r}, tables=("public.orders",))
app.view("orders", shop["public.orders"], ms.KeyValue())
"""
_P99_MS = 50
_PER_TRANSACTION = 100
_CLIENTS = 4
_GIVE_UP_S = 300.0
_LOOK_S = 0.05


class MainstemCapture:
    """``mainstem connect postgres`` into a log of its own."""

    name = "Mainstem"

    def __init__(self, database: PostgresDatabase, directory: Path) -> None:
        self.changes = 0
        self._log = Mainstem(directory / "log")
        self._log.start()
        self._settings = CaptureSettings.of("bench", database.dsn, TABLES, envelope="debezium")
        argv = [sys.executable, "-c", "from mainstem.cli.main import main; main()", "connect", "postgres", database.dsn]
        argv += ["--tables", ",".join(TABLES), "--name", "bench", "--envelope", "debezium"]
        argv += ["--bootstrap", self._log.bootstrap]
        self._client = Log(self._log.bootstrap)
        self.process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, env=child_environment())

    @property
    def _state(self) -> CapturedState:
        return read_state(self._client, "bench")

    def snapshot_rows(self) -> int:
        return sum(table.rows for table in self._state.tables.values())

    def has(self, lsn: int, changes: int) -> bool:
        return self._state.lsn >= lsn

    def close(self) -> None:
        _end(self.process)
        self._client.close()
        self._log.stop()


class DebeziumCapture:
    """Debezium's engine, as a process."""

    name = PEER

    def __init__(self, database: PostgresDatabase, directory: Path) -> None:
        self._seen = 0
        cluster = database.cluster
        dsn = {"host": "127.0.0.1", "port": str(cluster.port), "user": "debezium", "password": "p"}
        properties = engine_properties(
            {**dsn, "dbname": database.name}, database.name, [f"public.{each}" for each in TABLES]
        )
        file = directory / "debezium.properties"
        write_properties(properties, file)
        classes = f"{debezium_jars()}/*:{directory}"
        subprocess.run(["javac", "-cp", classes, "-d", str(directory), str(ENGINE_PROGRAM)], check=True, timeout=120)
        argv = ["java", *_HEAP, "-cp", classes, "Changes", str(file), "count"]
        self.process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._before = 0
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._seen = int(line)

    def snapshot_rows(self) -> int:
        return self._seen

    def has(self, lsn: int, changes: int) -> bool:
        return self._seen >= changes

    def close(self) -> None:
        _end(self.process)


Capture = MainstemCapture | DebeziumCapture


def _end(process: subprocess.Popen[bytes] | subprocess.Popen[str]) -> None:
    process.kill()
    process.wait(60)


def main(argv: list[str] | None = None) -> int:
    arguments = _parser().parse_args(argv)
    load = machine_load()
    cluster = PostgresCluster(_SETTINGS)
    goals = [Goal(f"{name}: rate", "changes/s", 2.0) for name in ("snapshot", "small", "copy", "updates")]
    comparison = Comparison([*goals, Goal("memory: peak", "MB", 0.2, at_most=True)], PEER, load)
    try:
        cluster.create()
        cluster.execute("CREATE ROLE debezium SUPERUSER LOGIN REPLICATION PASSWORD 'p'")
        with tempfile.TemporaryDirectory(prefix="mainstem-bench-") as root:
            for number in range(arguments.rounds):
                _round(Path(root), cluster, arguments, number, comparison)
            latencies = _latencies(Path(root), cluster, arguments.reads, load)
    finally:
        cluster.close()
    sys.stdout.write(f"{arguments.rounds} rounds, alternating; ")
    sys.stdout.write(f"{comparison.to_text()}\n{latencies}\n")
    return 0


def _round(
    root: Path, cluster: PostgresCluster, arguments: argparse.Namespace, number: int, comparison: Comparison
) -> None:
    name = f"bench_{number}"
    cluster.execute(f"CREATE DATABASE {name}")
    database = PostgresDatabase(cluster, name)
    _pgbench(database, "-i", "-q", "-s", "1")
    database.execute(_DDL)
    database.execute("INSERT INTO orders" + _ROWS.format(1, arguments.rows))
    cluster.execute("CHECKPOINT")
    kinds: list[Callable[[PostgresDatabase, Path], Capture]] = [MainstemCapture, DebeziumCapture]
    rows = arguments.rows + database.execute("SELECT (SELECT count(*) FROM pgbench_accounts) + 11")[0][0]
    captures: list[Capture] = []
    try:
        for kind in kinds[:: 1 if number % 2 else -1]:
            place = root / f"{number}-{len(captures)}"
            place.mkdir()
            captures.append(kind(database, place))
            _add(comparison, captures[-1], "snapshot", _snapshot_rate(captures[-1], rows))
            captures[-1].process.send_signal(signal.SIGSTOP)
        seen = rows
        for load, changes in _loads(database, arguments):
            seen += changes
            lsn = int(database.execute("SELECT pg_current_wal_lsn() - '0/0'::pg_lsn")[0][0])
            for capture in captures:
                begin_s = time.perf_counter()
                capture.process.send_signal(signal.SIGCONT)
                _until(capture, partial(capture.has, lsn, seen))
                _add(comparison, capture, load, changes / (time.perf_counter() - begin_s))
                capture.process.send_signal(signal.SIGSTOP)
        for capture in captures:
            peak = {"peak": _peak_mb(capture.process.pid)}
            sys.stderr.write(f"{number} {capture.name}: {peak}\n")
            comparison.add(capture.name, "memory: ", peak)
    finally:
        for capture in captures:
            capture.close()
    _drop(database)


def _add(comparison: Comparison, capture: Capture, load: str, rate: float) -> None:
    sys.stderr.write(f"{capture.name} {load}: {rate:,.0f}\n")
    comparison.add(capture.name, f"{load}: ", {"rate": rate})


def _snapshot_rate(capture: Capture, rows: int) -> float:
    _until(capture, lambda: capture.snapshot_rows() > 0)
    begin_s, first = time.perf_counter(), capture.snapshot_rows()
    _until(capture, lambda: capture.snapshot_rows() >= rows)
    return (rows - first) / (time.perf_counter() - begin_s)


def _until(capture: Capture, condition: Callable[[], bool]) -> None:
    deadline_s = time.perf_counter() + _GIVE_UP_S
    while not condition():
        if capture.process.poll() is not None or time.perf_counter() > deadline_s:
            raise RuntimeError(f"{capture.name} does not come to the end of the load")
        time.sleep(_LOOK_S)


def _loads(database: PostgresDatabase, arguments: argparse.Namespace) -> Iterator[tuple[str, int]]:
    """Write each load, and say how many changes it has."""
    each = arguments.transactions // _CLIENTS
    _pgbench(database, "-n", "-c", str(_CLIENTS), "-t", str(each))
    yield "small", each * _CLIENTS * 4
    database.execute("INSERT INTO orders" + _ROWS.format(arguments.rows + 1, arguments.rows + arguments.copied))
    yield "copy", arguments.copied
    transactions = arguments.updated // _PER_TRANSACTION
    database.execute(f"CALL change({transactions}, {_PER_TRANSACTION})")
    yield "updates", transactions * _PER_TRANSACTION


def _pgbench(database: PostgresDatabase, *arguments: str) -> None:
    cluster = database.cluster
    argv = [str(postgres_programs() / "pgbench"), "-h", str(cluster.directory), "-p", str(cluster.port)]
    environment = {**os.environ, "PGOPTIONS": "-c synchronous_commit=off"}
    subprocess.run(
        [*argv, "-U", "postgres", *arguments, database.name],
        env=environment,
        capture_output=True,
        check=True,
        timeout=_GIVE_UP_S,
    )


def _latencies(root: Path, cluster: PostgresCluster, reads: int, load: float) -> str:
    cluster.execute("CREATE DATABASE bench_reads")
    database = PostgresDatabase(cluster, "bench_reads")
    database.execute("CREATE TABLE orders (id int PRIMARY KEY, item text)")
    database.execute("INSERT INTO orders SELECT n, 'item' FROM generate_series(1, 1000) n")
    (root / "app.py").write_text(_APP.format(dsn=database.dsn))
    argv = [sys.executable, "-c", "from mainstem.cli.main import main; main()", "run", str(root / "app.py")]
    argv += ["--data", str(root / "data"), "--listen", f"127.0.0.1:{free_port()}", "--http", f"127.0.0.1:{free_port()}"]
    process = subprocess.Popen([*argv, "--no-console", "--json"], stdout=subprocess.PIPE, text=True)
    taken_ms = []
    connection = database.connect()
    try:
        assert process.stdout is not None
        view = views(f"http://{json.loads(process.stdout.readline())['ready']['http']}")["orders"]
        for number in range(reads + 50):
            with connection.cursor() as cursor:
                begin_s = time.perf_counter()
                cursor.execute("UPDATE orders SET item = %s WHERE id = %s", (str(number), number % 1000 + 1))
                cursor.execute("SELECT pg_current_wal_lsn()::text")
                position = Position.parse(f"pg:{cursor.fetchone()[0]}")
            row = view.get(str(number % 1000 + 1), at_least=position, timeout=60).row
            assert row is not None
            assert row["item"] == str(number)
            taken_ms += [1e3 * (time.perf_counter() - begin_s)] if number >= 50 else []
    finally:
        connection.close()
        process.terminate()
        process.wait(60)
    taken_ms.sort()
    p50, p99 = taken_ms[reads // 2], taken_ms[int(reads * 0.99)]
    goal = f"goal: p99 ≤ {_P99_MS} ms: {judgement(is_met=p99 <= _P99_MS, load=load)}"
    return f"reads: commit → row with at_least: p50 {p50:.1f} ms, p99 {p99:.1f} ms ({goal}), {reads} in turn"


def _peak_mb(pid: int) -> float:
    """The most memory that a process had, shared pages included, in megabytes. Neither capture has children."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM"))) / 1000


def _drop(database: PostgresDatabase) -> None:
    slots = "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE NOT active"
    deadline_s = time.perf_counter() + _GIVE_UP_S
    while database.execute("SELECT count(*) FROM pg_replication_slots")[0][0]:
        database.cluster.execute("SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE active")
        database.execute(slots)
        if time.perf_counter() > deadline_s:
            raise RuntimeError("the slots are not given up")
    database.cluster.execute(f"DROP DATABASE {database.name} WITH (FORCE)")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="benchmarks.postgres", description=__doc__)
    parser.add_argument("--rows", type=int, default=400_000, help="of the table that the snapshot reads")
    parser.add_argument("--transactions", type=int, default=30_000, help="of pgbench")
    parser.add_argument("--copied", type=int, default=300_000)
    parser.add_argument("--updated", type=int, default=200_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--reads", type=int, default=500)
    return parser


if __name__ == "__main__":
    raise SystemExit(main())
