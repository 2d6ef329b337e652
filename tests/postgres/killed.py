"""Captures a database while the capture, the log and the server's sender are killed at random, and checks the topics.

By itself: ``python -m tests.postgres.killed --kills 1000``.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psycopg2

from mainstem.client.log import Log
from mainstem.model import lsn_text
from mainstem.pipelines.definitions import CaptureSettings
from mainstem.postgres.captured_state import read_state
from tests.broker.harness import LogProcess, child_environment
from tests.support.eventually import eventually
from tests.support.postgres import PostgresCluster

TIMEOUT_S = 180
TABLES = ("orders", "lines")
SCHEMA = """
CREATE SEQUENCE stamps;
CREATE TABLE written (stamp bigint PRIMARY KEY, name text, id int);
CREATE TABLE orders (id int PRIMARY KEY, stamp bigint, item text, price numeric(10,2), tags jsonb);
CREATE TABLE lines (id int PRIMARY KEY, stamp bigint, note text);
ALTER TABLE lines ALTER note SET STORAGE EXTERNAL;
"""


class Writer(threading.Thread):
    """Changes the tables at random, in transactions of one to many changes. Every change has a stamp of its own."""

    def __init__(self, dsn: str, seed: int) -> None:
        super().__init__(daemon=True)
        self.changes = 0
        self.error: BaseException | None = None
        self._dsn = dsn
        self._random = random.Random(seed)
        self._stopping = threading.Event()

    def run(self) -> None:
        try:
            connection = psycopg2.connect(self._dsn)
            while not self._stopping.is_set():
                with connection, connection.cursor() as cursor:
                    for _ in range(self._random.choice((1, 1, 2, 5, 300))):
                        self._change(cursor)
            connection.close()
        except BaseException as error:  # noqa: BLE001 - the test looks at it
            self.error = error

    def stop(self) -> None:
        self._stopping.set()
        self.join(TIMEOUT_S)
        if self.error is not None:
            raise self.error

    def _change(self, cursor: Any) -> None:
        self.changes += 1
        name, row = self._random.choice(TABLES), self._random.randrange(2_000)
        kind = self._random.random()
        stamp = "nextval('stamps')"
        if kind < 0.15:
            cursor.execute(f"DELETE FROM {name} WHERE id = %s", (row,))
            return
        if kind < 0.25:  # another key
            cursor.execute(
                f"WITH moved AS (UPDATE {name} SET id = id + 10000, stamp = {stamp} WHERE id = %s AND NOT EXISTS"
                f" (SELECT FROM {name} WHERE id = %s) RETURNING stamp, id)"
                f" INSERT INTO written SELECT stamp, %s, id FROM moved",
                (row, row + 10_000, name),
            )
            return
        text = "note" if name == "lines" else "item"
        values = (row, "é" * self._random.choice((1, 10, 5_000)), name)
        keeps = "" if self._random.random() < 0.5 else f", {text} = excluded.{text}"
        cursor.execute(
            f"WITH put AS (INSERT INTO {name} (id, stamp, {text}) VALUES (%s, {stamp}, %s)"
            f" ON CONFLICT (id) DO UPDATE SET stamp = excluded.stamp{keeps}"
            f" RETURNING stamp, id) INSERT INTO written SELECT stamp, %s, id FROM put",
            values,
        )


class CaptureProcess:
    """``mainstem connect postgres`` as a child."""

    def __init__(self, settings: CaptureSettings, bootstrap: str, directory: Path) -> None:
        self._argv = [sys.executable, "-m", "mainstem.cli.main", "connect", "postgres", settings.dsn]
        self._argv += ["--tables", ",".join(map(str, settings.tables)), "--name", settings.name]
        self._argv += ["--bootstrap", bootstrap]
        self._errors = directory / "capture.err"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        code = "from mainstem.cli.main import main; main()"
        argv = [sys.executable, "-c", code, *self._argv[3:]]
        with self._errors.open("ab") as errors:
            self._process = subprocess.Popen(
                argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=errors, env=child_environment()
            )

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def stop(self) -> int:
        return self._end(signal.SIGTERM)

    def _end(self, number: int) -> int:
        assert self._process is not None
        self._process.send_signal(number)
        return self._process.wait(TIMEOUT_S)

    @property
    def is_alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def errors(self) -> str:
        return self._errors.read_text(errors="replace")


def run(cluster: PostgresCluster, database: str, directory: Path, *, kills: int, seed: int, rows: int = 3_000) -> int:
    """Kill so often; the number of changes that were made meanwhile. Raises AssertionError."""
    chance = random.Random(seed)
    dsn = cluster.dsn(database)
    cluster.execute(SCHEMA, database=database)
    for name in TABLES:  # rows for snapshots, which are killed too
        cluster.execute(
            f"INSERT INTO {name} (id, stamp) SELECT n + 100000, -n FROM generate_series(1, {rows}) n", database=database
        )
    settings = CaptureSettings.of("shop", dsn, TABLES)
    log = LogProcess(directory / "log")
    log.start()
    capture = CaptureProcess(settings, log.bootstrap, directory)
    writer = Writer(dsn, seed)
    try:
        capture.start()
        writer.start()
        for _ in range(kills):
            time.sleep(chance.uniform(0.05, 1.2))  # the moment of the kill: nothing waits for it
            kind = chance.random()
            if kind < 0.6:
                capture.kill()
                capture.start()
            elif kind < 0.8:
                log.kill()
                log.start()
            else:
                cluster.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_replication")
            if not capture.is_alive:  # it started while the log was away, which a first start refuses
                capture.start()
        writer.stop()
        with Log(log.bootstrap) as client:
            _wait(client, cluster, database, capture)
            assert capture.stop() == 0, capture.errors
            _check(client, cluster, database)
    finally:
        writer._stopping.set()
        if capture.is_alive:
            capture.kill()
        log.kill()
    return writer.changes


def _wait(log: Log, cluster: PostgresCluster, database: str, capture: CaptureProcess) -> None:
    end = cluster.execute("SELECT pg_current_wal_lsn() - '0/0'::pg_lsn", database=database)[0][0]

    def is_done() -> bool:
        if not capture.is_alive:
            capture.start()
        state = read_state(log, "shop")
        return state.lsn >= end and all(table.is_done for table in state.tables.values())

    eventually(is_done, f"the capture comes to {lsn_text(int(end))}", TIMEOUT_S)


def _check(log: Log, cluster: PostgresCluster, database: str) -> None:
    """Each topic is its table; each change that the stream brought is in it once, and none is missing.

    While a snapshot is taken, the stream may leave out a change of a row that the snapshot has not come to. So nothing
    may be missing behind the snapshot's last row.
    """
    written = cluster.execute("SELECT stamp, name FROM written", database=database)
    for name in TABLES:
        latest: dict[str, Any] = {}
        streamed: list[int] = []
        before_last_read = 0
        for record in log.read(f"shop.{name}"):
            value = None if record.value is None else json.loads(record.value)
            latest[(record.key or b"").decode()] = value
            if value is not None and dict(record.headers)["mainstem-xid"]:
                streamed.append(value["stamp"])
            elif value is not None:
                before_last_read = max(streamed, default=0)
        select = f"SELECT id::text, to_jsonb(t) FROM {name} t"
        rows = {str(key): row for key, row in cluster.execute(select, database=database)}
        assert {key: value for key, value in latest.items() if value is not None} == rows
        assert len(streamed) == len(set(streamed)), f"of {name}, changes are in the log twice"
        expected = {stamp for stamp, table in written if table == name and stamp > before_last_read}
        assert expected - set(streamed) == set(), f"of {name}, changes are not in the log"


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=1_000)
    parser.add_argument("--rows", type=int, default=3_000, help="of each table, for its snapshot")
    parser.add_argument("--seed", type=int, default=int.from_bytes(os.urandom(3), "big"))
    options = parser.parse_args(argv)
    cluster = PostgresCluster()
    try:
        cluster.create()
        with tempfile.TemporaryDirectory() as directory:
            changes = run(
                cluster, "postgres", Path(directory), kills=options.kills, seed=options.seed, rows=options.rows
            )
    finally:
        cluster.close()
    sys.stdout.write(
        f"{options.kills} kills, {changes} changes, seed {options.seed}: each change once, each topic its table\n"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
