"""A sink in a view host: its table equals the fold of the topic, and it has what every view has."""

from __future__ import annotations

import json
import random
import threading
from pathlib import Path

import pytest

from mainstem.client.log import Log
from mainstem.errors import DefinitionError, UnavailableError, ViewStoppedError
from mainstem.pipelines.app import App
from mainstem.pipelines.kinds import SQL, Lake, Postgres
from mainstem.views.read_options import ReadOptions
from mainstem.views.requests import GetQuery, RangeQuery, SqlQuery
from tests.sinks.databases import InPostgres, SinkDatabase
from tests.sinks.hosting import SinkSetting
from tests.support.eventually import eventually
from tests.support.postgres import PostgresDatabase


@pytest.fixture
def setting(mainstem_log: Log, tmp_path: Path, sink_database: SinkDatabase) -> SinkSetting:
    return SinkSetting(mainstem_log, tmp_path, sink_database)


@pytest.fixture
def in_postgres(mainstem_log: Log, tmp_path: Path, postgres_database: PostgresDatabase) -> SinkSetting:
    return SinkSetting(mainstem_log, tmp_path, InPostgres(postgres_database))


def test_the_table_equals_the_fold_of_the_topic(setting: SinkSetting) -> None:
    chance = random.Random(1)
    with setting.host() as host:
        for number in range(300):
            name = None if chance.random() < 0.2 else f"n{number}"
            position = setting.append(chance.randrange(40), name)
        setting.reached(host, setting.log.end(setting.topic))
        assert setting.rows() == setting.fold()
        [status] = host.status()
    assert (status.name, status.kind, status.state) == ("orders", setting.database.name, "live")
    assert status.position.covers(position)


def test_a_read_sees_the_write_that_it_names_every_time(setting: SinkSetting) -> None:
    with setting.host() as host:
        for number in range(30):
            position = setting.append(1, f"n{number}")
            answer = host.query("orders", GetQuery("1"), ReadOptions(at_least=position))
            assert answer.rows == [{"_key": "1", "id": 1, "name": f"n{number}"}]
            assert setting.rows() == [(1, f"n{number}")]


def test_a_read_is_refused_when_the_database_has_lost_the_write_that_it_names(setting: SinkSetting) -> None:
    with setting.host() as host:
        setting.reached(host, setting.append(1))
        setting.database.execute("CREATE TABLE kept AS SELECT bookmark FROM mainstem_sinks")
        position = setting.append(1, "b")
        setting.reached(host, position)
        setting.database.execute("UPDATE mainstem_sinks SET bookmark = (SELECT bookmark FROM kept)")
        with pytest.raises(UnavailableError, match="its database went back"):
            host.query("orders", GetQuery("1"), ReadOptions(at_least=position))


def test_a_range_of_keys_has_pages(setting: SinkSetting) -> None:
    with setting.host() as host:
        for number in (1, 2, 10, 11):
            setting.append(number)
        setting.reached(host, setting.log.end(setting.topic))
        first = host.query("orders", RangeQuery(prefix="1", limit=2))
        assert ([row["_key"] for row in first.rows], first.next) == (["1", "10"], "10")
        rest = host.query("orders", RangeQuery(prefix="1", after="10"))
        assert ([row["_key"] for row in rest.rows], rest.next) == (["11"], None)


@pytest.mark.parametrize(
    ("statement", "key", "expected", "actual"),
    [
        ("UPDATE orders SET name = 'by hand' WHERE id = 2", "2", "a", "by hand"),
        ("DELETE FROM orders WHERE id = 10", "10", "a", None),
        ("INSERT INTO orders VALUES (99, 'by hand')", "99", None, "by hand"),
    ],
    ids=["changed", "removed", "added"],
)
def test_a_row_written_by_hand_is_named_and_a_rebuild_repairs_it(
    setting: SinkSetting, statement: str, key: str, expected: str | None, actual: str | None
) -> None:
    with setting.host() as host:
        for number in (1, 2, 10):
            setting.append(number)
        setting.reached(host, setting.log.end(setting.topic))
        assert host.verify("orders").equal
        setting.database.execute(statement)
        result = host.verify("orders")
        [difference] = result.differences
        assert (result.equal, difference.key) == (False, key)
        assert [each and each["name"] for each in (difference.expected, difference.actual)] == [expected, actual]
        assert "DRIFTED" in host.status("orders")[0].detail
        host.rebuild("orders")
        assert setting.rows() == setting.fold()
        assert host.verify("orders").equal
        setting.reached(host, setting.append(3))
        assert setting.rows() == setting.fold()
    assert setting.database.tables() == ["mainstem_sinks", "orders"]


def test_what_cannot_be_a_row_is_a_dead_letter(setting: SinkSetting) -> None:
    with setting.host() as host:
        position = setting.log.append(setting.topic, {"id": 2}, key="1")
        setting.reached(host, position)
        [status] = host.status()
        assert status.dead_letters == 1
    *_, letter = setting.log.read(setting.view.dead_letter_topic)
    assert (letter.key, json.loads(letter.value or b"")) == (b"1", {"id": 2})


def test_a_sink_waits_for_a_database_that_is_away_and_goes_on(
    in_postgres: SinkSetting, postgres_database: PostgresDatabase
) -> None:
    setting = in_postgres
    with setting.host() as host:
        setting.reached(host, setting.append(1))
        postgres_database.cluster.stop("immediate")
        try:
            setting.append(2)
            status = host.wait("orders", lambda status: status.state == "waiting")
            assert "for the database at " in status.detail
            with pytest.raises(UnavailableError):
                host.query("orders", GetQuery("1"))
            assert host.status("orders")[0].lag == 1
            setting.append(2, "b")
            setting.append(4)
            host.wait("orders", lambda status: status.lag == 3)
        finally:
            postgres_database.cluster.start()
        setting.reached(host, setting.append(3))
        host.wait("orders", lambda status: (status.state, status.detail) == ("live", ""))
        assert setting.rows() == setting.fold()
        assert host.verify("orders").equal


def test_connections_that_are_ended_at_any_time_cost_nothing(setting: SinkSetting) -> None:
    writer = threading.Thread(target=lambda: [setting.append(n % 7, f"n{n}") for n in range(400)])
    with setting.host() as host:
        writer.start()
        while writer.is_alive():
            setting.database.end_connections()
            writer.join(0.05)
        setting.reached(host, setting.log.end(setting.topic))
        assert setting.rows() == setting.fold()
        assert host.verify("orders").equal


def test_a_column_that_the_topic_gets_is_added(setting: SinkSetting) -> None:
    with setting.host() as host:
        setting.reached(host, setting.append(1))
    grown = SinkSetting(
        setting.log, setting.directory, setting.database, ddl="id BIGINT, name STRING, price INT", topic=setting.topic
    )
    with grown.host() as host:
        setting.reached(host, grown.append(2, "b", price=7))
        assert setting.database.execute("SELECT * FROM orders ORDER BY id") == [(1, "a", None), (2, "b", 7)]
        assert host.verify("orders").equal


def test_other_columns_stop_the_sink_until_it_is_rebuilt(setting: SinkSetting) -> None:
    with setting.host() as host:
        setting.reached(host, setting.append(1, "7"))
    other = SinkSetting(
        setting.log, setting.directory, setting.database, ddl="id BIGINT, name BIGINT", topic=setting.topic
    )
    with other.host() as host:
        status = host.wait("orders", lambda status: status.state == "stopped")
        assert "rebuild the sink" in status.detail
        host.rebuild("orders")
        setting.reached(host, other.append(2))
        assert setting.database.column_type("orders", "name") == setting.database.column_type("orders", "id")
        assert host.verify("orders").equal


@pytest.mark.parametrize(
    ("statement", "why"),
    [
        ("DROP TABLE orders", 'relation "orders" does not exist'),
        ("ALTER TABLE orders DROP COLUMN name", 'column "name" of relation "orders" does not exist'),
        ("ALTER TABLE orders DROP CONSTRAINT orders_pkey", "there is no unique or exclusion constraint matching"),
        ("ALTER TABLE orders ALTER name TYPE varchar(1)", "value too long for type character varying"),
        ("ALTER TABLE orders ALTER name TYPE date USING NULL", 'column "name" is of type date but expression is of'),
    ],
)
def test_a_table_that_was_changed_stops_the_sink_and_a_rebuild_repairs_it(
    in_postgres: SinkSetting, postgres_database: PostgresDatabase, statement: str, why: str
) -> None:
    setting = in_postgres
    with setting.host() as host:
        setting.reached(host, setting.append(1, "a"))
        setting.database.execute(statement)
        setting.append(2, "long")
        status = host.wait("orders", lambda status: status.state == "stopped")
        assert why in status.detail
        assert "rebuild the sink" in status.detail
        host.rebuild("orders")
        assert setting.rows() == setting.fold()
        setting.reached(host, setting.append(3))
        assert host.verify("orders").equal


def test_a_sink_is_rebuilt_from_the_lake(mainstem_log: Log, tmp_path: Path, sink_database: SinkDatabase) -> None:
    setting = SinkSetting(mainstem_log, tmp_path, sink_database)
    setting.app.view("archive", setting.topic, Lake())
    with setting.host() as host:
        for number in range(20):
            setting.append(number)
        setting.reached(host, setting.append(3, None))
        host.query("archive", SqlQuery("SELECT 1"), ReadOptions(at_least=setting.log.end(setting.topic)))
    setting.database.execute("DELETE FROM orders WHERE id < 5")
    with setting.host() as host:  # a lake writes what it has gathered when it is closed
        host.wait("orders", lambda status: status.state == "live")
        result = host.rebuild("orders", "lake")
        assert result.built_from.source == "lake"
        assert setting.rows() == setting.fold()


def test_a_deleted_view_leaves_its_table_which_goes_on(setting: SinkSetting) -> None:
    with setting.host() as host:
        setting.reached(host, setting.append(1))
        host.delete("orders")
    assert setting.rows() == [(1, "a")]
    with setting.host() as host:
        setting.reached(host, setting.append(2))
        assert setting.rows() == setting.fold()


def test_the_password_is_nowhere(mainstem_log: Log, tmp_path: Path, postgres_database: PostgresDatabase) -> None:
    dsn = postgres_database.cluster.tcp_dsn(postgres_database.name, "postgres", "hidden-word")
    setting = SinkSetting(mainstem_log, tmp_path, InPostgres(postgres_database), sink=Postgres(dsn, table="orders"))
    assert "hidden-word" not in repr(setting.view)
    with setting.host() as host:
        status = host.wait("orders", lambda status: status.state == "waiting")
        assert "password authentication failed" in status.detail
        assert "hidden-word" not in json.dumps(status.to_json())
        with pytest.raises(UnavailableError) as caught:
            host.query("orders", GetQuery("1"))
        assert "hidden-word" not in str(caught.value)
    written = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    assert not any(b"hidden-word" in text for text in written)


def test_two_hosts_do_not_keep_one_table(setting: SinkSetting, tmp_path: Path) -> None:
    with setting.host() as first:
        setting.reached(first, setting.append(1))
        elsewhere = SinkSetting(setting.log, tmp_path / "elsewhere", setting.database, topic=setting.topic)
        with elsewhere.host() as second:
            setting.reached(second, setting.append(2))
            with pytest.raises(ViewStoppedError, match="another process has taken over"):
                eventually(
                    lambda: first.query("orders", GetQuery("2"), ReadOptions(at_least=setting.append(3))), "-", 5
                )
            setting.reached(second, setting.append(4))
            assert setting.rows() == setting.fold()


def test_a_database_that_lost_commits_gets_them_again(
    in_postgres: SinkSetting, postgres_database: PostgresDatabase
) -> None:
    setting = in_postgres
    database = postgres_database
    with setting.host() as host:
        setting.reached(host, setting.append(1))
        database.execute("CREATE TABLE saved AS SELECT * FROM mainstem_sinks")
        setting.reached(host, setting.append(2))
        setting.reached(host, setting.append(1, "b"))
        # What a failover to a copy that lags does: rows and position go back together, connections end.
        database.execute(
            "DELETE FROM orders; INSERT INTO orders VALUES (1, 'a'); "
            "UPDATE mainstem_sinks SET bookmark = saved.bookmark, position = saved.position FROM saved"
        )
        database.terminate_backends()
        setting.reached(host, setting.append(3))
        assert setting.rows() == setting.fold()
        assert host.verify("orders").equal


def test_a_host_stops_while_its_sink_waits_for_a_lock(
    in_postgres: SinkSetting, postgres_database: PostgresDatabase
) -> None:
    setting = in_postgres
    with setting.host() as host:
        setting.reached(host, setting.append(1))
        other = postgres_database.connect()
        other.autocommit = False
        with other.cursor() as cursor:
            cursor.execute("LOCK TABLE orders")
        setting.append(2)
        waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted"
        eventually(lambda: setting.database.execute(waiting) == [(1,)], "the sink waits for the lock")
        host.stop()
        assert setting.database.execute(waiting) == [(0,)]
        other.close()
    with setting.host() as host:
        setting.reached(host, setting.append(3))
        assert setting.rows() == setting.fold()


def test_a_rebuild_waits_for_a_reader_of_the_old_table(
    in_postgres: SinkSetting, postgres_database: PostgresDatabase
) -> None:
    setting = in_postgres
    with setting.host() as host:
        setting.reached(host, setting.append(1))
        reader = postgres_database.connect()
        reader.autocommit = False
        with reader.cursor() as cursor:
            cursor.execute("SELECT count(*) FROM orders")
        rebuild = threading.Thread(target=host.rebuild, args=("orders",))
        rebuild.start()
        status = host.wait("orders", lambda status: status.state == "waiting")
        assert "lock timeout" in status.detail
        assert host.query("orders", GetQuery("1")).rows
        reader.close()
        rebuild.join()
        setting.reached(host, setting.append(2))
        assert setting.rows() == setting.fold()
        assert host.status("orders")[0].state == "live"


def test_a_reader_sees_one_state_while_the_table_is_replaced(setting: SinkSetting) -> None:
    with setting.host() as host:
        for number in range(50):
            setting.append(number)
        setting.reached(host, setting.log.end(setting.topic))
        is_over = threading.Event()
        seen: list[tuple[int, int]] = []

        def read() -> None:
            while not is_over.is_set():
                answer = host.query("orders", RangeQuery())
                seen.append((len(answer.rows), sum(answer.position.values())))

        def write() -> None:
            for number in range(50, 200):
                setting.append(number)

        threads = [threading.Thread(target=read), threading.Thread(target=write)]
        for thread in threads:
            thread.start()
        for _ in range(3):
            host.rebuild("orders")
        threads[1].join()
        is_over.set()
        threads[0].join()
        assert len(seen) > 20
        assert [each for each in seen if each[0] != each[1]] == []
        setting.reached(host, setting.log.end(setting.topic))
        assert setting.rows() == setting.fold()


# ---- declarations


def test_a_sink_is_named_after_its_table() -> None:
    app = App("shop")
    orders = app.topic("orders", "id BIGINT", key="id")
    assert app.sink(orders, Postgres("host=db", table="shop.orders")).name == "orders"
    assert app.sink(orders, Postgres("host=db", table="orders"), name="copy").name == "copy"
    with pytest.raises(DefinitionError, match=r"table orders is the sink copy's already, test_sinks\.py:\d+"):
        app.sink(orders, Postgres("host=db", table="orders"), name="again")
    with pytest.raises(DefinitionError, match="view orders is declared already"):
        app.sink(orders, Postgres("host=other", table="orders"))
    with pytest.raises(
        DefinitionError,
        match=r"a sink is one of Postgres\(…, table=…\), MariaDB\(…, table=…\), SQLite\(…, table=…\), not",
    ):
        app.sink(orders, SQL())  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["", "a.b.c", ".b", "a.", "x" * 46, "mainstem_sinks", "shop.mainstem_sinks"])
def test_a_table_without_a_usable_name_is_refused(name: str) -> None:
    app = App("shop")
    orders = app.topic("orders", "id BIGINT", key="id")
    with pytest.raises(DefinitionError, match="table="):
        app.sink(orders, Postgres("host=db", table=name))
