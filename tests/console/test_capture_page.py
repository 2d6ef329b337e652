"""The page of a capture: a real PostgreSQL's slot, its tables and their snapshots."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from mainstem.postgres.requests import drop_capture
from tests.console.stage import Stage
from tests.postgres.conftest import TIMEOUT_S, RunningConnector, Shop
from tests.support.eventually import eventually
from tests.support.postgres import PostgresDatabase

if TYPE_CHECKING:
    from tests.console.conftest import Open


@pytest.mark.browser
def test_a_captures_page_shows_its_slot_tables_and_snapshots(
    open_at: Open, stage: Stage, postgres_database: PostgresDatabase
) -> None:
    from playwright.sync_api import expect

    shop = Shop(stage.log, postgres_database, "con-shop")
    shop.execute("CREATE TABLE orders (id int PRIMARY KEY, item text)")
    shop.execute("INSERT INTO orders SELECT n, 'x' FROM generate_series(1, 30) n")
    with RunningConnector(shop) as running:
        assert running.is_ready.wait(TIMEOUT_S)
        eventually(lambda: shop.fold() == shop.rows(), "the topic is the table", TIMEOUT_S)
        page = open_at("/console/pipelines/con-shop")
        facts = page.locator("dl.facts")
        for fact in ("mainstem_con_shop, reserved", "1 of 1 tables done", "public.orders (30 rows in its snapshot)"):
            expect(facts).to_contain_text(fact)
        expect(facts.locator("dt", has_text="Database's log behind").locator("+ dd")).to_contain_text("KiB")
        expect(facts.locator("dt", has_text="Database captured up to").locator("+ dd")).to_contain_text("0/")
        expect(page.locator(".state").first).to_have_text("running")
        expect(page.get_by_role("link", name="con-shop.orders")).to_be_visible()
        expect(page.get_by_role("button", name="Change", exact=True)).to_be_hidden()
        page.goto(f"{stage.url}/?search=con-shop")
        page.get_by_role("link", name="PostgreSQL con-shop").wait_for()
    page.goto(f"{stage.url}/console/pipelines/con-shop")
    expect(page.locator(".state").first).to_have_text("stopped")
    assert drop_capture(shop.settings(), stage.log)
