"""The example of a shop, run whole: PostgreSQL, the App by its command, and the page in a browser."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from examples import shop as example
from mainstem.client.http.views import views
from mainstem.model import Position
from tests.house.pages import ROOT, blocks_of, lines_of_shell
from tests.support.postgres import PostgresDatabase

if TYPE_CHECKING:
    from tests.support.browser import NewPage

TIMEOUT_S = 120
START, WHERE = (block for block in blocks_of(ROOT / "docs/examples/shop.md") if block.mark == "node")
"""The blocks of the page: what starts it, and the query for the database's position."""


@contextmanager
def page_of(dsn: str) -> Iterator[str]:
    with example.page_server(0, dsn) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join(20)


@contextmanager
def running(data: Path, dsn: str, origin: str) -> Iterator[str]:
    """Run the page's commands with other addresses; stop the App as ctrl-C does. Yields the gateway's address."""
    _, _, prepare, run = lines_of_shell(START.text)
    environment = {**os.environ, "SHOP_DSN": dsn}
    subprocess.run([sys.executable, *prepare.split()[1:]], cwd=ROOT, env=environment, check=True, timeout=TIMEOUT_S)
    options = run.replace("http://127.0.0.1:8000", origin).split()[1:]
    argv = [sys.executable, "-m", "mainstem.cli.main", *options, "--json", "--data", str(data)]
    argv += ["--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--no-console"]
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, env=environment, cwd=ROOT)
    try:
        assert process.stdout is not None
        yield json.loads(process.stdout.readline())["ready"]["http"]
    finally:
        process.terminate()
        process.communicate(timeout=TIMEOUT_S)


@pytest.mark.timeout(400)
def test_an_order_is_found_where_it_is_read(
    postgres_database: PostgresDatabase, tmp_path: Path, new_page: NewPage
) -> None:
    from playwright.sync_api import expect

    dsn = postgres_database.dsn
    with page_of(dsn) as origin, running(tmp_path, dsn, origin) as http:
        start = Position.parse(
            example.place_order(dsn, {"customer": "Lin", "product": "kettle", "quantity": 2})["position"]
        )
        [row] = views(http)["order_lines"].get("4", at_least=start, timeout=TIMEOUT_S).rows
        assert (row["customer"], row["product"], row["amount"]) == ("Lin", "kettle", "78.00")

        # The page asks once when it opens, so the view has to have all orders by then.
        [(where,)] = postgres_database.execute(WHERE.text)
        assert len(views(http)["find"].search("*", at_least=f"pg:{where}", timeout=TIMEOUT_S).rows) == 4

        page = new_page()
        page.goto(f"{origin}/?gateway=http://{http}")
        expect(page.locator("#hits tr")).to_have_count(4)
        page.get_by_label("Customer").fill("Barbara")
        page.get_by_label("Product").select_option("tea cup")
        page.get_by_label("Quantity").fill("3")
        page.get_by_role("button", name="Order").click()
        expect(page.locator("#done")).to_contain_text("Order 5 is written at pg:")
        expect(page.locator("#hits tr.own")).to_have_text("Barbaratea cup319.50open")
        stored = postgres_database.execute(
            "SELECT customer, product, quantity, amount::text FROM order_lines WHERE id = 5"
        )
        assert stored == [("Barbara", "tea cup", 3, "19.50")]

        postgres_database.execute("UPDATE orders SET state = 'paid' WHERE id = 5")
        lsn = postgres_database.execute("SELECT pg_current_wal_lsn()::text")[0][0]
        found = views(http)["find"].search("Barbara", at_least=Position.parse(f"pg:{lsn}"), timeout=TIMEOUT_S).rows
        assert [(row["id"], row["state"]) for row in found] == [(5, "paid")]

        page.get_by_label("Quantity").fill("2000")
        page.get_by_role("button", name="Order").click()
        expect(page.locator("#done.wrong")).to_contain_text("violates check constraint")


def test_an_order_of_an_unknown_product_is_refused(postgres_database: PostgresDatabase) -> None:
    example.prepare(postgres_database.dsn)
    with pytest.raises(ValueError, match="no product 'tee'"):
        example.place_order(postgres_database.dsn, {"customer": "Ada", "product": "tee", "quantity": 1})
