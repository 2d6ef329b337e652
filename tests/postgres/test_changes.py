"""Every kind of change of a table is in its topic, once, in the order of commits."""

from __future__ import annotations

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
