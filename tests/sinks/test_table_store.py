"""A sink's store in each database: rows, keys, positions, and what it refuses."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from pathlib import Path

import pytest

from mainstem.errors import StorageError, ViewStoppedError
from mainstem.model import Position
from mainstem.schema.infer import schema_of
from mainstem.views.requests import GetQuery, RangeQuery
from mainstem.views.stores.store_kinds import open_store
from tests.sinks.databases import SinkDatabase
from tests.sinks.support import definition, gone, order, serving, table
from tests.views.support import TOPIC, KeyAndValue, apply


def test_rows_are_upserted_and_deleted_by_the_key_columns(sink_database: SinkDatabase, tmp_path: Path) -> None:
    with serving(tmp_path / "store", definition(sink_database)) as store:
        assert apply(store, [order(1), order(2), order(10, "b")]) == []
        assert apply(store, [order(1, "c"), gone(2), gone(3), order(2, "d"), gone(10)], 3) == []
        assert table(sink_database) == [(1, "c", "1.50"), (2, "d", "1.50")]
        assert store.position == Position.of(TOPIC, 0, 8)
        [[position, is_serving]] = sink_database.execute("SELECT position, is_serving FROM mainstem_sinks")
        assert (position, is_serving) == (str(store.position), True)


def test_the_primary_key_is_the_topics_key(sink_database: SinkDatabase, tmp_path: Path) -> None:
    with serving(tmp_path / "store", definition(sink_database, key=("name", "id"))) as store:
        values = {"id": 1, "name": 'é"\\\n', "price": 2}
        key = json.dumps([values["name"], 1], ensure_ascii=False, separators=(",", ":")).encode()
        assert apply(store, [(key, json.dumps(values).encode())]) == []
        [row] = store.query(GetQuery(key.decode())).rows
        assert row == {"_key": key.decode(), "id": 1, "name": values["name"], "price": "2.00"}
        assert apply(store, [(key, None)], 1) == []
        assert table(sink_database) == []


@pytest.mark.parametrize(
    ("key", "schema"),
    [((), "id BIGINT, name STRING"), (("id",), "id DOUBLE, name STRING"), ((), None)],
    ids=["without a key", "with a key of doubles", "without a schema"],
)
def test_other_keys_are_a_column_of_their_own(
    sink_database: SinkDatabase, tmp_path: Path, key: tuple[str, ...], schema: str | None
) -> None:
    columns = None if schema is None else schema_of(schema)
    with serving(tmp_path / "store", definition(sink_database, columns, key)) as store:
        assert apply(store, [(b"any key", b'{"id": 1, "name": "a"}'), (b"other", b'{"id": 2}')]) == []
        assert [row[0] for row in table(sink_database)] == ["any key", "other"]
        assert apply(store, [(b"any key", None)], 2) == []
        assert [row["_key"] for row in store.query(RangeQuery()).rows] == ["other"]


@pytest.mark.parametrize(
    ("record", "why"),
    [
        ((b"2", b'{"id": 1, "name": "a"}'), "the key '2' is not the one that id of the value make"),
        ((b"01", b'{"id": 1, "name": "a"}'), "the key '01' is not the one that id of the value make"),
        ((b"1", b'{"name": "a"}'), "the field 'id' is missing or null"),
        ((b"one", None), "the key 'one' cannot be read as id"),
        ((b"01", None), "the key '01' cannot be read as id"),
        ((b'1, "x": 2', None), "cannot be read as id"),
        ((b"1", b'{"id": 1, "price": 1.555}'), "price is not DECIMAL(10,2)"),
        ((b"1", b"nothing"), "the value is not JSON"),
        ((None, b'{"id": 1}'), "the record has no key"),
    ],
)
def test_what_cannot_be_a_row_is_poison(
    sink_database: SinkDatabase, tmp_path: Path, record: KeyAndValue, why: str
) -> None:
    with serving(tmp_path / "store", definition(sink_database)) as store:
        [poison] = apply(store, [order(5), record, order(6)])
        assert why in poison.error
        assert (poison.offset, poison.key, poison.value) == (1, *record)
        assert [row[0] for row in table(sink_database)] == [5, 6]
        assert store.bookmark.dead_letters == 1


def test_a_new_directory_goes_on_with_the_table(sink_database: SinkDatabase, tmp_path: Path) -> None:
    of = definition(sink_database)
    with serving(tmp_path / "here", of) as store:
        apply(store, [order(1)])
        digest, bookmark = store.digest(), store.bookmark
    with serving(tmp_path / "there", of) as store:
        assert (store.digest(), store.bookmark) == (digest, bookmark)


def test_a_table_of_another_topic_is_refused(sink_database: SinkDatabase, tmp_path: Path) -> None:
    of = definition(sink_database)
    with serving(tmp_path / "store", of) as store:
        apply(store, [order(1)])
    other = open_store(tmp_path / "other", replace(of, topic="refunds"), for_users=True)
    with pytest.raises(ViewStoppedError, match="orders is kept in step with topic routes, not with refunds"):
        other.serve()
    other.close()


def test_one_process_writes(sink_database: SinkDatabase, tmp_path: Path) -> None:
    of = definition(sink_database)
    with serving(tmp_path / "here", of) as first, serving(tmp_path / "there", of) as second:
        apply(second, [order(1)])
        with pytest.raises(ViewStoppedError, match="another process has taken over the table orders"):
            apply(first, [order(2)])
        assert [row[0] for row in table(sink_database)] == [1]


def test_a_table_with_rows_that_no_sink_wrote_is_refused(sink_database: SinkDatabase, tmp_path: Path) -> None:
    sink_database.execute(f"CREATE TABLE orders ({sink_database.columns})")
    sink_database.execute("INSERT INTO orders VALUES (1, 'mine', 1)")
    store = open_store(tmp_path / "store", definition(sink_database), for_users=True)
    with pytest.raises(StorageError, match="it has rows, which no sink wrote"):
        store.serve()
    store.close()
    assert table(sink_database)[0][1] == "mine"


def test_a_column_is_added_as_the_schema_grows(sink_database: SinkDatabase, tmp_path: Path) -> None:
    with serving(tmp_path / "store", definition(sink_database)) as store:
        apply(store, [order(1)])
    grown = schema_of("id BIGINT, name STRING, price DECIMAL(10,2), seen TIMESTAMP")
    with serving(tmp_path / "store", definition(sink_database, grown)) as store:
        apply(store, [(b"2", b'{"id": 2, "seen": "2020-01-01T00:00:00Z"}')], 1)
        assert [row["seen"] for row in store.query(RangeQuery()).rows] == [None, "2020-01-01T00:00:00Z"]


@pytest.mark.parametrize(
    ("schema", "key"),
    [
        ("id BIGINT, name STRING", ("id",)),
        ("id BIGINT, name STRING, price DOUBLE", ("id",)),
        ("id BIGINT, name STRING, price DECIMAL(10,2), x INT NOT NULL", ("id",)),
        ("id BIGINT, name STRING, price DECIMAL(10,2)", ("name",)),
    ],
    ids=["one fewer", "another type", "one that is required", "another key"],
)
def test_other_changes_of_the_columns_need_a_rebuild(
    sink_database: SinkDatabase, tmp_path: Path, schema: str, key: tuple[str, ...]
) -> None:
    with serving(tmp_path / "store", definition(sink_database)) as store:
        apply(store, [order(1)])
    other = open_store(tmp_path / "store", definition(sink_database, schema_of(schema), key), for_users=True)
    with pytest.raises(ViewStoppedError, match=r"the columns of the table orders changed .*: rebuild the sink"):
        other.serve()
    other.close()


def test_a_walk_that_is_left_harms_no_other_reader(sink_database: SinkDatabase, tmp_path: Path) -> None:
    with serving(tmp_path / "store", definition(sink_database)) as store:
        apply(store, [order(number) for number in range(5_000)])
        with store.snapshot() as snapshot:
            left = snapshot.entries()
            next(left)
        with store.snapshot() as other:
            rows = other.entries()
            next(rows)
            del left
            assert len(list(rows)) == 4_999


def test_a_discarded_store_leaves_nothing_behind(sink_database: SinkDatabase, tmp_path: Path) -> None:
    of = definition(sink_database)
    with serving(tmp_path / "v1", of):
        scratch = open_store(tmp_path / "scratch", of)
        apply(scratch, [order(3)])
        assert scratch.count() == 1
        scratch.discard()
        assert table(sink_database) == []
        assert sink_database.tables() == ["mainstem_sinks", "orders"]


def test_a_users_own_column_stays_when_the_row_is_replaced(sink_database: SinkDatabase, tmp_path: Path) -> None:
    sink_database.execute(f"CREATE TABLE orders ({sink_database.columns}, note text)")
    with serving(tmp_path / "store", definition(sink_database)) as store:
        apply(store, [order(1)])
        sink_database.execute("UPDATE orders SET note = 'mine'")
        apply(store, [order(1, "b")], 1)
        assert table(sink_database) == [(1, "b", "1.50", "mine")]


def test_text_with_a_zero_character(sink_database: SinkDatabase, tmp_path: Path) -> None:
    record = (b"1", b'{"id": 1, "name": "a\\u0000b"}')
    with serving(tmp_path / "store", definition(sink_database)) as store:
        poisons = apply(store, [record, order(2)])
        if sink_database.name == "mariadb":  # which can hold it
            assert [row[1] for row in table(sink_database)] == ["a\0b", "a"]
        else:
            assert "name has the character U+0000" in poisons[0].error
            assert [row[0] for row in table(sink_database)] == [2]


def test_names_of_any_kind(sink_database: SinkDatabase, tmp_path: Path) -> None:
    names = ['a"b', "50%", "%s", "{}", "?", "deleted", "c0", "value", "select", "Key", "é", "`"]
    schema = schema_of(", ".join(f"`{name.replace('`', '``')}` STRING" for name in names))
    of = definition(sink_database, schema, ("50%",), 'or"d%e{}?rs')
    with serving(tmp_path / "v1", of) as store:
        values = {name: f"{name} %s" for name in names}
        record = (values["50%"].encode(), json.dumps(values).encode())
        assert apply(store, [record]) == []
        [row] = store.query(GetQuery(values["50%"])).rows
        assert {name: row[name] for name in names} == values
        assert store.query(RangeQuery(prefix="50% %", start="5", end="6")).rows == [row]
        new = open_store(tmp_path / "v2", of, for_users=True)
        assert apply(new, [record]) == []
        assert new.digest() == store.digest()
        new.serve()
        assert apply(new, [(record[0], None)], 1) == []
        assert new.count() == 0
        new.close()


def test_another_rebuild_takes_the_place_of_the_table_with_its_indexes(
    sink_database: SinkDatabase, tmp_path: Path
) -> None:
    of = definition(sink_database)
    sink_database.execute(f"CREATE TABLE orders ({sink_database.columns}, note int DEFAULT 7)")
    sink_database.execute("CREATE INDEX by_note ON orders (note)")
    with serving(tmp_path / "v1", of) as old:
        apply(old, [order(1), order(2)])
        for version in ("v2", "v3"):
            new = open_store(tmp_path / version, of, for_users=True)
            apply(new, [order(3)])
            new.serve()
            assert table(sink_database) == [(3, "a", "1.50", 7)]
            apply(new, [order(4)], 1)
            new.close()
            with pytest.raises(ViewStoppedError, match=r"start .* host again"):
                apply(old, [order(9)], 2)
    assert sink_database.has_index("orders", "note")
    assert sink_database.tables() == ["mainstem_sinks", "orders"]
    assert [tuple(map(str, row)) for row in sink_database.execute("SELECT name, table_name FROM mainstem_sinks")] == [
        ("orders", "orders")
    ]
    with serving(tmp_path / "v3", of) as store:
        assert store.position == Position.of(TOPIC, 0, 2)


def test_another_unique_index_of_the_users_stops_the_sink_and_changes_no_other_row(
    sink_database: SinkDatabase, tmp_path: Path
) -> None:
    sink_database.execute(f"CREATE TABLE orders ({sink_database.columns})")
    indexed = "name(50)" if sink_database.name == "mariadb" else "name"
    sink_database.execute(f"CREATE UNIQUE INDEX by_name ON orders ({indexed})")
    with serving(tmp_path / "store", definition(sink_database)) as store:
        apply(store, [order(1, "a"), order(2, "b")])
        with pytest.raises(StorageError, match="refused rows"):
            apply(store, [order(3, "a")], 2)
        assert [row[:2] for row in table(sink_database)] == [(1, "a"), (2, "b")]


def test_a_long_key_and_large_values(sink_database: SinkDatabase, tmp_path: Path) -> None:
    schema = schema_of("a STRING, b STRING, more BINARY")
    with serving(tmp_path / "store", definition(sink_database, schema, ("a",))) as store:
        for length in (600, 60_001):
            key = "é" * length
            values = {"a": key, "b": "'\\" * 500_000, "more": base64.b64encode(bytes(range(256)) * 2_000).decode()}
            poisons = apply(store, [(key.encode(), json.dumps(values).encode())])
            assert len(poisons) == (0 if length == 600 else 1)
        [row] = store.query(RangeQuery()).rows
        assert (len(row["a"]), row["b"] == "'\\" * 500_000) == (600, True)
        assert base64.b64decode(row["more"]) == bytes(range(256)) * 2_000


def test_a_key_that_is_too_long_among_others(sink_database: SinkDatabase, tmp_path: Path) -> None:
    long = {"postgres": 2_601, "mariadb": 765, "sqlite": 60_001}[sink_database.name]
    records: list[KeyAndValue] = [(b"%d" % n * (long if n == 4 else 1), b'{"a": 1}') for n in range(9)]
    with serving(tmp_path / "store", definition(sink_database, schema_of("a INT"), ())) as store:
        [poison] = apply(store, records)
        assert (poison.offset, "the key" in poison.error) == (4, True)
        assert store.count() == 8


def test_a_row_that_is_too_large_among_others(sink_database: SinkDatabase, tmp_path: Path) -> None:
    huge = "x" * (17 << 20)
    records = [order(1), order(2), (b"3", json.dumps({"id": 3, "name": huge}).encode()), order(4), order(5)]
    with serving(tmp_path / "store", definition(sink_database)) as store:
        poisons = apply(store, records)
        assert len(poisons) == (1 if sink_database.name == "mariadb" else 0)
        assert store.count() == 5 - len(poisons)


def test_a_batch_without_rows_writes_none_again(sink_database: SinkDatabase, tmp_path: Path) -> None:
    with serving(tmp_path / "store", definition(sink_database)) as store:
        apply(store, [order(1)])
        sink_database.execute("UPDATE orders SET name = 'by hand'")
        apply(store, [(b"2", b"poison")], 1)
        assert table(sink_database)[0][1] == "by hand"


def test_many_rows_are_deleted_at_once(sink_database: SinkDatabase, tmp_path: Path) -> None:
    rows = [{"name": f"it's \\{n % 3}", "id": n, "price": 1} for n in range(1_201)]
    keys = [json.dumps([row["name"], row["id"]], separators=(",", ":")).encode() for row in rows]
    with serving(tmp_path / "store", definition(sink_database, key=("name", "id"))) as store:
        assert apply(store, [(key, json.dumps(row).encode()) for key, row in zip(keys, rows, strict=True)]) == []
        assert store.count() == 1_201
        assert apply(store, [*((key, None) for key in keys if key != keys[7])], 1_201) == []
        assert [row["id"] for row in store.query(RangeQuery()).rows] == [7]
