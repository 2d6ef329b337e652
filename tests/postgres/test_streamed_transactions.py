"""Transactions that the server streams before they commit: each once, whole, without what was rolled back."""

from __future__ import annotations

import os
import struct
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mainstem.errors import MachineError
from mainstem.postgres.server import replication
from mainstem.postgres.server.pgoutput import Begin, Commit, RowInsert, decode
from mainstem.postgres.server.streamed_transactions import StreamedTransactions
from tests.postgres.conftest import Shop
from tests.support.eventually import eventually

ORDERS = "CREATE TABLE orders (id int PRIMARY KEY, state text); CREATE TABLE parts (id int PRIMARY KEY, state text)"
ROWS = int(os.environ.get("MAINSTEM_STREAMED_ROWS", "20000"))
KEPT_BYTES = 64 << 20
STREAMED = (
    "SELECT stream_txns, stream_count FROM pg_stat_replication_slots s JOIN pg_replication_slots r USING (slot_name)"
    " WHERE r.database = current_database()"
)


@pytest.fixture
def streaming_shop(shop: Shop) -> Shop:
    """A database that streams a transaction of more than 64 kB."""
    shop.execute(f"ALTER DATABASE {shop.database.name} SET logical_decoding_work_mem = '64kB'; {ORDERS}")
    return shop


@pytest.fixture
def connections(streaming_shop: Shop) -> Iterator[list[Any]]:
    """Three, each for a transaction of its own."""
    opened = [streaming_shop.database.connect() for _ in range(3)]
    for each in opened:
        each.autocommit = False
    yield opened
    for each in opened:
        each.close()


def insert(connection: Any, table: str, first: int, count: int = 2_000) -> None:
    connection.cursor().execute(
        f"INSERT INTO {table} SELECT n, 'new' FROM generate_series({first}, {first + count - 1}) n"
    )


def run(connection: Any, *statements: str) -> None:
    for statement in statements:
        connection.cursor().execute(statement)


def streamed(shop: Shop) -> int:
    """How many transactions the server has streamed."""
    return int(sum(row[0] for row in shop.execute(STREAMED)))


def was_streamed(shop: Shop, count: int) -> None:
    eventually(lambda: streamed(shop) >= count, f"the server has streamed {count} transactions")


def same(shop: Shop) -> None:
    assert shop.fold() == shop.rows()
    assert shop.fold("parts") == shop.rows("parts")


def test_transactions_between_each_other_come_whole_and_in_the_order_of_their_commits(
    streaming_shop: Shop, connections: list[Any]
) -> None:
    shop = streaming_shop
    with shop.capture("orders", "parts") as capture:
        capture.caught_up(shop.database)
        for turn in range(3):
            for place, connection in enumerate(connections):
                insert(connection, "orders", 100_000 * place + 2_000 * turn)
                insert(connection, "parts", 100_000 * place + 2_000 * turn)
            shop.execute("INSERT INTO orders VALUES (%s, 'small')", (900_000 + turn,))
        eventually(lambda: any("small" in str(value) for _, value in shop.records()), "the small ones pass the large")
        assert len(shop.records()) <= 3, "a record came before its transaction was committed"
        connections[2].commit()
        connections[0].commit()
        connections[1].rollback()
        capture.caught_up(shop.database)
        was_streamed(shop, 3)
    same(shop)
    keys = [int(key) for key, _ in shop.records()]
    assert set(Counter(keys).values()) == {1}
    assert keys[3:] == [*range(200_000, 206_000), *range(6_000)]
    xids = {dict(each.headers)["mainstem-xid"] for each in shop.log.read(f"{shop.name}.orders")}
    assert xids >= {dict(each.headers)["mainstem-xid"] for each in shop.log.read(f"{shop.name}.parts")}
    assert len(xids) == 5


def test_what_was_rolled_back_to_a_savepoint_is_left_out(streaming_shop: Shop, connections: list[Any]) -> None:
    shop, (connection, *_) = streaming_shop, connections
    with shop.capture("orders", "parts") as capture:
        capture.caught_up(shop.database)
        run(connection, "SAVEPOINT a")
        insert(connection, "orders", 0)  # the first that describes the table, and it is rolled back
        run(connection, "SAVEPOINT b")
        insert(connection, "orders", 10_000)
        run(connection, "RELEASE b", "ROLLBACK TO a")
        insert(connection, "parts", 0)
        run(connection, "SAVEPOINT c")
        insert(connection, "parts", 10_000)
        run(connection, "RELEASE c", "SAVEPOINT d", "UPDATE parts SET state = 'no'", "ROLLBACK TO d")
        connection.commit()
        shop.execute("INSERT INTO orders VALUES (77, 'after')")  # the server does not describe the table again
        capture.caught_up(shop.database)
        was_streamed(shop, 1)
    same(shop)
    assert shop.records() == [("77", {"id": 77, "state": "after"})]
    assert len(shop.records("parts")) == 4_000


def test_columns_may_change_within_a_streamed_transaction(streaming_shop: Shop, connections: list[Any]) -> None:
    shop, (connection, *_) = streaming_shop, connections
    with shop.capture("orders", "parts") as capture:
        capture.caught_up(shop.database)
        insert(connection, "orders", 0)
        run(connection, "ALTER TABLE orders ADD note text", "UPDATE orders SET note = 'n'", "SAVEPOINT a")
        run(connection, "ALTER TABLE orders ADD never int", "UPDATE orders SET never = 1", "ROLLBACK TO a")
        insert(connection, "parts", 0)
        connection.cursor().execute("INSERT INTO orders VALUES (5000, 'last', 'x')")
        connection.commit()
        capture.caught_up(shop.database)
        was_streamed(shop, 1)
    same(shop)
    assert not any("never" in str(value) for _, value in shop.records())


def test_a_capture_that_ends_within_a_streamed_transaction_gets_it_again(
    streaming_shop: Shop, connections: list[Any]
) -> None:
    shop, (connection, other, *_) = streaming_shop, connections
    with shop.capture("orders", "parts") as capture:
        capture.caught_up(shop.database)
        insert(connection, "orders", 0)
        insert(other, "parts", 0)
        was_streamed(shop, 2)
        other.commit()
        capture.caught_up(shop.database)  # a later position than the first block of the one that is open
    insert(connection, "orders", 10_000)
    with shop.capture("orders", "parts") as capture:
        was_streamed(shop, 3)
        connection.commit()
        capture.caught_up(shop.database)
    same(shop)
    assert len(shop.records()) == 4_000
    assert len(shop.records("parts")) == 2_000


def test_a_server_before_14_sends_a_transaction_at_its_commit(
    streaming_shop: Shop, connections: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    shop, (connection, *_) = streaming_shop, connections
    monkeypatch.setattr(replication, "_STREAMS", 990_000)
    with shop.capture("orders", "parts") as capture:
        capture.caught_up(shop.database)
        insert(connection, "orders", 0)
        connection.commit()
        capture.caught_up(shop.database)
    same(shop)
    assert streamed(shop) == 0


def test_memory_does_not_grow_with_a_streamed_transaction() -> None:
    """MAINSTEM_STREAMED_ROWS=500000 for the long form, and -s to see its figures."""
    began_s, rss = time.monotonic(), _rss_bytes()
    value = b"x" * 100
    row = b"N" + struct.pack(">h", 2) + (b"t" + struct.pack(">i", 100) + value) * 2
    with StreamedTransactions() as streamed:
        for first in range(0, ROWS, 500):
            rows = [b"I" + struct.pack(">II", 7, first) + row for _ in range(500)]
            assert not any(streamed.take([b"S" + struct.pack(">IB", 7, first == 0), *rows, b"E"]))
        count, most = 0, 0
        for piece in streamed.take([b"c" + struct.pack(">IBQQq", 7, 0, 10, 11, 12)]):
            count += len(piece)
            most = max(most, sum(map(len, piece)))
        assert streamed.count == 0
    grown = _rss_bytes() - rss
    seconds = time.monotonic() - began_s
    sys.stdout.write(f"{ROWS} rows: {seconds:.1f} s, {grown / 1e6:.1f} MB more memory, pieces to {most} bytes\n")
    assert count == ROWS + 2
    assert most < 1 << 20
    assert grown < KEPT_BYTES


def test_a_transaction_comes_in_the_form_of_protocol_1() -> None:
    row = struct.pack(">I", 3) + b"N" + struct.pack(">h", 1) + b"n"
    with StreamedTransactions() as streamed:
        taken = streamed.take(
            [
                b"S" + struct.pack(">IB", 7, 1),
                b"I" + struct.pack(">I", 8) + row,
                b"E",
                b"A" + struct.pack(">II", 7, 8),
                b"S" + struct.pack(">IB", 7, 0),
                b"I" + struct.pack(">I", 7) + row,
                b"E",
                b"c" + struct.pack(">IBQQq", 7, 0, 10, 11, 12),
            ]
        )
        begin, insert_, commit = [decode(payload) for piece in taken for payload in piece]
    assert isinstance(begin, Begin)
    assert (begin.commit_lsn, begin.xid) == (10, 7)
    assert insert_ == RowInsert(3, [None])
    assert commit == Commit(11)


@pytest.mark.parametrize("message", [b"S\0", b"A\0", b"c" + b"\0" * 33, b"c\0"])
def test_a_message_that_cannot_be_is_an_error(message: bytes) -> None:
    with StreamedTransactions() as streamed, pytest.raises(MachineError, match="cannot be read"):
        list(streamed.take([message]))


def test_a_disk_that_takes_nothing_ends_the_capture_with_a_clear_word(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(**_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(tempfile, "TemporaryFile", full)
    with StreamedTransactions() as streamed, pytest.raises(MachineError, match=r"No space left.*TMPDIR"):
        list(streamed.take([b"S" + struct.pack(">IB", 7, 1)]))


def _rss_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
