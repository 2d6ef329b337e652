"""The page of a sink: what it shows while the table is kept in step, while its database is locked, and after."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

import pytest

from tests.console.stage import Stage, flight
from tests.support.eventually import eventually

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

    from tests.console.conftest import Open

pytestmark = pytest.mark.browser


@contextmanager
def locked(stage: Stage) -> Iterator[None]:
    """The sink's database, locked by another program."""
    with closing(sqlite3.connect(stage.sink, isolation_level=None, timeout=60)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield


def lag_of(page: Page) -> Locator:
    """The figure of the lag."""
    return page.locator(".figure", has_text="Lag").locator(".figure-value")


def look_of(chip: Locator) -> list[str]:
    """The colour and the sign of a state. An element that a refresh has just replaced has none, so it asks again."""
    script = "element => [getComputedStyle(element).color, getComputedStyle(element, '::before').content]"
    return eventually(lambda: all(look := chip.evaluate(script)) and look, "the state has a colour and a sign")


def test_a_sink_that_waits_says_for_what_and_how_far_it_is_behind(open_at: Open, stage: Stage) -> None:
    from playwright.sync_api import expect

    page = open_at("/console/views/con_sink")
    expect(page.get_by_text(f"con_sink in {stage.sink}", exact=True)).to_be_visible()
    expect(page.locator("[data-state=live]")).to_be_visible()
    rows = [(f"F{n:04d}", flight(n)) for n in range(3)]
    with locked(stage):
        stage.log.append_many("con-flights", rows)
        waiting = page.locator("[data-state=waiting]")
        expect(waiting).to_be_visible(timeout=30_000)
        expect(page.get_by_text(f"for the database at {stage.sink}: database is locked")).to_be_visible()
        expect(lag_of(page)).to_have_text("3", timeout=30_000)
        look = look_of(waiting)
        page.goto(stage.url + "/console/views")
        expect(page.locator("[data-state=waiting]")).to_be_visible(timeout=30_000)
        assert look_of(page.locator("[data-state=waiting]")) == look
        assert look_of(page.locator("[data-state=live]").first)[0] != look[0]
    page.goto(stage.url + "/console/views/con_sink")
    expect(page.locator("[data-state=live]")).to_be_visible(timeout=30_000)
    expect(lag_of(page)).to_have_text("0")


def test_a_sinks_form_asks_for_now_only(open_at: Open) -> None:
    from playwright.sync_api import expect

    page = open_at("/console/views/con_sink")
    expect(page.get_by_label("At least (a position)")).to_be_visible()
    expect(page.get_by_label("As of (a position or a time)")).to_have_count(0)


def test_a_row_changed_by_hand_is_shown_by_what_differs_and_a_dead_letter_is_linked(
    open_at: Open, stage: Stage
) -> None:
    from playwright.sync_api import expect

    page = open_at("/console/views/con_sink")
    expect(page.locator(".figure", has_text="Dead letters").locator("a[href]")).to_have_count(0)
    stage.log.append("con-flights", flight(0), key="another key")
    letters = page.locator(".figure", has_text="Dead letters").locator("a[href]")
    expect(letters).to_have_text("1", timeout=30_000)
    with closing(sqlite3.connect(stage.sink, timeout=60)) as database, database:
        database.execute("UPDATE con_sink SET carrier = 'XX' WHERE flight = 'F0007'")
    page.get_by_role("button", name="Verify").click()
    expect(page.get_by_role("cell", name='{"carrier": "XX"}')).to_be_visible(timeout=60_000)
    expect(page.get_by_role("cell", name='{"carrier": "B6"}')).to_be_visible()
    expect(page.get_by_role("alert").filter(has_text="what the log says")).to_be_visible()
    expect(page.get_by_text("This view has drifted from the log")).to_be_hidden()
    page.get_by_role("button", name="Rebuild …").click()
    page.get_by_role("button", name="Rebuild", exact=True).click()
    expect(page.get_by_text("Rebuilt from")).to_be_visible(timeout=60_000)
    letters.click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("con_sink")
