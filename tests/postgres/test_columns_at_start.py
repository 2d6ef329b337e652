"""The columns of a table are its topic's schema when the capture is ready, also of a table without a row."""

from __future__ import annotations

import pytest

from mainstem.postgres.connector import Connector
from mainstem.postgres.process import tell
from mainstem.schema.topic_schemas import SCHEMAS_TOPIC, RegisteredSchema, lookup
from mainstem.schema.types import ENCODINGS
from tests.postgres.conftest import TIMEOUT_S, RunningConnector, Shop

PRODUCTS = "CREATE TABLE products (sku text PRIMARY KEY, price numeric(10,2), sizes int[])"
DDL = "sku STRING NOT NULL, price DECIMAL(10,2), sizes ARRAY<INT>"


def registered(shop: Shop, table: str = "products") -> RegisteredSchema:
    found = lookup(shop.log, f"{shop.name}.{table}")
    assert found is not None
    return found


@pytest.mark.parametrize("encoding", [None, *ENCODINGS])
def test_the_columns_of_an_empty_table_are_registered_before_it_is_ready(shop: Shop, encoding: str | None) -> None:
    shop.execute(PRODUCTS)
    with shop.capture("products", encoding=encoding) as capture:
        assert capture.ready.wait(TIMEOUT_S)
        at_start = registered(shop)
        shop.execute("INSERT INTO products VALUES ('a', 1.5, '{1,2}')")
        capture.caught_up(shop.database)
    assert at_start.schema.ddl_text() == DDL + ", _postgres STRING" * (encoding is not None)
    assert at_start.key == ("sku",)
    assert at_start.encoding == encoding
    assert registered(shop) == at_start  # the first row has the same columns


def test_changes_in_an_envelope_have_no_columns(shop: Shop) -> None:
    shop.execute(PRODUCTS)
    with shop.capture("products", envelope="debezium") as capture:
        assert capture.ready.wait(TIMEOUT_S)
    assert lookup(shop.log, f"{shop.name}.products") is None


def test_a_table_that_is_added_later_has_its_columns_before_the_capture_is_ready(shop: Shop) -> None:
    shop.execute(f"CREATE TABLE orders (id int PRIMARY KEY); {PRODUCTS}")
    with shop.capture("orders") as capture:
        capture.caught_up(shop.database)
    found: list[RegisteredSchema | None] = []
    connector = Connector(shop.settings("orders", "products"), shop.log, tell)

    def look() -> None:
        found.append(lookup(shop.log, f"{shop.name}.products"))
        connector.stop()

    connector.run(look)
    [products] = found
    assert products is not None
    assert products.schema.ddl_text() == DDL


def test_a_capture_of_an_older_version_gets_the_columns_that_it_lacks(shop: Shop) -> None:
    shop.execute(PRODUCTS)
    with shop.capture("products") as capture:
        capture.caught_up(shop.database)
    shop.log.append(SCHEMAS_TOPIC, None, key=f"{shop.name}.products")
    with RunningConnector(shop, shop.settings("products")) as connector:
        assert connector.is_ready.wait(TIMEOUT_S)
        assert registered(shop).schema.ddl_text() == DDL


def test_a_table_that_was_recreated_empty_has_its_new_columns(shop: Shop) -> None:
    shop.execute(PRODUCTS)
    with shop.capture("products") as capture:
        capture.caught_up(shop.database)
    shop.execute("DROP TABLE products; CREATE TABLE products (sku text PRIMARY KEY, size int)")
    with shop.capture("products") as capture:
        assert capture.ready.wait(TIMEOUT_S)
        assert registered(shop).schema.ddl_text() == "sku STRING NOT NULL, size INT"


def test_changes_that_waited_come_with_the_columns_that_they_had(shop: Shop) -> None:
    shop.execute(PRODUCTS)
    with shop.capture("products") as capture:
        capture.caught_up(shop.database)
    shop.execute("INSERT INTO products VALUES ('a', 1.5, '{}')")
    shop.execute("ALTER TABLE products DROP COLUMN sizes; INSERT INTO products VALUES ('b', 2)")
    with shop.capture("products") as capture:
        capture.caught_up(shop.database)
    now = registered(shop)
    assert now.schema.names == ("sku", "price")
    assert now.version == 2  # never back to the columns of before
