"""The page with a record's journey, in Chromium: reached from the record, with the pipelines and views on its way."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.console.conftest import Open

pytestmark = pytest.mark.browser


def test_a_record_leads_to_its_journey_and_that_to_its_views(open_at: Open) -> None:
    page = open_at("/console/topics/con-flights")
    page.get_by_label("Key", exact=True).fill("F0042")
    page.get_by_role("button", name="Show", exact=True).click()
    page.get_by_role("listitem").filter(has_text="F0042").locator("summary").click()
    page.get_by_role("link", name="Journey").click()
    journey = page.get_by_role("list", name="Journey")
    journey.get_by_text("with key 'F0042'").wait_for()
    journey.get_by_text("pipeline con-count has read it from con-flights").wait_for()
    journey.get_by_text("view con-by-key has applied con-flights/").wait_for()
    assert "mainstem why con-flights/" in page.content()
    journey.get_by_role("link", name="Show con-by-key").click()
    page.wait_for_url("**/console/views/con-by-key")


def test_a_record_that_is_not_written_says_what_it_waits_for(open_at: Open) -> None:
    page = open_at("/console/topics/con-flights/records/0/99999")
    page.get_by_text("is not written yet").wait_for()
    page.get_by_text("It waits:").wait_for()
