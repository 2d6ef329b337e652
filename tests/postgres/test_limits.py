"""Rows that are too large, chunks of large rows, and a server that hangs."""

from __future__ import annotations

import os
import signal
import threading

import pytest

from mainstem.pipelines.definitions import TableName
from mainstem.postgres.connector import Connector
from mainstem.postgres.server import chunks
from mainstem.postgres.server.chunks import ChunkReader
from tests.postgres.conftest import TIMEOUT_S, Shop
from tests.support.eventually import eventually

LARGE = "repeat('x', 34000000)"


@pytest.mark.parametrize("when", ["snapshot", "stream"])
def test_a_row_that_is_too_large_ends_the_capture_with_its_table_and_key(shop: Shop, when: str) -> None:
    shop.execute("CREATE TABLE orders (id int PRIMARY KEY, note text)")
    shop.execute("ALTER TABLE orders ALTER note SET STORAGE EXTERNAL; INSERT INTO orders VALUES (1, 'small')")
    errors: list[BaseException] = []
    ready = threading.Event()
    lines: list[str] = []
    connector = Connector(shop.settings(), shop.log, lines.append)

    def run() -> None:
        try:
            connector.run(ready.set)
        except BaseException as error:  # noqa: BLE001 - the test looks at it
            errors.append(error)

    if when == "snapshot":
        shop.execute(f"INSERT INTO orders VALUES (4711, {LARGE})")
    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        if when == "stream":
            assert ready.wait(60)
            eventually(lambda: shop.fold() == {"1": {"id": 1, "note": "small"}}, "the snapshot", 30)
            shop.execute(f"INSERT INTO orders VALUES (4711, {LARGE})")
        eventually(lambda: bool(errors or len(lines) > 3), "the capture ends", 60)
    finally:
        connector.stop()
        thread.join(60)
    assert errors, lines
    assert f"{shop.name}.orders" in str(errors[0])
    assert "4711" in str(errors[0])
    assert len(str(errors[0])) < 1000


def test_a_chunk_of_huge_rows_is_read_in_smaller_ones(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunks, "_BYTES_MAX", 1 << 20)
    shop.execute("CREATE TABLE orders (id int PRIMARY KEY, note text)")
    shop.execute("INSERT INTO orders SELECT n, repeat('x', 300000) FROM generate_series(1, 20) n")
    with shop.capture() as capture:
        capture.caught_up(shop.database)
    assert shop.fold() == shop.rows()


def test_a_chunk_of_a_server_process_that_hangs_is_given_up(shop: Shop) -> None:
    shop.execute("CREATE TABLE orders (id int PRIMARY KEY); INSERT INTO orders VALUES (1)")
    holder = shop.database.connect()
    reader = ChunkReader(shop.database.dsn, "c")
    waiting = "SELECT pid FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
    pid = 0
    try:
        holder.autocommit = False
        holder.cursor().execute("LOCK TABLE orders IN ACCESS EXCLUSIVE MODE")
        reader.request(TableName("public", "orders"), None)
        eventually(lambda: bool(shop.execute(waiting)), "the chunk waits for the lock", TIMEOUT_S)
        pid = shop.execute(waiting)[0][0]
        os.kill(pid, signal.SIGSTOP)
        closing = threading.Thread(target=reader.close, daemon=True)
        closing.start()
        closing.join(TIMEOUT_S)
        assert not closing.is_alive()
        assert not reader.is_busy
    finally:
        if pid:
            os.kill(pid, signal.SIGCONT)
        holder.close()
