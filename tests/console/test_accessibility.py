"""The pages by axe-core, the rules of WCAG 2.2, in light and dark; and what the keyboard alone can reach."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from axe_playwright_python.sync_playwright import Axe

from tests.console.stage import Stage
from tests.console.test_pages import PAGES
from tests.support.eventually import eventually

if TYPE_CHECKING:
    from playwright.sync_api import Page

    from tests.console.conftest import Open

pytestmark = pytest.mark.browser

CHECKED = (*PAGES, "/console/views/con_table", "/console/views/con-search")


def violations(page: Page) -> list[str]:
    """What axe-core finds on a page: the rule, and the first element that breaks it."""
    found = Axe().run(page).response["violations"]
    return [f"{each['id']}: {each['nodes'][0]['html'][:200]}" for each in found]


def lasting_violations(page: Page) -> list[str]:
    """Those that stay when the page is complete: an editor gets its name and its colors from a script of its own."""
    page.wait_for_function("[...document.querySelectorAll('.cm-content')].every(each => each.ariaLabel)")
    try:
        eventually(lambda: not violations(page), "the page is complete", within_s=30)
    except AssertionError:
        return violations(page)
    return []


def test_axe_finds_what_is_wrong(open_at: Open) -> None:
    page = open_at("/console/views")
    page.evaluate("document.querySelector('h1').insertAdjacentHTML('afterend', '<img src=x><button></button>')")
    wrong = ["button-name", "image-alt"]
    eventually(lambda: [each.partition(":")[0] for each in violations(page)] == wrong, "the page is complete")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_page_fits_a_phone_follows_the_system_and_axe_finds_nothing(
    open_at: Open, stage: Stage, scheme: str
) -> None:
    page = open_at("/", color_scheme=scheme)
    for path in CHECKED[scheme == "dark" :: 2]:  # each page in one of both: its parts are shared
        page.set_viewport_size({"width": 390, "height": 800})
        page.goto(stage.url + path)
        page.locator("h1").wait_for()
        page.wait_for_function("window.did_handshake")
        page.wait_for_function(f"document.body.classList.contains('body--{scheme}')")
        assert page.evaluate("document.documentElement.scrollWidth") <= 390, path
        page.set_viewport_size({"width": 1280, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth") <= 1280, path
        assert lasting_violations(page) == [], path


def test_the_palette_finds_a_page_by_a_part_of_its_name(open_at: Open) -> None:
    from playwright.sync_api import expect

    page = open_at("/console/config")
    page.keyboard.press("Control+k")
    page.get_by_role("combobox", name="Go to a page").fill("view table")
    expect(page.get_by_role("option").first).to_have_text("con_table View")
    assert lasting_violations(page) == []
    page.keyboard.press("Enter")
    expect(page).to_have_title("View con_table · Mainstem")
    page.wait_for_function("window.did_handshake")
    page.keyboard.press("Control+k")
    page.get_by_role("combobox", name="Go to a page").fill("subject item")
    expect(page.get_by_role("option")).to_have_text(["con-item Subject"])
    page.keyboard.press("Enter")
    expect(page).to_have_title("Subject con-item · Mainstem")


def test_keys_lead_to_sections_and_to_the_search(open_at: Open) -> None:
    from playwright.sync_api import expect

    page = open_at("/console/config")
    page.keyboard.press("g")
    page.keyboard.press("t")
    expect(page).to_have_title("Topics · Mainstem")
    page.wait_for_function("window.did_handshake")
    page.keyboard.press("/")
    field = page.get_by_label("Find a topic")
    expect(field).to_be_focused()
    page.keyboard.type("/gt")  # in a field, keys are text
    expect(field).to_have_value("/gt")
