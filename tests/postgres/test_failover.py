"""A failover and a refused login: a capture that has begun waits for the new primary, and a first start ends."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import psycopg2
import pytest

from mainstem.client.log import Log
from mainstem.pipelines.definitions import CaptureSettings
from mainstem.postgres.server.catalog import DatabaseUnavailableError, LoginRefusedError
from tests.postgres.conftest import TIMEOUT_S, RunningConnector, Shop
from tests.support.eventually import eventually
from tests.support.postgres import PostgresCluster, PostgresDatabase

ORDERS = "CREATE TABLE orders (id int PRIMARY KEY, item text)"


@pytest.fixture
def own_cluster() -> Iterator[PostgresCluster]:
    """A cluster that this test may stop."""
    cluster = PostgresCluster()
    try:
        cluster.create()
        yield cluster
    finally:
        cluster.close()


def restart_as_standby(cluster: PostgresCluster) -> None:
    cluster.stop()
    (cluster.directory / "data" / "standby.signal").touch(mode=0o644)
    cluster.start()


def has_note(running: RunningConnector, *words: str) -> None:
    def is_there() -> bool:
        assert running.error is None, running.error
        return any(all(word in note for word in words) for note in running.notes)

    eventually(is_there, f"a note with {words}", TIMEOUT_S)


def is_the_table(shop: Shop, running: RunningConnector) -> None:
    def is_there() -> bool:
        assert running.error is None, running.error
        return shop.fold() == shop.rows()

    eventually(is_there, "the topic is the table", TIMEOUT_S)


def test_a_capture_waits_for_the_promotion_of_a_standby(own_cluster: PostgresCluster, mainstem_log: Log) -> None:
    shop = Shop(mainstem_log, PostgresDatabase(own_cluster, "postgres"), "promoted")
    shop.execute(f"{ORDERS}; INSERT INTO orders VALUES (1, 'before')")
    with RunningConnector(shop) as running:
        assert running.is_ready.wait(TIMEOUT_S)
        is_the_table(shop, running)
        restart_as_standby(own_cluster)
        has_note(running, "the server is a standby", "trying again")
        own_cluster.execute("SELECT pg_promote()")
        shop.execute("INSERT INTO orders VALUES (2, 'after')")
        is_the_table(shop, running)
    assert running.error is None


def test_a_first_start_ends_at_a_standby(own_cluster: PostgresCluster, mainstem_log: Log) -> None:
    shop = Shop(mainstem_log, PostgresDatabase(own_cluster, "postgres"), "never-begun")
    shop.execute(ORDERS)
    restart_as_standby(own_cluster)
    with RunningConnector(shop) as running:
        eventually(lambda: running.error is not None, "the capture ends", TIMEOUT_S)
    assert isinstance(running.error, DatabaseUnavailableError)
    assert "the server is a standby" in str(running.error)
    assert not running.is_ready.is_set()


def test_a_login_that_is_refused_for_a_while(shop: Shop, postgres_cluster: PostgresCluster) -> None:
    user = shop.database.name + "_user"
    shop.execute(f"{ORDERS}; CREATE ROLE {user} LOGIN SUPERUSER PASSWORD 'right'")
    settings = CaptureSettings.of(shop.name, postgres_cluster.tcp_dsn(shop.database.name, user, "right"), ["orders"])
    try:
        with RunningConnector(shop, settings) as running:
            assert running.is_ready.wait(TIMEOUT_S)
            shop.execute("INSERT INTO orders VALUES (1, 'before')")
            is_the_table(shop, running)
            shop.execute(f"ALTER ROLE {user} PASSWORD 'other'")
            with suppress(psycopg2.OperationalError):  # it ends its own connection, too
                shop.database.terminate_backends()
            has_note(running, "the database refuses the login", "trying again")
            with RunningConnector(Shop(shop.log, shop.database, shop.name), settings) as second:  # which has begun, too
                eventually(lambda: second.error is not None, "a start with a wrong password ends", TIMEOUT_S)
            assert isinstance(second.error, LoginRefusedError)
            shop.execute(f"ALTER ROLE {user} PASSWORD 'right'; INSERT INTO orders VALUES (2, 'after')")
            is_the_table(shop, running)
        assert running.error is None
    finally:
        shop.database.cluster.drop_slot(settings.slot)
        shop.execute(f"DROP PUBLICATION {settings.slot}; DROP ROLE {user}")
