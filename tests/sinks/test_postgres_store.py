"""A sink's store in PostgreSQL: rows, keys, positions, and what it refuses."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest

from mainstem.errors import ConfigError, DefinitionError, MissingDependencyError, StorageError, ViewStoppedError
from mainstem.model import Position
from mainstem.schema.infer import schema_of
from mainstem.views.requests import GetQuery
from mainstem.views.stores.store import Bookmark, StoreUnavailableError, no_dead_letters
from mainstem.views.stores.store_kinds import open_store
from tests.sinks.support import definition, gone, order, serving, table
from tests.support.eventually import eventually
from tests.support.postgres import PostgresDatabase
from tests.views.support import TOPIC, KeyAndValue, apply, arrow_batch


def test_a_value_that_only_the_database_refuses_is_poison_and_the_record_before_it_counts(
    postgres_database: PostgresDatabase, tmp_path: Path
) -> None:
    of = definition(postgres_database.dsn, schema_of("id BIGINT, more MAP<STRING, STRING>"))
    fine, huge = b'{"id": 7, "more": {"a": "b"}}', b'{"id": 7, "more": {"a": 1e200000}}'
    others: list[KeyAndValue] = [(str(n).encode(), b'{"id": %d}' % n) for n in range(100, 150)]
    with serving(tmp_path / "store", of) as store:
        [poison] = apply(store, [*others[:20], (b"7", fine), (b"7", huge), *others[20:]])
        assert poison.offset == 21
        assert "PostgreSQL refused the row" in poison.error
        assert table(postgres_database)[0] == (7, {"a": "b"})
        assert store.count() == 51


def test_json_that_views_forgive_is_json_in_the_table(postgres_database: PostgresDatabase, tmp_path: Path) -> None:
    with serving(tmp_path / "store", definition(postgres_database.dsn, None, ())) as store:
        assert apply(store, [(b"1", b'{"a": NaN, "b": "NaN", "c": [-Infinity, 1.50], "\\\\u0000": 1,}')]) == []
        assert table(postgres_database) == [("1", {"a": None, "b": "NaN", "c": [None, 1.5], "\\u0000": 1})]
        [poison] = apply(store, [(b"2", b'{"a": "\\u0000"}')], 1)
        assert "U+0000" in poison.error


def test_names_of_any_kind_are_quoted(postgres_database: PostgresDatabase, tmp_path: Path) -> None:
    names = ['a"b', "50%", "%s", "{}", "deleted", "c0", "value", "select", "Key", "é"]
    schema = schema_of(", ".join(f"`{name}` STRING" for name in names))
    postgres_database.execute('CREATE SCHEMA "my %s schema"')
    of = definition(postgres_database.dsn, schema, ("50%",), 'my %s schema.or"d%ers')
    with serving(tmp_path / "store", of) as store:
        values = {name: f"{name} %s" for name in names}
        record = (values["50%"].encode(), json.dumps(values).encode())
        assert apply(store, [record]) == []
        [row] = store.query(GetQuery(values["50%"])).rows
        assert {name: row[name] for name in names} == values
        assert store.digest().entries == 1
        assert apply(store, [(record[0], None)], 1) == []
        assert store.count() == 0


def test_an_empty_table_of_the_users_is_taken_with_what_it_has(
    postgres_database: PostgresDatabase, tmp_path: Path
) -> None:
    postgres_database.execute(
        "CREATE TABLE orders (id bigint PRIMARY KEY, price numeric(10,2) CHECK (price < 100), name text, "
        "seen timestamptz DEFAULT '2020-01-01Z')"
    )
    with serving(tmp_path / "store", definition(postgres_database.dsn)) as store:
        apply(store, [order(1)])
        assert table(postgres_database)[0][:3] == (1, "1.50", "a")
        with pytest.raises(StorageError, match="orders_price_check"):
            apply(store, [order(2, price="1000")], 1)
        assert store.position == Position.of(TOPIC, 0, 1)


@pytest.mark.parametrize(
    ("ddl", "why"),
    [
        ("id bigint PRIMARY KEY, name text", "it has no column price"),
        ("id int PRIMARY KEY, name text, price numeric(10,2)", "its column id is integer, not bigint"),
        ("id bigint, name text, price numeric(10,2)", r"its primary key is \(\), not \(id\)"),
        ("id bigint PRIMARY KEY, name text, price numeric(10,2), x int NOT NULL", "x is NOT NULL without a default"),
        ("id bigint PRIMARY KEY, name text NOT NULL, price numeric(10,2)", "its column name is NOT NULL"),
    ],
)
def test_another_table_is_refused(postgres_database: PostgresDatabase, tmp_path: Path, ddl: str, why: str) -> None:
    postgres_database.execute(f"CREATE TABLE orders ({ddl})")
    store = open_store(tmp_path / "store", definition(postgres_database.dsn), for_users=True)
    with pytest.raises(StorageError, match=why):
        store.serve()
    store.close()


def test_a_shadow_takes_the_place_of_the_table(postgres_database: PostgresDatabase, tmp_path: Path) -> None:
    of = definition(postgres_database.dsn)
    postgres_database.execute("DROP ROLE IF EXISTS reader")
    postgres_database.execute("CREATE ROLE reader")
    with serving(tmp_path / "v1", of) as old:
        apply(old, [order(1), order(2)])
        postgres_database.execute("CREATE INDEX by_name ON orders (name)")
        postgres_database.execute("GRANT SELECT ON orders TO reader")
        new = open_store(tmp_path / "v2", of, for_users=True)
        apply(new, [order(3)])
        assert [row[0] for row in table(postgres_database)] == [1, 2]
        new.serve()
        assert [row[0] for row in table(postgres_database)] == [3]
        apply(new, [order(4)], 1)
        new.close()
    indexes = postgres_database.execute("SELECT indexdef FROM pg_indexes WHERE tablename = 'orders'")
    assert len([index for (index,) in indexes if "(name)" in index]) == 1
    assert postgres_database.execute("SELECT has_table_privilege('reader', 'orders', 'SELECT')") == [(True,)]
    assert postgres_database.execute("SELECT table_name, is_serving FROM mainstem_sinks") == [("orders", True)]
    with serving(tmp_path / "v2", of) as store:
        assert store.position == Position.of(TOPIC, 0, 2)
    postgres_database.execute("DROP OWNED BY reader")
    postgres_database.execute("DROP ROLE reader")


def test_columns_of_the_users_that_count_go_on_counting_after_a_rebuild(
    postgres_database: PostgresDatabase, tmp_path: Path
) -> None:
    of = definition(postgres_database.dsn)
    postgres_database.execute(
        "CREATE TABLE orders (id bigint PRIMARY KEY, name text, price numeric(10,2), a serial, "
        "b int GENERATED ALWAYS AS IDENTITY)"
    )
    with serving(tmp_path / "v1", of) as old:
        apply(old, [order(1), order(2)])
        new = open_store(tmp_path / "v2", of, for_users=True)
        apply(new, [order(3)])
        new.serve()
        apply(new, [order(4)], 1)
        new.close()
    assert postgres_database.execute("SELECT id, a, b FROM orders ORDER BY id") == [(3, 3, 1), (4, 4, 2)]


def test_a_table_that_a_view_needs_is_not_replaced(postgres_database: PostgresDatabase, tmp_path: Path) -> None:
    of = definition(postgres_database.dsn)
    with serving(tmp_path / "v1", of) as old:
        apply(old, [order(1)])
        postgres_database.execute("CREATE VIEW cheap AS SELECT * FROM orders WHERE price < 2")
        new = open_store(tmp_path / "v2", of, for_users=True)
        with pytest.raises(StorageError, match="other objects depend on it: view cheap"):
            apply(new, [order(3)])
        new.close()


def test_a_commit_whose_answer_was_lost_is_not_repeated(postgres_database: PostgresDatabase, tmp_path: Path) -> None:
    with serving(tmp_path / "store", definition(postgres_database.dsn)) as store:
        apply(store, [order(1)])
        session: Any = store._session  # type: ignore[attr-defined]
        store._session = _LosesAnswer(session)  # type: ignore[attr-defined]
        letters: list[Any] = []
        batch, bookmark = arrow_batch([order(2), (b"2", b"poison")], 1), Bookmark(Position.of(TOPIC, 0, 3))
        with pytest.raises(StoreUnavailableError):
            store.apply(batch, bookmark, letters.extend)
        assert [row[0] for row in table(postgres_database)] == [1, 2]
        postgres_database.execute("UPDATE orders SET name = 'by hand' WHERE id = 2")
        store.apply(batch, bookmark, letters.extend)
        assert table(postgres_database)[1][1] == "by hand"
        assert (store.position, store.bookmark.dead_letters, len(letters)) == (bookmark.position, 1, 1)


class _LosesAnswer:
    """A connection that breaks when a commit has gone through."""

    def __init__(self, session: Any) -> None:
        self._session = session
        self.closed = 0

    def cursor(self) -> Any:
        return self._session.cursor()

    def commit(self) -> None:
        import psycopg2

        self._session.commit()
        raise psycopg2.OperationalError("server closed the connection unexpectedly")

    def close(self) -> None:
        self.closed = 1
        self._session.close()


def test_a_step_that_fails_is_repeated_and_letters_are_sent_once(
    postgres_database: PostgresDatabase, tmp_path: Path
) -> None:
    with serving(tmp_path / "store", definition(postgres_database.dsn)) as store:
        apply(store, [order(1)])
        batch, bookmark = arrow_batch([order(2), (b"2", b"poison")], 1), Bookmark(Position.of(TOPIC, 0, 3))
        letters: list[Any] = []
        blocking = postgres_database.connect()
        blocking.autocommit = False
        with blocking.cursor() as cursor:
            cursor.execute("LOCK TABLE orders")
        store._session.cursor().execute("SET lock_timeout = 50")  # type: ignore[attr-defined]
        for _ in range(2):
            with pytest.raises(StoreUnavailableError, match="lock timeout"):
                store.apply(batch, bookmark, letters.extend)
            session: Any = store._live()  # type: ignore[attr-defined]
            session.cursor().execute("SET lock_timeout = 50")
        blocking.close()
        store.apply(batch, bookmark, letters.extend)
        assert ([row[0] for row in table(postgres_database)], len(letters)) == ([1, 2], 1)


def test_a_deadlock_with_a_transaction_of_the_users_is_repeated(
    postgres_database: PostgresDatabase, tmp_path: Path
) -> None:
    with serving(tmp_path / "store", definition(postgres_database.dsn)) as store:
        apply(store, [order(1), order(2)])
        assert store._session is not None
        with store._session.cursor() as cursor:
            # PostgreSQL looks for a deadlock once, after this time: the users must wait by then.
            cursor.execute("SET deadlock_timeout = '5s'")
        store._session.commit()
        users = postgres_database.connect()
        users.autocommit = False
        with users.cursor() as cursor:
            cursor.execute("SET deadlock_timeout = '60s'")  # so that the sink's transaction is the one that is ended
            cursor.execute("UPDATE orders SET name = 'mine' WHERE id = 2")
        failed: list[Exception] = []
        batch, bookmark = arrow_batch([order(1, "b"), order(2, "b")], 2), Bookmark(Position.of(TOPIC, 0, 4))

        def go_on() -> None:
            try:
                store.apply(batch, bookmark, no_dead_letters)
            except StoreUnavailableError as error:
                failed.append(error)

        sink = threading.Thread(target=go_on)
        sink.start()
        waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted"
        eventually(lambda: postgres_database.execute(waiting) == [(1,)], "the sink waits for row 2")
        with users.cursor() as cursor:
            cursor.execute("UPDATE orders SET name = 'mine' WHERE id = 1")
        users.commit()
        users.close()
        sink.join()
        assert "deadlock detected" in str(failed[0])
        store.apply(batch, bookmark, no_dead_letters)
        assert [row[1] for row in table(postgres_database)] == ["b", "b"]


def test_a_partitioned_table_is_kept_in_step_and_not_replaced(
    postgres_database: PostgresDatabase, tmp_path: Path
) -> None:
    of = definition(postgres_database.dsn)
    postgres_database.execute(
        "CREATE TABLE orders (id bigint PRIMARY KEY, name text, price numeric(10,2)) PARTITION BY HASH (id)"
    )
    for n in range(3):
        postgres_database.execute(f"CREATE TABLE p{n} PARTITION OF orders FOR VALUES WITH (MODULUS 3, REMAINDER {n})")
    with serving(tmp_path / "v1", of) as store:
        assert apply(store, [order(n) for n in range(30)]) == []
        assert apply(store, [gone(7), order(8, "b")], 30) == []
        assert [row[0] for row in table(postgres_database)] == [n for n in range(30) if n != 7]
        new = open_store(tmp_path / "v2", of, for_users=True)
        with pytest.raises(StorageError, match="the table orders is partitioned"):
            apply(new, [order(3)])
        new.close()


@pytest.mark.parametrize(
    ("schema", "key", "why"),
    [
        (f"id BIGINT, {'x' * 64} STRING", ("id",), "a name there has at most 63 bytes"),
        (
            "id BIGINT, name STRING",
            ("number",),
            "the key column number is not a column of the topic; there are id, name",
        ),
    ],
)
def test_a_topic_that_cannot_be_a_table_is_refused(tmp_path: Path, schema: str, key: tuple[str, ...], why: str) -> None:
    with pytest.raises(DefinitionError, match=why):
        open_store(tmp_path / "store", definition("host=db", schema_of(schema), key))


def test_the_missing_driver_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mainstem.postgres_dsn.psycopg2", None)
    with pytest.raises(MissingDependencyError, match=r"pip install 'mainstem\[postgres\]'"):
        open_store(tmp_path / "store", definition("host=db"))


def test_the_database_may_be_away(postgres_database: PostgresDatabase, tmp_path: Path) -> None:
    cluster = postgres_database.cluster
    with serving(tmp_path / "store", definition(postgres_database.dsn)) as store:
        apply(store, [order(1)])
        cluster.stop("immediate")
        try:
            for _ in range(2):
                with pytest.raises(StoreUnavailableError, match="for the database at "):
                    store.apply(arrow_batch([order(2)], 1), Bookmark(Position.of(TOPIC, 0, 2)), no_dead_letters)
            with pytest.raises(StoreUnavailableError):
                store.count()
        finally:
            cluster.start()
        apply(store, [order(2)], 1)
        assert store.count() == 2


def test_a_dsn_that_cannot_be_read_is_not_repeated_in_the_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="the DSN of the database cannot be read") as caught:
        open_store(tmp_path / "store", definition("postgresql://me:secret@[host/db"))
    assert "secret" not in str(caught.value)
    assert caught.value.__suppress_context__


def test_a_missing_dsn_names_the_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MAINSTEM_POSTGRES_DSN", raising=False)
    of = definition("")
    with pytest.raises(DefinitionError, match="MAINSTEM_POSTGRES_DSN"):
        open_store(tmp_path / "store", of)


def test_a_wrong_password_is_said_without_it(postgres_database: PostgresDatabase, tmp_path: Path) -> None:
    cluster = postgres_database.cluster
    postgres_database.execute("DROP ROLE IF EXISTS someone")
    postgres_database.execute("CREATE ROLE someone LOGIN PASSWORD 'right'")
    store = open_store(
        tmp_path / "store",
        definition(cluster.tcp_dsn(postgres_database.name, "someone", "wr0ng!secret")),
        for_users=True,
    )
    with pytest.raises(StoreUnavailableError, match='password authentication failed for user "someone"') as caught:
        store.serve()
    assert "wr0ng" not in str(caught.value)
    postgres_database.execute("DROP ROLE someone")


def test_a_missing_privilege_stops_with_what_is_needed(postgres_database: PostgresDatabase, tmp_path: Path) -> None:
    cluster = postgres_database.cluster
    postgres_database.execute("DROP ROLE IF EXISTS guest")
    postgres_database.execute("CREATE ROLE guest LOGIN PASSWORD 'right'")
    dsn = cluster.tcp_dsn(postgres_database.name, "guest", "right")
    store = open_store(tmp_path / "store", definition(dsn), for_users=True)
    with pytest.raises(ViewStoppedError, match=r"permission denied for schema public; .*needs CREATE"):
        store.serve()
    postgres_database.execute("DROP ROLE guest")


def test_a_table_that_was_changed_meanwhile_is_refused_at_the_start(
    postgres_database: PostgresDatabase, tmp_path: Path
) -> None:
    of = definition(postgres_database.dsn)
    with serving(tmp_path / "store", of) as store:
        apply(store, [order(1)])
    postgres_database.execute("ALTER TABLE orders ALTER price TYPE text")
    other = open_store(tmp_path / "store", of, for_users=True)
    with pytest.raises(ViewStoppedError, match=r"its column price is text, not numeric\(10,2\): rebuild the sink"):
        other.serve()
    other.close()


def test_a_foreign_key_waits_for_the_row_that_it_names(postgres_database: PostgresDatabase, tmp_path: Path) -> None:
    postgres_database.execute("CREATE TABLE names (name text PRIMARY KEY)")
    postgres_database.execute(
        "CREATE TABLE orders (id bigint PRIMARY KEY, name text REFERENCES names, price numeric(10,2))"
    )
    with serving(tmp_path / "store", definition(postgres_database.dsn)) as store:
        with pytest.raises(StoreUnavailableError, match="violates foreign key constraint"):
            apply(store, [order(1)])
        postgres_database.execute("INSERT INTO names VALUES ('a')")
        apply(store, [order(1)])
        assert store.count() == 1


def test_a_missing_schema_is_named(postgres_database: PostgresDatabase, tmp_path: Path) -> None:
    store = open_store(tmp_path / "store", definition(postgres_database.dsn, table="shop.orders"), for_users=True)
    with pytest.raises(StorageError, match="schema shop does not exist in the database"):
        store.serve()
