"""The board of the examples: two browsers in step."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from examples import board
from mainstem.gateway.access.limits import GatewayLimits
from tests.examples.serving import serving

if TYPE_CHECKING:
    from playwright.sync_api import Page

    from tests.support.browser import NewPage


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where the page is, and which gateway it talks to."""
    with board.page_server(0) as pages:
        thread = threading.Thread(target=pages.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        origin = f"http://127.0.0.1:{pages.server_port}"
        limits = GatewayLimits(origins=frozenset({origin}))
        try:
            with serving(board.app, tmp_path_factory.mktemp("board"), limits) as (_, gateway):
                yield f"{origin}/?gateway={gateway}"
        finally:
            pages.shutdown()
            thread.join(20)


@pytest.fixture
def two(new_page: NewPage, url: str) -> tuple[Page, Page]:
    """Two browsers that look at the board."""
    from playwright.sync_api import expect

    pages = new_page(), new_page(viewport={"width": 900, "height": 700})
    for page in pages:
        page.goto(url)
        expect(page.locator("#count")).to_contain_text("note")
    return pages


def test_what_one_browser_does_the_other_shows(two: tuple[Page, Page]) -> None:
    from playwright.sync_api import expect

    one, other = two
    one.locator("#board").click(position={"x": 300, "y": 200})
    expect(other.locator(".note")).to_have_count(1)
    one.locator(".note p").fill("buy milk")
    expect(other.locator(".note p")).to_have_text("buy milk")

    note = one.locator(".note")
    box = note.bounding_box()
    assert box is not None
    one.mouse.move(box["x"] + 20, box["y"] + 10)
    one.mouse.down()
    one.mouse.move(box["x"] + 120, box["y"] + 60, steps=10)
    one.mouse.up()
    for page in two:  # what came before the last move may place the note back for a moment
        expect(page.locator(".note")).to_have_css("left", "310px")

    other.get_by_role("button", name="Remove").click()
    expect(one.locator(".note")).to_have_count(0)
