"""Every kind of change of a table is in its topic, once, in the order of commits."""

from __future__ import annotations

from mainstem.model import Position
from mainstem.postgres.captured_state import read_state
from tests.postgres.conftest import Shop

ORDERS = "CREATE TABLE orders (id int PRIMARY KEY, item text, tags jsonb)"


def test_a_snapshot_and_then_each_change(shop: Shop) -> None:
    shop.execute(ORDERS)
    shop.execute(
        "INSERT INTO orders SELECT n, 'item ' || n, jsonb_build_object('n', n) FROM generate_series(1, 1234) n"
    )
    with shop.capture() as capture:
        capture.caught_up(shop.database)
        assert shop.fold() == shop.rows()
        assert len(shop.records()) == 1234
        shop.execute("UPDATE orders SET item = 'é\"\\ \t' WHERE id = 7")
        shop.execute("DELETE FROM orders WHERE id = 8")
        shop.execute("INSERT INTO orders VALUES (5000, NULL, NULL)")
        capture.caught_up(shop.database)
        assert shop.records()[1234:] == [
            ("7", {"id": 7, "item": 'é"\\ \t', "tags": {"n": 7}}),
            ("8", None),
            ("5000", {"id": 5000, "item": None, "tags": None}),
        ]
        assert shop.fold() == shop.rows()


def test_a_capture_goes_on_where_it_was(shop: Shop) -> None:
    shop.execute(ORDERS)
    with shop.capture() as capture:
        capture.caught_up(shop.database)
    shop.execute("INSERT INTO orders VALUES (1, 'a'), (2, 'b')")
    shop.execute("UPDATE orders SET item = 'c' WHERE id = 1")
    with shop.capture() as capture:
        capture.caught_up(shop.database)
    assert [key for key, _ in shop.records()] == ["1", "2", "1"]
    with shop.capture() as capture:
        capture.caught_up(shop.database)
    assert [key for key, _ in shop.records()] == ["1", "2", "1"]


def test_a_changed_key_is_a_tombstone_and_a_new_row(shop: Shop) -> None:
    shop.execute(ORDERS)
    shop.execute("INSERT INTO orders VALUES (1, 'a', NULL)")
    shop.capture_changes("UPDATE orders SET id = 2 WHERE id = 1")
    assert shop.records()[1:] == [("1", None), ("2", {"id": 2, "item": "a", "tags": None})]


def test_a_truncated_table_is_a_tombstone_for_each_key(shop: Shop) -> None:
    shop.execute(ORDERS)
    shop.execute("INSERT INTO orders SELECT n, 'x' FROM generate_series(1, 20) n")
    with shop.capture() as capture:
        capture.caught_up(shop.database)
        connection = shop.database.connect()
        with connection.cursor() as cursor:  # one transaction: rows of it, and of the open transaction of the log
            cursor.execute("BEGIN; INSERT INTO orders VALUES (21, 'y'), (22, 'y'); DELETE FROM orders WHERE id = 1")
            cursor.execute("TRUNCATE orders; INSERT INTO orders VALUES (30, 'z'); COMMIT")
        connection.close()
        capture.caught_up(shop.database)
    assert shop.fold() == shop.rows() == {"30": {"id": 30, "item": "z", "tags": None}}
    assert [key for key, value in shop.records() if value is None].count("1") == 1


def test_a_truncation_reads_the_topic_from_the_one_before_it(shop: Shop) -> None:
    shop.execute(ORDERS)
    with shop.capture() as capture:
        shop.execute("INSERT INTO orders VALUES (1, 'a'), (2, 'b')")
        capture.caught_up(shop.database)
        shop.execute(
            "BEGIN; INSERT INTO orders VALUES (3, 'c'); TRUNCATE orders; INSERT INTO orders VALUES (2, 'd'); COMMIT"
        )
        capture.caught_up(shop.database)
    [table] = read_state(shop.log, shop.name).tables.values()
    assert table.emptied_at == Position.of(f"{shop.name}.orders", 0, 2)
    place = shop.log.end(f"{shop.name}.orders")
    with shop.capture() as capture:
        shop.execute("INSERT INTO orders VALUES (4, 'e')")
        shop.execute("TRUNCATE orders")
        shop.execute("INSERT INTO orders VALUES (1, 'f')")
        capture.caught_up(shop.database)
    assert shop.fold() == shop.rows() == {"1": {"id": 1, "item": "f", "tags": None}}
    written = shop.log.read(f"{shop.name}.orders", start=place)
    later = [record.key for record in written if record.value is None]
    assert later == [b"2", b"4"]


def test_one_transaction_of_the_database_is_never_in_two_of_the_log(shop: Shop) -> None:
    shop.execute(ORDERS)
    shop.execute("CREATE TABLE lines (id int PRIMARY KEY)")
    with shop.capture("orders", "lines") as capture:
        capture.caught_up(shop.database)
        commits = capture.counts.commits
        shop.execute(
            "BEGIN; INSERT INTO orders SELECT n, repeat('x', 100) FROM generate_series(1, 20000) n;"
            "SAVEPOINT a; INSERT INTO lines VALUES (1); ROLLBACK TO a; INSERT INTO lines VALUES (2); COMMIT"
        )
        capture.caught_up(shop.database)
    records = list(shop.log.read(f"{shop.name}.orders"))
    assert len(records) == 20000
    assert {dict(record.headers)["mainstem-lsn"] for record in records} == {dict(records[0].headers)["mainstem-lsn"]}
    assert [key for key, _ in shop.records("lines")] == ["2"]
    assert capture.counts.commits - commits < 10


def test_a_large_value_that_was_not_changed_is_in_every_record_of_its_row(shop: Shop) -> None:
    shop.execute("CREATE TABLE orders (id int PRIMARY KEY, state text, note text, tags jsonb, data bytea)")
    shop.execute("ALTER TABLE orders ALTER note SET STORAGE EXTERNAL, ALTER data SET STORAGE EXTERNAL")
    shop.execute("ALTER TABLE orders ALTER tags SET STORAGE EXTERNAL")
    large = "(SELECT string_agg(md5(n::text), '') FROM generate_series(1, {}) n)"
    tags = f"jsonb_build_object('a', {large.format(300)}, 'b', 1.50)"
    row = f"'new', {large.format(400)}, {tags}, {large.format(99)}::bytea"
    shop.execute(f"INSERT INTO orders VALUES (1, {row})")
    with shop.capture() as capture:
        capture.caught_up(shop.database)
        first = shop.fold()["1"]
        shop.execute("UPDATE orders SET state = 'paid'")
        shop.execute(f"INSERT INTO orders VALUES (2, {row})")
        shop.execute("BEGIN; UPDATE orders SET state = 'b' WHERE id = 2; UPDATE orders SET id = 3 WHERE id = 2; COMMIT")
        shop.execute(
            "BEGIN; UPDATE orders SET note = 'short' WHERE id = 3; UPDATE orders SET state = 'c' WHERE id = 3; COMMIT"
        )
        capture.caught_up(shop.database)
    assert len(first["note"]) == 12_800
    assert shop.fold()["1"] == {**first, "state": "paid"}
    assert shop.fold()["3"] == {**first, "id": 3, "state": "c", "note": "short"}
    assert [key for key, _ in shop.records()] == ["1", "1", "2", "2", "2", "3", "3", "3"]
    assert all(value is None or len(value["data"]) > 3000 for _, value in shop.records())


def test_a_topic_gets_its_index_of_keys_with_the_first_large_value(shop: Shop) -> None:
    shop.execute("CREATE TABLE orders (id int PRIMARY KEY, n int, note text)")
    shop.execute("ALTER TABLE orders ALTER note SET STORAGE EXTERNAL")
    shop.execute("INSERT INTO orders SELECT n, 0, 'short' FROM generate_series(1, 50) n")
    topic = f"{shop.name}.orders"

    def has_index() -> bool:
        return shop.log.describe_topic(topic).configs["mainstem.key.index"] == "true"

    with shop.capture() as capture:
        capture.caught_up(shop.database)
        assert not has_index()
        shop.execute("INSERT INTO orders VALUES (99, 0, repeat('x', 9000))")
        capture.caught_up(shop.database)
        assert has_index()
    with shop.capture() as capture:  # which remembers nothing of it
        shop.execute("UPDATE orders SET n = 1 WHERE id = 99")
        capture.caught_up(shop.database)
    assert shop.fold() == shop.rows()
    shop.execute("CREATE TABLE lines AS TABLE orders; ALTER TABLE lines ADD PRIMARY KEY (id)")
    with shop.capture("orders", "lines") as capture:
        capture.caught_up(shop.database)
    assert shop.fold("lines") == shop.rows("lines")


def test_each_kind_of_replica_identity(shop: Shop) -> None:
    shop.execute(ORDERS)
    shop.execute("ALTER TABLE orders REPLICA IDENTITY FULL, ALTER item SET STORAGE EXTERNAL")
    shop.execute(
        "CREATE TABLE by_index (a int NOT NULL, b text NOT NULL, c text); CREATE UNIQUE INDEX i ON by_index (b, a)"
    )
    shop.execute("ALTER TABLE by_index REPLICA IDENTITY USING INDEX i")
    shop.execute("INSERT INTO orders VALUES (1, repeat('y', 9000)); INSERT INTO by_index VALUES (1, 'x', 'c')")
    shop.capture_changes(
        "UPDATE orders SET tags = '[]'; UPDATE orders SET id = 5; UPDATE by_index SET c = NULL",
        "UPDATE by_index SET b = 'z\"'; DELETE FROM orders",
        tables=(
            "orders",
            "by_index",
        ),
    )
    item = "y" * 9000
    assert shop.records() == [
        ("1", {"id": 1, "item": item, "tags": None}),
        ("1", {"id": 1, "item": item, "tags": []}),
        ("1", None),
        ("5", {"id": 5, "item": item, "tags": []}),
        ("5", None),
    ]
    assert shop.records("by_index") == [
        ('["x",1]', {"a": 1, "b": "x", "c": "c"}),
        ('["x",1]', {"a": 1, "b": "x", "c": None}),
        ('["x",1]', None),
        ('["z\\"",1]', {"a": 1, "b": 'z"', "c": None}),
    ]


def test_a_partitioned_table_is_one_topic(shop: Shop) -> None:
    shop.execute("CREATE TABLE orders (id int PRIMARY KEY, item text) PARTITION BY RANGE (id)")
    shop.execute("CREATE TABLE low PARTITION OF orders FOR VALUES FROM (0) TO (10)")
    shop.execute("CREATE TABLE high PARTITION OF orders FOR VALUES FROM (10) TO (20)")
    shop.execute("INSERT INTO orders VALUES (1, 'a'), (11, 'b')")
    with shop.capture() as capture:
        capture.caught_up(shop.database)
        shop.execute("INSERT INTO orders VALUES (2, 'c'); UPDATE orders SET id = 12 WHERE id = 1")
        shop.execute(
            "CREATE TABLE top PARTITION OF orders FOR VALUES FROM (20) TO (30); INSERT INTO orders VALUES (25, 'd')"
        )
        capture.caught_up(shop.database)
        assert shop.fold() == shop.rows()
    assert set(shop.fold()) == {"2", "11", "12", "25"}


def test_columns_come_go_and_change_in_the_stream(shop: Shop) -> None:
    from mainstem.schema.topic_schemas import lookup

    shop.execute("CREATE TYPE mood AS ENUM ('good', 'bad')")
    shop.execute("CREATE TABLE orders (id int PRIMARY KEY, item text, size int, mood mood)")
    shop.execute("INSERT INTO orders VALUES (1, 'a', 7, 'good')")
    shop.capture_changes(
        "ALTER TABLE orders ADD COLUMN price numeric(10,2); UPDATE orders SET price = 1.5",
        "ALTER TABLE orders RENAME COLUMN item TO thing; INSERT INTO orders VALUES (2, 'b', 8, 'bad', 2)",
        "ALTER TABLE orders DROP COLUMN size; INSERT INTO orders VALUES (3, 'c', 'bad', 3)",
        "ALTER TYPE mood ADD VALUE 'odd'",
        "INSERT INTO orders VALUES (4, 'd', 'odd', NULL)",
        "ALTER TABLE orders ALTER price TYPE text; INSERT INTO orders VALUES (5, 'e', NULL, 'free')",
    )
    assert [value for _, value in shop.records()] == [
        {"id": 1, "item": "a", "size": 7, "mood": "good"},
        {"id": 1, "item": "a", "size": 7, "mood": "good", "price": "1.50"},
        {"id": 2, "thing": "b", "size": 8, "mood": "bad", "price": "2.00"},
        {"id": 3, "thing": "c", "mood": "bad", "price": "3.00"},
        {"id": 4, "thing": "d", "mood": "odd", "price": None},
        {"id": 5, "thing": "e", "mood": None, "price": "free"},
    ]
    registered = lookup(shop.log, f"{shop.name}.orders")
    assert registered is not None
    assert registered.key == ("id",)
    assert registered.schema.ddl_text() == "id INT NOT NULL, thing STRING, mood STRING, price STRING"


def test_a_renamed_column_of_large_values_is_read_again(shop: Shop) -> None:
    shop.execute("CREATE TABLE orders (id int PRIMARY KEY, state text, note text)")
    shop.execute("ALTER TABLE orders ALTER note SET STORAGE EXTERNAL")
    shop.execute("INSERT INTO orders SELECT n, 'new', repeat(n::text, 3000) FROM generate_series(1, 3) n")
    with shop.capture() as capture:
        capture.caught_up(shop.database)
        shop.execute("ALTER TABLE orders RENAME note TO remark; UPDATE orders SET state = 'paid' WHERE id = 2")
        capture.caught_up(shop.database)
        assert shop.fold() == shop.rows()
        shop.execute("UPDATE orders SET state = 'sent' WHERE id = 3")
        capture.caught_up(shop.database)
    assert shop.fold() == shop.rows()


def test_the_envelope_of_debezium(shop: Shop) -> None:
    shop.execute(ORDERS)
    shop.execute("ALTER TABLE orders REPLICA IDENTITY FULL")
    shop.execute("INSERT INTO orders VALUES (1, 'a', NULL)")
    with shop.capture(envelope="debezium") as capture:
        capture.caught_up(shop.database)
        shop.execute("UPDATE orders SET item = 'b'; DELETE FROM orders")
        capture.caught_up(shop.database)
    records = shop.records()
    a, b = ({"id": 1, "item": item, "tags": None} for item in "ab")
    seen = [(key, value and (value["op"], value["before"], value["after"])) for key, value in records]
    assert seen == [
        ("1", ("r", None, a)),
        ("1", ("u", a, b)),
        ("1", ("d", b, None)),
        ("1", None),
    ]
    source = records[1][1]["source"]
    assert (source["schema"], source["table"], source["snapshot"]) == ("public", "orders", "false")
    assert source["lsn"] > records[0][1]["source"]["lsn"]


def test_a_changed_key_in_the_envelope_of_debezium(shop: Shop) -> None:
    shop.execute(ORDERS)
    shop.execute("INSERT INTO orders VALUES (1, 'a', NULL)")
    with shop.capture(envelope="debezium") as capture:
        capture.caught_up(shop.database)
        seen = len(shop.records())
        shop.execute("UPDATE orders SET id = 2")
        capture.caught_up(shop.database)
    found = [(key, value and (value["op"], value["before"], value["after"])) for key, value in shop.records()[seen:]]
    assert found == [
        ("1", ("d", {"id": 1, "item": None, "tags": None}, None)),
        ("1", None),
        ("2", ("c", None, {"id": 2, "item": "a", "tags": None})),
    ]
