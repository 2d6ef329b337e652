"""What cannot be captured is one clear line that says what to do, before anything is made."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from mainstem.errors import ConfigError, DefinitionError, MainstemError
from mainstem.pipelines.definitions import CaptureSettings
from mainstem.postgres.server.catalog import DatabaseUnavailableError, check_server, connect, warnings_of
from mainstem.postgres.server.slot import SlotLostError, make_slot
from tests.postgres.conftest import Shop
from tests.support.eventually import eventually
from tests.support.ports import free_port
from tests.support.postgres import PostgresCluster

ORDERS = "CREATE TABLE orders (id int PRIMARY KEY, item text)"


def refusal(shop: Shop, *tables: str, again: bool = False) -> MainstemError:
    with shop.capture(*tables, again=again) as capture:
        error = capture.failed()
    assert isinstance(error, MainstemError)
    assert "\n" not in str(error)
    return error


@pytest.mark.parametrize(
    ("statements", "table", "said"),
    [
        ("SELECT 1", "orders", "table public.orders does not exist in the database"),
        ("CREATE VIEW orders AS SELECT 1 AS id", "orders", "is not a table"),
        ("CREATE TABLE orders (id int)", "orders", "has no primary key"),
        ("CREATE TABLE orders (id int PRIMARY KEY DEFERRABLE)", "orders", "a DEFERRABLE one"),
        (
            "CREATE TABLE orders (id int PRIMARY KEY DEFERRABLE); ALTER TABLE orders REPLICA IDENTITY FULL",
            "orders",
            "a DEFERRABLE one",
        ),
        ("CREATE UNLOGGED TABLE orders (id int PRIMARY KEY)", "orders", "is not logged"),
        (f"{ORDERS}; ALTER TABLE orders REPLICA IDENTITY NOTHING", "orders", "REPLICA IDENTITY DEFAULT"),
        ('CREATE TABLE orders (id int PRIMARY KEY, "ID" int)', "orders", "do not differ by case"),
        ("CREATE TABLE orders (id int PRIMARY KEY, _offset int)", "orders", "taken by what readers add"),
        ("CREATE TABLE orders (id int PRIMARY KEY, _postgres int)", "orders", "taken by what readers add"),
        ("CREATE TABLE orders (g int PRIMARY KEY GENERATED ALWAYS AS (1) STORED)", "orders", "generated column"),
    ],
)
def test_a_table_that_cannot_be_captured_is_refused_and_nothing_is_made(
    shop: Shop, statements: str, table: str, said: str
) -> None:
    shop.execute(statements)
    error = refusal(shop, table)
    assert isinstance(error, ConfigError | DefinitionError)
    assert said in str(error)
    assert shop.execute("SELECT count(*) FROM pg_replication_slots WHERE database = current_database()") == [(0,)]
    assert shop.execute("SELECT count(*) FROM pg_publication") == [(0,)]
    assert f"{shop.name}.orders" not in shop.log.topics()


@pytest.mark.parametrize(
    ("name", "tables", "options", "said"),
    [
        ("Shop", ["orders"], {}, "invalid name"),
        ("shop", [], {}, "from 1 to"),
        ("shop", "orders", {}, "a list of names"),
        ("shop", ["a.b.c"], {}, "not the name of a table"),
        ("shop", ["orders"], {"envelope": "xml"}, "row, debezium"),
        ("shop", ["orders"], {"partitions": 0}, "invalid partitions"),
        ("shop", ["a b", "a_b"], {}, "would share the topic"),
    ],
)
def test_settings_that_cannot_be(name: str, tables: list[str], options: dict[str, object], said: str) -> None:
    with pytest.raises(DefinitionError, match=said):
        CaptureSettings.of(name, "", tables, **options)  # type: ignore[arg-type]


def test_a_user_without_rights_is_told_which(shop: Shop, postgres_cluster: PostgresCluster) -> None:
    shop.execute(ORDERS)
    user = shop.database.name + "_user"
    shop.execute(f"CREATE ROLE {user} LOGIN PASSWORD 'secret'")
    dsn = postgres_cluster.tcp_dsn(shop.database.name, user, "secret")
    settings = CaptureSettings.of(shop.name, dsn, ["orders"])
    assert "secret" not in repr(settings)

    def refused() -> str:
        from tests.postgres.conftest import RunningCapture

        with RunningCapture(shop.log, settings) as capture:
            return str(capture.failed())

    assert f"ALTER ROLE {user} REPLICATION" in refused()
    shop.execute(f"ALTER ROLE {user} REPLICATION")
    assert "GRANT SELECT" in refused()
    shop.execute(f"GRANT SELECT ON orders TO {user}")
    assert "CREATE PUBLICATION" in refused()
    shop.execute(f"CREATE PUBLICATION {settings.slot} FOR TABLE orders WITH (publish_via_partition_root = true)")
    from tests.postgres.conftest import RunningCapture

    with RunningCapture(shop.log, settings) as capture:
        capture.caught_up(shop.database)
    shop.execute(f"DROP PUBLICATION {settings.slot}")
    shop.database.cluster.drop_slot(settings.slot)
    shop.execute(f"DROP OWNED BY {user}; DROP ROLE {user}")


def test_a_server_that_cannot_stream_changes_is_told_what_to_set() -> None:
    cluster = PostgresCluster({"wal_level": "replica", "max_wal_senders": "0", "max_replication_slots": "1"})

    def asked(ask: Callable[[Any], object]) -> object:
        connection = connect(cluster.dsn("postgres"))
        try:
            return ask(connection)
        finally:
            connection.close()

    def set_and_restart(name: str, value: str) -> None:
        cluster.execute(f"ALTER SYSTEM SET {name} = '{value}'")
        cluster.restart("fast")

    try:
        cluster.create()
        with pytest.raises(ConfigError, match="ALTER SYSTEM SET wal_level = logical"):
            asked(check_server)
        set_and_restart("wal_level", "logical")
        with pytest.raises(ConfigError, match="ALTER SYSTEM SET max_wal_senders = 10"):
            asked(check_server)
        set_and_restart("max_wal_senders", "2")
        assert asked(check_server)
        assert "ALTER SYSTEM SET max_slot_wal_keep_size" in str(asked(warnings_of))
        cluster.execute("SELECT pg_create_physical_replication_slot('others')")
        with pytest.raises(ConfigError, match="all 1 replication slots of the database are in use"):
            asked(lambda connection: make_slot(connection, "ours"))
        set_and_restart("max_slot_wal_keep_size", "1GB")
        assert asked(warnings_of) == []
        (cluster.directory / "data" / "standby.signal").touch(mode=0o644)
        cluster.restart("fast")
        with pytest.raises(DatabaseUnavailableError, match="name the primary server"):
            asked(check_server)
    finally:
        cluster.close()


@pytest.mark.parametrize(
    ("dsn", "error", "said"),
    [
        ("nonsense", ConfigError, "the DSN of the database cannot be read"),
        ("postgresql://u:wrong/x@127.0.0.1/postgres", ConfigError, "the DSN of the database cannot be read"),
        ("postgresql://nobody:wrong@127.0.0.1:{port}/postgres", ConfigError, "refuses the login"),
        ("postgresql://postgres@127.0.0.1:{port}/postgres", ConfigError, "refuses the login"),
        ("host={directory} port={port} user=postgres dbname=absent", ConfigError, "does not exist"),
        ("host=127.0.0.1 port={free} user=postgres dbname=postgres", DatabaseUnavailableError, "cannot be reached"),
    ],
)
def test_a_database_that_cannot_be_reached(
    shop: Shop, postgres_cluster: PostgresCluster, dsn: str, error: type[MainstemError], said: str
) -> None:
    from tests.postgres.conftest import RunningCapture

    text = dsn.format(port=postgres_cluster.port, directory=postgres_cluster.directory, free=free_port())
    with RunningCapture(shop.log, CaptureSettings.of(shop.name, text, ["orders"])) as capture:
        found = capture.failed()
    assert isinstance(found, error)
    assert said in str(found)
    assert "wrong" not in str(found)


def test_a_topic_with_records_of_others_is_refused(shop: Shop) -> None:
    shop.execute(ORDERS)
    shop.log.create_topic(f"{shop.name}.orders")
    shop.log.append(f"{shop.name}.orders", {"id": 1}, key="1")
    assert "records that are not of capture" in str(refusal(shop))


def test_a_slot_that_is_gone_is_an_error_and_a_new_snapshot_mends_it(shop: Shop) -> None:
    shop.execute(ORDERS)
    shop.execute("INSERT INTO orders SELECT n, 'x' FROM generate_series(1, 700) n")
    with shop.capture() as capture:
        capture.caught_up(shop.database)
    shop.database.cluster.drop_slot(shop.settings().slot)
    shop.execute("DELETE FROM orders WHERE id < 10; UPDATE orders SET item = 'y' WHERE id = 10")
    error = refusal(shop)
    assert isinstance(error, SlotLostError)
    assert "--snapshot again" in str(error)
    with shop.capture(again=True) as capture:
        capture.caught_up(shop.database)
        assert shop.fold() == shop.rows()
        shop.execute("INSERT INTO orders VALUES (1, 'z')")
        capture.caught_up(shop.database)
    assert shop.fold() == shop.rows()
    with shop.capture() as capture:
        capture.caught_up(shop.database)


def test_a_slot_whose_log_was_removed_is_an_error(shop: Shop, postgres_cluster: PostgresCluster) -> None:
    shop.execute(ORDERS)
    with shop.capture() as capture:
        capture.caught_up(shop.database)
    postgres_cluster.execute("ALTER SYSTEM SET max_slot_wal_keep_size = '1MB'")
    postgres_cluster.execute("SELECT pg_reload_conf()")
    try:
        slot = shop.settings().slot

        def is_lost() -> bool:
            shop.execute("SELECT pg_logical_emit_message(true, '', repeat('x', 1000000)), pg_switch_wal()")
            shop.execute("CHECKPOINT")
            return shop.execute("SELECT wal_status FROM pg_replication_slots WHERE slot_name = %s", (slot,)) == [
                ("lost",)
            ]

        eventually(is_lost, "the slot is lost", 60)
        error = refusal(shop)
    finally:
        postgres_cluster.execute("ALTER SYSTEM RESET max_slot_wal_keep_size")
        postgres_cluster.execute("SELECT pg_reload_conf()")
    assert isinstance(error, SlotLostError)
    assert "max_slot_wal_keep_size" in str(error)


def test_a_slot_that_another_program_has_moved_is_an_error(shop: Shop) -> None:
    shop.execute(ORDERS)
    with shop.capture() as capture:
        capture.caught_up(shop.database)
    shop.execute("INSERT INTO orders VALUES (1, 'x')")
    slot = shop.settings().slot
    shop.database.cluster.until_free(slot)
    shop.execute("SELECT pg_replication_slot_advance(%s, pg_current_wal_lsn())", (slot,))
    assert "another program has used the slot" in str(refusal(shop))


def test_a_key_that_was_changed_is_an_error(shop: Shop) -> None:
    shop.execute(ORDERS)
    with shop.capture() as capture:
        capture.caught_up(shop.database)
        shop.execute(
            "ALTER TABLE orders DROP CONSTRAINT orders_pkey, ADD PRIMARY KEY (item); INSERT INTO orders VALUES (1, 'a')"
        )
        assert "the key of table public.orders was (id)" in str(capture.failed())
    assert "take a new snapshot" in str(refusal(shop))


def test_a_table_that_was_renamed_is_an_error(shop: Shop) -> None:
    shop.execute(ORDERS)
    with shop.capture() as capture:
        capture.caught_up(shop.database)
        shop.execute("ALTER TABLE orders RENAME TO former; INSERT INTO former VALUES (1, 'a')")
        assert "is called public.former now" in str(capture.failed())


def test_a_second_capture_of_one_name_takes_over(shop: Shop) -> None:
    shop.execute(ORDERS)
    with shop.capture() as first:
        first.caught_up(shop.database)
        with shop.capture() as second:
            ended = eventually(lambda: second.error or first.error, "one of both ends")
            assert isinstance(ended, MainstemError)
            shop.execute("INSERT INTO orders VALUES (1, 'a')")
    with shop.capture() as third:
        third.caught_up(shop.database)
    assert shop.fold() == shop.rows()
