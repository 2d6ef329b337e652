"""SIGTERM ends a capture in some seconds, also when the log or the database hangs; and it goes on from there."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from mainstem.client.log import Log
from mainstem.postgres.captured_state import read_state
from tests.broker.harness import LogProcess, child_environment
from tests.postgres.conftest import TIMEOUT_S, Shop, current_lsn
from tests.support.eventually import eventually
from tests.support.postgres import PostgresCluster

CODE = "import mainstem.postgres.process as process; process._STOP_S = 1.0; from mainstem.cli.main import main; main()"
HANDLING = (
    "SELECT pid FROM pg_stat_activity WHERE application_name = 'mainstem' AND datname = current_database()"
    " AND backend_type = 'client backend'"
)


@contextmanager
def hanging(pids: list[int]) -> Iterator[None]:
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


def started(shop: Shop, bootstrap: str) -> subprocess.Popen[str]:
    """``mainstem connect postgres`` when it is ready."""
    argv = ["connect", "postgres", shop.database.dsn, "--tables", "orders", "--name", shop.name]
    process = subprocess.Popen(
        [sys.executable, "-c", CODE, *argv, "--bootstrap", bootstrap],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=child_environment(),
    )
    assert process.stdout is not None
    assert process.stdout.readline().startswith("ready: postgres")
    return process


def has_snapshots(log: Log, name: str) -> bool:
    return all(table.is_done for table in read_state(log, name).tables.values())


@pytest.mark.parametrize("what", ["log", "database"])
def test_a_capture_stops_while_the_other_side_hangs(shop: Shop, tmp_path: Path, what: str) -> None:
    shop.execute("CREATE TABLE orders (id int PRIMARY KEY)")
    broker = LogProcess(tmp_path / "data").start()
    try:
        process = started(shop, broker.bootstrap)
        try:
            with Log(broker.bootstrap) as log:
                here = Shop(log, shop.database, shop.name)
                shop.execute("INSERT INTO orders VALUES (1)")
                eventually(lambda: here.fold() == shop.rows(), "the topic is the table", TIMEOUT_S)
                eventually(lambda: has_snapshots(log, shop.name), "the snapshot is done", TIMEOUT_S)
                pids = [broker.pid] if what == "log" else [pid for (pid,) in shop.execute(HANDLING)]
                assert pids
                with hanging(pids):
                    # A new column makes the capture ask the database.
                    shop.execute("ALTER TABLE orders ADD COLUMN late int; INSERT INTO orders VALUES (2)")
                    process.send_signal(signal.SIGTERM)
                    _, errors = process.communicate(timeout=TIMEOUT_S)
                assert process.returncode == 0, errors
        finally:
            process.kill()
            process.communicate()
        process = started(shop, broker.bootstrap)
        with Log(broker.bootstrap) as log:
            here = Shop(log, shop.database, shop.name)
            eventually(lambda: "2" in here.fold(), "the second row is there", TIMEOUT_S)
            assert here.records() == [("1", {"id": 1}), ("2", {"id": 2, "late": None})]
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=TIMEOUT_S)
    finally:
        broker.kill()


def test_the_slot_is_never_ahead_of_the_log(postgres_cluster: PostgresCluster, shop: Shop, tmp_path: Path) -> None:
    """Also while the log is away, other tables are written, and the server asks for an answer every three seconds."""
    shop.execute("CREATE TABLE orders (id int PRIMARY KEY); CREATE TABLE others (filler text)")
    postgres_cluster.execute("ALTER SYSTEM SET wal_sender_timeout = '6s'")
    postgres_cluster.execute("SELECT pg_reload_conf()")
    sender = "SELECT write_lsn - '0/0'::pg_lsn, flush_lsn - '0/0'::pg_lsn FROM pg_stat_replication"
    broker = LogProcess(tmp_path / "data").start()
    try:
        with Log(broker.bootstrap) as log:
            here = Shop(log, shop.database, shop.name)
            with here.capture() as capture:
                capture.caught_up(shop.database)
                os.kill(broker.pid, signal.SIGSTOP)
                shop.execute("INSERT INTO others SELECT repeat('x', 1000) FROM generate_series(1, 3000) n")
                end = current_lsn(shop.database)

                def is_told() -> bool:
                    return any(write is not None and write >= end for write, _ in shop.execute(sender))

                eventually(is_told, "the server is told what has come", TIMEOUT_S)
                [(_, told)] = shop.execute(sender)
                committed = capture.counts.lsn
                os.kill(broker.pid, signal.SIGCONT)
                assert told <= committed < end
                capture.caught_up(shop.database)
            assert capture.error is None
            with here.capture() as capture:
                shop.execute("INSERT INTO orders VALUES (1)")
                capture.caught_up(shop.database)
            assert here.fold() == shop.rows()
    finally:
        broker.kill()
        postgres_cluster.execute("ALTER SYSTEM RESET wal_sender_timeout")
        postgres_cluster.execute("SELECT pg_reload_conf()")
