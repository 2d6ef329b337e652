"""Changes at the worst moments of a snapshot: the topic ends as its table, whatever comes between."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from mainstem.postgres.capture import Capture
from mainstem.postgres.server import chunks, replication
from mainstem.postgres.server.chunks import ChunkReader
from mainstem.schema.topic_schemas import lookup
from tests.postgres.conftest import Shop
from tests.support.eventually import eventually
from tests.support.postgres import PostgresCluster

ORDERS = "CREATE TABLE orders (id int PRIMARY KEY, state text, note text, more text)"
EXTERNAL = "ALTER TABLE orders ALTER note SET STORAGE EXTERNAL, ALTER more SET STORAGE EXTERNAL"
Interleave = Callable[..., None]


def large(letter: str) -> str:
    return f"repeat('{letter}', 10000)"


@pytest.fixture
def interleave(monkeypatch: pytest.MonkeyPatch) -> Interleave:
    """Run ``before`` in an open window before its chunk is read, ``after`` between the chunk and its mark; once."""

    def install(before: Callable[[], object] | None = None, after: Callable[[], object] | None = None) -> None:
        left = {"before": before, "after": after}
        read, rows_of = ChunkReader._read, chunks.rows_of

        def once(name: str) -> None:
            call, left[name] = left[name], None
            if call is not None:
                call()

        def reading(self: ChunkReader, *arguments: Any) -> Any:
            once("before")
            return read(self, *arguments)

        def marking(connection: Any, statement: Any, values: Any = None) -> Any:
            if "pg_logical_emit_message" in str(statement):
                once("after")
            return rows_of(connection, statement, values)

        monkeypatch.setattr(ChunkReader, "_read", reading)
        monkeypatch.setattr(chunks, "rows_of", marking)

    return install


def same_as_table(shop: Shop, **options: Any) -> None:
    with shop.capture(**options) as capture:
        capture.caught_up(shop.database)
    assert shop.fold() == shop.rows()


def test_a_new_snapshot_takes_no_large_value_from_before_it(shop: Shop, interleave: Interleave) -> None:
    shop.execute(f"{ORDERS}; {EXTERNAL}; INSERT INTO orders VALUES (1, 'new', {large('a')}, 'm')")
    same_as_table(shop)
    shop.execute(f"UPDATE orders SET note = {large('b')}")  # lost with the slot
    shop.database.cluster.drop_slot(shop.settings().slot)
    interleave(before=lambda: shop.execute("UPDATE orders SET state = 'paid'"))
    same_as_table(shop, again=True)


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_row_that_moves_behind_the_cursor_is_not_lost(
    shop: Shop, interleave: Interleave, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    monkeypatch.setattr(chunks, "_ROWS_MAX", 2)
    monkeypatch.setattr(chunks, "_ROWS_FIRST", 2)
    shop.execute(f"{ORDERS}; {EXTERNAL}")
    shop.execute(f"INSERT INTO orders SELECT n, 'new', {large('a')}, 'm' FROM generate_series(1, 9) n")
    read = ChunkReader._read
    count = 0

    def moved() -> None:
        shop.execute("UPDATE orders SET id = -9 WHERE id = 9")

    def reading(self: ChunkReader, *arguments: Any) -> Any:
        nonlocal count
        count += 1
        self._limit = 2
        if count == 2:
            interleave(**{moment: moved})
            return ChunkReader._read(self, *arguments)
        return read(self, *arguments)

    monkeypatch.setattr(ChunkReader, "_read", reading)
    same_as_table(shop)


def test_two_changes_that_each_leave_a_value_out_are_merged(shop: Shop, interleave: Interleave) -> None:
    shop.execute(f"{ORDERS}; {EXTERNAL}; INSERT INTO orders VALUES (1, 'new', {large('a')}, {large('m')})")

    def changed() -> None:
        shop.execute(f"UPDATE orders SET more = {large('n')}")
        shop.execute("UPDATE orders SET state = 'paid'")

    interleave(after=changed)
    same_as_table(shop)


@pytest.mark.parametrize(
    "ddl",
    ["ADD COLUMN extra int", "DROP COLUMN more", "DROP COLUMN more, ADD COLUMN late text", "RENAME state TO status"],
)
def test_columns_that_change_between_a_chunk_and_its_mark(shop: Shop, interleave: Interleave, ddl: str) -> None:
    shop.execute(f"{ORDERS}; {EXTERNAL}; INSERT INTO orders VALUES (1, 'new', {large('a')}, 'm')")

    def changed() -> None:
        column = "status" if "RENAME" in ddl else "state"
        shop.execute(f"ALTER TABLE orders {ddl}")
        shop.execute(f"UPDATE orders SET {column} = 'paid'")

    interleave(after=changed)
    same_as_table(shop)


def test_columns_that_change_beside_a_chunk_stay_the_schema_of_the_topic(shop: Shop, interleave: Interleave) -> None:
    shop.execute(f"{ORDERS}; INSERT INTO orders VALUES (1, 'new', 'a', 'm')")

    def changed() -> None:
        shop.execute("ALTER TABLE orders ADD COLUMN extra int; INSERT INTO orders VALUES (2, 'paid', 'b', 'n', 5)")

    interleave(after=changed)
    same_as_table(shop)
    registered = lookup(shop.log, f"{shop.name}.orders")
    assert registered is not None
    assert registered.schema.names == ("id", "state", "note", "more", "extra")


def test_a_column_is_renamed_beside_a_running_snapshot(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between two chunks, with a change that leaves values out."""
    monkeypatch.setattr(chunks, "_ROWS_FIRST", 2)
    monkeypatch.setattr(chunks, "_ROWS_MAX", 2)
    shop.execute(f"{ORDERS}; {EXTERNAL}")
    shop.execute(f"INSERT INTO orders SELECT n, 'new', {large('a')}, 'm' FROM generate_series(1, 9) n")
    read = ChunkReader._read
    count = 0

    def reading(self: ChunkReader, *arguments: Any) -> Any:
        nonlocal count
        count += 1
        if count == 2:
            shop.execute(
                "ALTER TABLE orders RENAME note TO remark; UPDATE orders SET state = 'paid' WHERE id IN (1, 9)"
            )
        return read(self, *arguments)

    monkeypatch.setattr(ChunkReader, "_read", reading)
    same_as_table(shop)
    registered = lookup(shop.log, f"{shop.name}.orders")
    assert registered is not None
    assert registered.schema.names == ("id", "state", "remark", "more")


def test_a_window_opens_between_two_transactions(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each message comes by itself, so that the capture could ask for a chunk within a transaction."""
    monkeypatch.setattr(replication, "_CHUNK_BYTES", 1)
    monkeypatch.setattr(chunks, "_ROWS_FIRST", 1)
    monkeypatch.setattr(chunks, "_ROWS_MAX", 1)
    shop.execute(f"{ORDERS}; INSERT INTO orders SELECT n, 'new', '', '' FROM generate_series(1, 20) n")
    opened: list[bool] = []
    captures: list[Capture] = []
    handle, request = Capture._handle, ChunkReader.request

    def handling(self: Capture, payload: bytes) -> None:
        captures[:] = [self]
        handle(self, payload)

    def asking(self: ChunkReader, *arguments: Any) -> None:
        opened.append(any(capture._is_inside for capture in captures))
        request(self, *arguments)

    monkeypatch.setattr(Capture, "_handle", handling)
    monkeypatch.setattr(ChunkReader, "request", asking)
    with shop.capture() as capture:
        while not capture.covers(1):  # until the snapshot is done
            shop.execute("UPDATE orders SET state = state || '.'")
        capture.caught_up(shop.database)
    assert shop.fold() == shop.rows()
    assert len(opened) > 20
    assert not any(opened)


@contextmanager
def _commits_wait(cluster: PostgresCluster) -> Iterator[None]:
    """Commits are in the stream and not visible, until the block ends: they wait for a standby that never comes."""
    cluster.execute("ALTER SYSTEM SET synchronous_standby_names = 'nobody'")
    cluster.execute("SELECT pg_reload_conf()")
    try:
        yield
    finally:
        _end_of_waiting(cluster)


def _end_of_waiting(cluster: PostgresCluster) -> None:
    cluster.execute("ALTER SYSTEM RESET synchronous_standby_names")
    cluster.execute("SELECT pg_reload_conf()")


def _commit_waits(shop: Shop) -> bool:
    return bool(
        shop.execute("SELECT 1 FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND datname = current_database()")
    )


def _in_background(shop: Shop, statement: str) -> threading.Thread:
    def run() -> None:
        connection = shop.database.connect()
        with connection.cursor() as cursor:
            cursor.execute("SET synchronous_commit = on")
            cursor.execute(statement)
        connection.close()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread


def _waiting_commit(shop: Shop, statement: str, undo: str) -> threading.Thread:
    """A statement whose commit waits; until the server has taken its new settings, commits go through."""
    tries: list[threading.Thread] = []

    def waits() -> bool:
        if not tries or not tries[-1].is_alive():
            quietly(shop, undo)
            tries.append(_in_background(shop, statement))
        return _commit_waits(shop)

    eventually(waits, "the commit waits")
    return tries[-1]


def quietly(shop: Shop, *statements: str) -> None:
    connection = shop.database.connect(options="-c synchronous_commit=local")
    with connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)
    connection.close()


def test_a_commit_that_is_not_visible_when_the_capture_starts_again(
    shop: Shop, postgres_cluster: PostgresCluster, interleave: Interleave
) -> None:
    """Its record stands before the stream; a chunk that does not see it is older."""
    quietly(shop, ORDERS, "INSERT INTO orders VALUES (1, 'new', '', '')")
    with shop.capture() as capture:
        capture.caught_up(shop.database)
    settings = shop.settings("orders", "others")
    assert settings is not None
    quietly(shop, "CREATE TABLE others (id int PRIMARY KEY, state text)", "INSERT INTO others VALUES (1, 'new')")
    ender = threading.Timer(3, _end_of_waiting, (postgres_cluster,))
    try:
        with _commits_wait(postgres_cluster):
            waiting = _waiting_commit(shop, "UPDATE others SET state = 'paid'", "UPDATE others SET state = 'new'")
            with shop.capture("orders", "others") as capture:
                eventually(lambda: capture.error is not None or capture.ready.is_set(), "the capture streams")
                ender.start()  # the snapshot is taken meanwhile
                eventually(lambda: capture.error is not None or capture.covers(1), "the snapshot is done", 30)
                waiting.join(20)
                capture.caught_up(shop.database)
    finally:
        ender.cancel()
    assert shop.fold("others") == shop.rows("others")


def test_a_chunk_that_does_not_see_a_commit_of_the_stream_is_read_again(
    shop: Shop, postgres_cluster: PostgresCluster, interleave: Interleave, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The commit came with the stream before the chunk was asked for, and is still running in the chunk's snapshot.

    A snapshot names as running only what is older than the newest transaction that has ended. That is the request's,
    so the chunk waits for its end: otherwise the snapshot would miss both for being too new.
    """
    quietly(shop, ORDERS, "INSERT INTO orders VALUES (1, 'new', '', '')")
    result = ChunkReader.result
    read: list[chunks.ChunkRows] = []
    requested = threading.Event()

    def noted(self: ChunkReader) -> chunks.ChunkRows:
        read.append(result(self))
        return read[-1]

    monkeypatch.setattr(ChunkReader, "result", noted)
    with shop.capture() as capture:
        capture.caught_up(shop.database)
        with _commits_wait(postgres_cluster):
            waiting = _waiting_commit(shop, "UPDATE orders SET state = 'paid'", "UPDATE orders SET state = 'new'")
            eventually(lambda: shop.fold()["1"]["state"] == "paid", "the stream has the commit")
            assert shop.rows()["1"]["state"] == "new", "the commit is not visible"
            read.clear()
            interleave(before=lambda: requested.wait(60))
            quietly(shop, f"SELECT pg_logical_emit_message(true, '{shop.settings().slot}.snapshot', 'orders')")
            requested.set()
            eventually(lambda: len(read) > 0, "a chunk was read beside the waiting commit")
            assert read[0].xids.running
        waiting.join(30)
        capture.caught_up(shop.database)
    assert shop.fold()["1"]["state"] == "paid"
    assert shop.fold() == shop.rows()
    assert len(read) > 1, "the chunk without the commit was read again"
