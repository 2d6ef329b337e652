"""Tables and publications whose snapshot or stream would lack rows without a word, or that break the application."""

from __future__ import annotations

import pytest

from mainstem.errors import ConfigError
from mainstem.postgres.rows import fields_of
from tests.postgres.conftest import Shop
from tests.support.postgres import PostgresCluster

ORDERS = "CREATE TABLE orders (id int PRIMARY KEY, state text)"


def test_a_key_that_is_deferrable_is_refused(shop: Shop) -> None:
    shop.execute(
        "CREATE TABLE orders (id int PRIMARY KEY DEFERRABLE, state text); INSERT INTO orders VALUES (1, 'new')"
    )
    with shop.capture() as capture:
        error = capture.failed()
    assert isinstance(error, ConfigError)
    assert "DEFERRABLE" in str(error)
    shop.execute("UPDATE orders SET state = 'paid'")  # the application goes on


@pytest.mark.parametrize(
    "publication",
    [
        "FOR TABLE orders",  # a partition's changes would come as those of the partition
        "FOR TABLE orders WITH (publish = 'insert', publish_via_partition_root = true)",
        "FOR TABLE orders WHERE (id < 2) WITH (publish_via_partition_root = true)",
        "FOR TABLE orders (id) WITH (publish_via_partition_root = true)",
    ],
)
def test_a_publication_that_leaves_changes_out_is_mended(
    shop: Shop, postgres_cluster: PostgresCluster, publication: str
) -> None:
    shop.execute("CREATE TABLE orders (id int PRIMARY KEY, state text) PARTITION BY RANGE (id)")
    shop.execute("CREATE TABLE low PARTITION OF orders FOR VALUES FROM (0) TO (100)")
    if postgres_cluster.execute("SHOW server_version_num")[0][0] < "150000" and ("WHERE" in publication):
        pytest.skip("publications have filters from PostgreSQL 15 on")
    shop.execute(f'CREATE PUBLICATION "{shop.settings().slot}" {publication}')
    shop.capture_changes(
        "INSERT INTO orders VALUES (1, 'new'), (2, 'new'), (3, 'new')",
        "UPDATE orders SET state = 'paid' WHERE id = 2",
        "DELETE FROM orders WHERE id = 3",
    )
    assert shop.fold() == shop.rows()


def test_tables_that_inherit_are_not_captured_with_their_parent(shop: Shop) -> None:
    shop.execute(f"{ORDERS}; CREATE TABLE old_orders () INHERITS (orders)")
    shop.execute("INSERT INTO orders VALUES (1, 'new'); INSERT INTO old_orders VALUES (2, 'old')")
    with shop.capture() as capture:
        capture.caught_up(shop.database)
        shop.execute("UPDATE old_orders SET state = 'gone'")  # it has no key: published, this would fail
        shop.execute("UPDATE ONLY orders SET state = 'paid'")
        capture.caught_up(shop.database)
    assert shop.fold() == {"1": {"id": 1, "state": "paid"}}


def test_rows_that_the_user_may_not_see_are_an_error(shop: Shop, postgres_cluster: PostgresCluster) -> None:
    shop.execute(f"{ORDERS}; INSERT INTO orders VALUES (1, 'new'), (2, 'hidden')")
    shop.execute("ALTER TABLE orders ENABLE ROW LEVEL SECURITY")
    user = f"reader_{shop.database.name}"
    shop.execute(f"CREATE ROLE {user} LOGIN REPLICATION")
    shop.execute(f"GRANT SELECT ON orders TO {user}; CREATE POLICY visible ON orders USING (state <> 'hidden')")
    settings = shop.settings()
    shop.execute(f'CREATE PUBLICATION "{settings.slot}" FOR TABLE orders WITH (publish_via_partition_root = true)')
    from mainstem.pipelines.definitions import CaptureSettings
    from tests.postgres.conftest import RunningCapture

    own = CaptureSettings.of(shop.name, postgres_cluster.dsn(shop.database.name, user), ("orders",))
    try:
        with RunningCapture(shop.log, own) as capture:
            error = capture.failed()
        assert isinstance(error, ConfigError)
        assert "row-level security" in str(error)
    finally:
        shop.execute(f"DROP OWNED BY {user}; DROP ROLE {user}")


def test_json_is_taken_over_with_its_blanks_and_long_numbers(shop: Shop) -> None:
    shop.execute("CREATE TABLE orders (id int PRIMARY KEY, state text, note text, a json, b jsonb)")
    shop.execute("ALTER TABLE orders ALTER note SET STORAGE EXTERNAL")
    shop.execute(
        "INSERT INTO orders VALUES (1, 'new', repeat('a', 9000), E' \\n{\"x\": 1} \\t', repeat('7', 5000)::jsonb)"
    )
    shop.capture_changes("UPDATE orders SET state = 'paid'")
    found = [record.value or b"" for record in shop.log.read(f"{shop.name}.orders")]
    assert len(found) == 2
    assert fields_of(found[1].decode()) == {**fields_of(found[0].decode()), "state": '"paid"'}


def test_a_large_value_outlives_the_new_name_of_its_column(shop: Shop) -> None:
    shop.execute("CREATE TABLE orders (id int PRIMARY KEY, state text, note text)")
    shop.execute("ALTER TABLE orders ALTER note SET STORAGE EXTERNAL")
    shop.execute("INSERT INTO orders SELECT n, 'new', repeat('a', 9000) FROM generate_series(1, 3) n")
    shop.capture_changes(
        "ALTER TABLE orders RENAME note TO text",
        "UPDATE orders SET state = 'paid' WHERE id = 2",
        "UPDATE orders SET id = -3 WHERE id = 3",
    )
    assert {key: value for key, value in shop.fold().items() if key != "1"} == {
        key: value for key, value in shop.rows().items() if key != "1"
    }
