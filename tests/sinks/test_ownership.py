"""A sink takes no table of the user's, gives way to another process, and sees a database that went back."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from mainstem.errors import DefinitionError, StorageError, ViewStoppedError
from mainstem.model import Position
from mainstem.pipelines.app import App
from mainstem.schema.infer import schema_of
from mainstem.views.stores.store import StoreRewoundError, StoreUnavailableError
from mainstem.views.stores.store_kinds import open_store
from tests.sinks.databases import InMariaDB, InSQLite, SinkDatabase
from tests.sinks.support import definition, order, serving, table
from tests.support.mariadb import MariaDBDatabase
from tests.views.support import TOPIC, apply


def test_a_rebuild_does_not_replace_a_table_with_rows_of_the_users(sink_database: SinkDatabase, tmp_path: Path) -> None:
    sink_database.execute(f"CREATE TABLE orders ({sink_database.columns})")
    sink_database.execute("INSERT INTO orders VALUES (1, 'mine', 1)")
    store = open_store(tmp_path / "v2", definition(sink_database), for_users=True)
    with pytest.raises(StorageError, match="it has rows, which no sink wrote"):
        apply(store, [order(2)])
    store.close()
    assert table(sink_database)[0][1] == "mine"


_TEXT_KEYS = {
    "postgres": ("text COLLATE any_case", "has the collation any_case, in which different keys may be equal"),
    "mariadb": ("varchar(764) COLLATE utf8mb4_bin", "has the collation utf8mb4_bin, in which different keys may be"),
    "sqlite": ("text COLLATE NOCASE", "has the collation NOCASE, in which different keys may be equal: make it BINARY"),
}


def test_a_table_whose_key_takes_different_texts_for_the_same_is_refused(
    sink_database: SinkDatabase, tmp_path: Path
) -> None:
    column, why = _TEXT_KEYS[sink_database.name]
    if sink_database.name == "postgres":
        sink_database.execute("CREATE COLLATION any_case (provider = icu, locale = 'und', deterministic = false)")
    sink_database.execute(f"CREATE TABLE orders (name {column} PRIMARY KEY)")
    of = definition(sink_database, schema_of("name STRING"), ("name",))
    store = open_store(tmp_path / "store", of, for_users=True)
    with pytest.raises(StorageError, match=why):
        store.serve()
    store.close()


def test_a_table_of_mariadb_whose_text_lacks_characters_is_refused(
    mariadb_database: MariaDBDatabase, tmp_path: Path
) -> None:
    mariadb_database.execute("CREATE TABLE orders (id bigint PRIMARY KEY, name longtext CHARACTER SET latin1)")
    of = definition(InMariaDB(mariadb_database), schema_of("id BIGINT, name STRING"))
    store = open_store(tmp_path / "store", of, for_users=True)
    with pytest.raises(StorageError, match="its column name has the character set latin1, which lacks characters"):
        store.serve()
    store.close()


def test_a_table_that_the_user_makes_while_a_rebuild_goes_on_stays(sink_database: SinkDatabase, tmp_path: Path) -> None:
    store = open_store(tmp_path / "v2", definition(sink_database), for_users=True)
    apply(store, [order(2)])
    sink_database.execute(f"CREATE TABLE orders ({sink_database.columns})")
    sink_database.execute("INSERT INTO orders VALUES (1, 'mine', 1)")
    with pytest.raises(StorageError, match="it has rows, which no sink wrote"):
        store.serve()
    store.close()
    assert [row[1] for row in table(sink_database)] == ["mine"]


def test_a_rebuild_takes_an_empty_table_of_the_users_with_what_it_has(
    sink_database: SinkDatabase, tmp_path: Path
) -> None:
    sink_database.execute(f"CREATE TABLE orders ({sink_database.columns}, note int DEFAULT 7)")
    store = open_store(tmp_path / "v2", definition(sink_database), for_users=True)
    apply(store, [order(2)])
    store.serve()
    assert table(sink_database) == [(2, "a", "1.50", 7)]
    store.close()
    assert sink_database.tables() == ["mainstem_sinks", "orders"]


def test_a_process_whose_connection_broke_does_not_take_the_table_back(
    sink_database: SinkDatabase, tmp_path: Path
) -> None:
    of = definition(sink_database)
    with serving(tmp_path / "here", of) as first:
        apply(first, [order(0)])
        with serving(tmp_path / "there", of) as second:
            apply(second, [order(1), order(2)], 1)
            first._session = _Broken()  # type: ignore[attr-defined]
            with pytest.raises(StoreUnavailableError):
                apply(first, [order(1)], 1)
            with pytest.raises(ViewStoppedError, match="another process has taken over the table orders"):
                apply(first, [order(1)], 1)


def test_a_rebuild_whose_table_another_process_dropped_does_not_take_the_one_that_serves(
    sink_database: SinkDatabase, tmp_path: Path
) -> None:
    of = definition(sink_database)
    with serving(tmp_path / "v1", of):
        rebuilt = open_store(tmp_path / "v2", of, for_users=True)
        apply(rebuilt, [order(1)])
        with serving(tmp_path / "there", of) as second:
            with pytest.raises(ViewStoppedError, match="is gone: start the sink's host again"):
                rebuilt.serve()
            rebuilt.close()
            apply(second, [order(1)])


@pytest.mark.parametrize("before_the_start", [False, True], ids=["its position", "who writes it"])
def test_a_database_that_went_back_is_seen_without_an_error_before(
    sink_database: SinkDatabase, tmp_path: Path, before_the_start: bool
) -> None:
    of = definition(sink_database)
    with serving(tmp_path / "store", of) as store:
        apply(store, [order(1)])
        sink_database.execute("CREATE TABLE saved AS SELECT * FROM mainstem_sinks")
    with serving(tmp_path / "store", of) as store:
        if not before_the_start:
            sink_database.execute("DROP TABLE saved")
            sink_database.execute("CREATE TABLE saved AS SELECT * FROM mainstem_sinks")
        apply(store, [order(2)], 1)
        _go_back(sink_database)
        with pytest.raises(StoreRewoundError, match=r"went back from routes/0:2 to routes/0:1"):
            apply(store, [order(3)], 2)
    with serving(tmp_path / "store", of) as store:
        assert store.position == Position.of(TOPIC, 0, 1)


def test_a_database_that_goes_back_while_a_rebuilt_table_takes_its_place_loses_nothing(
    sink_database: SinkDatabase, tmp_path: Path
) -> None:
    of = definition(sink_database)
    with serving(tmp_path / "v1", of):
        store = open_store(tmp_path / "v2", of, for_users=True)
        apply(store, [order(1)])
        sink_database.execute("CREATE TABLE saved AS SELECT * FROM mainstem_sinks")
        apply(store, [order(2)], 1)
        _go_back(sink_database)
        store.serve()
        with pytest.raises(StoreRewoundError):
            apply(store, [order(3)], 2)
        store.close()


def _go_back(database: SinkDatabase) -> None:
    """Give ``mainstem_sinks`` the rows that were saved, as a failover to a copy that lags does."""
    database.execute("DELETE FROM mainstem_sinks")
    database.execute("INSERT INTO mainstem_sinks SELECT * FROM saved")


class _Broken:
    """A connection that the server has ended."""

    def cursor(self, *_: Any) -> Any:
        raise StoreUnavailableError("the connection was lost")

    execute = cursor

    def close(self) -> None:
        """It is closed."""


@pytest.mark.parametrize("is_replaced", [True, False], ids=["replaced", "removed"])
def test_a_file_of_sqlite_that_is_not_the_one_that_was_opened_stops_the_sink(tmp_path: Path, is_replaced: bool) -> None:
    database = InSQLite(tmp_path / "sink.db")
    with serving(tmp_path / "store", definition(database)) as store:
        apply(store, [order(1)])
        assert store.count() == 1  # the reader's connection is kept
        if is_replaced:
            shutil.copy(database.path, tmp_path / "copy.db")
            (tmp_path / "copy.db").replace(database.path)
        else:
            database.path.unlink()
        for use in (store.count, lambda: apply(store, [order(2)], 1)):
            with pytest.raises(ViewStoppedError, match=r"was replaced or removed while the sink had it open: stop"):
                use()


def test_names_of_sqlite_do_not_differ_by_case(tmp_path: Path) -> None:
    database = InSQLite(tmp_path / "sink.db")
    with serving(tmp_path / "here", definition(database)) as store:
        with serving(tmp_path / "there", definition(database, table="ORDERS")) as second:
            apply(second, [order(1)])
            with pytest.raises(ViewStoppedError, match="another process has taken over"):
                apply(store, [order(2)])


@pytest.mark.parametrize("name", ["mainstem_sinks", "Mainstem_Batch", "mainstem_batch"])
def test_a_table_with_a_name_of_the_sinks_own_is_refused(name: str, sink_database: SinkDatabase) -> None:
    app = App("shop")
    with pytest.raises(DefinitionError, match=r"names that begin with mainstem_ are the sinks' own"):
        app.sink(app.topic("orders", "id BIGINT", key="id"), sink_database.sink(name))
