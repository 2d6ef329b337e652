"""A capture into Apache Kafka itself: the same records, over SIGKILL, and large values without an index of keys."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from mainstem.client.log import Log
from mainstem.model import parse_lsn
from mainstem.pipelines.definitions import CaptureSettings
from mainstem.postgres.captured_state import read_state
from tests.postgres.conftest import TIMEOUT_S, Shop
from tests.postgres.killed import CaptureProcess
from tests.support.apache_kafka import ApacheKafka
from tests.support.eventually import eventually
from tests.support.kafka_or_skip import kafka_or_skip
from tests.support.postgres import PostgresDatabase

pytestmark = [pytest.mark.maven, pytest.mark.slow]
KILLS = 2


@pytest.fixture(scope="module")
def kafka() -> Iterator[ApacheKafka]:
    with kafka_or_skip() as running:
        yield running


@pytest.fixture
def shop(kafka: ApacheKafka, postgres_database: PostgresDatabase) -> Iterator[Shop]:
    with Log(kafka.bootstrap, timeout_s=60) as log:
        yield Shop(log, postgres_database, "s" + postgres_database.name.replace("_", "-"))


def test_each_change_is_in_apache_kafka_once_over_sigkill(shop: Shop, tmp_path: Path) -> None:
    shop.execute("CREATE TABLE orders (id int PRIMARY KEY, stamp int, note text)")
    shop.execute("ALTER TABLE orders ALTER note SET STORAGE EXTERNAL")
    shop.execute("INSERT INTO orders SELECT n, 0, repeat('x', 5000) FROM generate_series(1, 500) n")
    settings = CaptureSettings.of(shop.name, shop.database.dsn, ("orders",), partitions=3)
    capture = CaptureProcess(settings, shop.log.bootstrap, tmp_path)
    capture.start()
    stamp = 0
    try:
        eventually(lambda: read_state(shop.log, shop.name).lsn > 0, "the capture has begun", TIMEOUT_S)
        for kill in range(KILLS):
            for _ in range(20):  # leave the large value out
                stamp += 1
                shop.execute("UPDATE orders SET stamp = %s WHERE id %% 50 = %s", (stamp, stamp % 50))
            shop.execute("DELETE FROM orders WHERE id = %s", (kill + 1,))
            capture.kill()
            capture.start()
        lsn = parse_lsn(shop.execute("SELECT pg_current_wal_lsn()::text")[0][0])

        def is_done() -> bool:
            state = read_state(shop.log, shop.name)
            return state.lsn >= lsn and all(table.is_done for table in state.tables.values())

        eventually(is_done, "the capture has everything", 5 * TIMEOUT_S)
        assert capture.stop() == 0, capture.errors
    finally:
        if capture.is_alive:
            capture.kill()
    assert shop.fold() == shop.rows()
    streamed = [
        (record.key, record.value)
        for record in shop.log.read(f"{shop.name}.orders")
        if record.value is not None and dict(record.headers)["mainstem-xid"]
    ]
    assert len(streamed) == len(set(streamed)), "a change is there twice"


def test_a_transaction_is_whole_and_a_large_value_is_found_by_a_scan(shop: Shop) -> None:
    shop.execute("CREATE TABLE orders (id int PRIMARY KEY, n int, note text)")
    shop.execute("ALTER TABLE orders ALTER note SET STORAGE EXTERNAL")
    shop.execute("INSERT INTO orders SELECT n, 0, repeat('y', 3000) FROM generate_series(1, 50) n")
    with shop.capture() as capture:
        capture.caught_up(shop.database)
    with shop.capture() as capture:  # which remembers nothing
        shop.execute("UPDATE orders SET n = n + 1 WHERE id <= 5")
        capture.caught_up(shop.database)
    assert any("gets no index of keys" in note for note in capture.notes)
    # Apache Kafka writes the markers of transactions after it has answered.
    eventually(lambda: shop.fold() == shop.rows(), "the markers are there", TIMEOUT_S)
    with shop.capture() as capture:
        shop.execute(
            "BEGIN; INSERT INTO orders VALUES (99, 0, 'a'); DELETE FROM orders WHERE id = 1; TRUNCATE orders; COMMIT"
        )
        capture.caught_up(shop.database)
    eventually(lambda: shop.fold() == {}, "the markers are there", TIMEOUT_S)
