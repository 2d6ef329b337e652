"""The browser that the tests drive: pages that know nothing of each other, and a thread that stays usable."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Page

    from tests.support.browser import NewPage

pytestmark = pytest.mark.browser


def test_a_page_shows_what_it_is_given(page: Page) -> None:
    from playwright.sync_api import expect

    page.set_content("<h1>Mainstem</h1>")
    expect(page.get_by_role("heading", name="Mainstem")).to_be_visible()


def test_pages_of_one_test_are_wide_as_asked(new_page: NewPage) -> None:
    pages = [new_page(viewport={"width": width, "height": 700}) for width in (390, 1280)]
    assert [page.evaluate("innerWidth") for page in pages] == [390, 1280]


def test_the_thread_runs_coroutines_when_no_page_is_open() -> None:
    async def nothing() -> str:
        return "ran"

    assert asyncio.run(nothing()) == "ran"
