"""A record that a view could not use is found, mended, appended again and marked, all in the console."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

import pytest

from mainstem.client.dead_letter_headers import view_topic
from tests.console.stage import Stage

if TYPE_CHECKING:
    from playwright.sync_api import Page

    from tests.console.conftest import Open

pytestmark = pytest.mark.browser
LETTERS = view_topic("con-flights", "con-dots")


def poison(stage: Stage, key: str) -> None:
    """Append what the view con-dots cannot use, and wait until it is a dead letter."""
    position = stage.log.append("con-dots", '{"id": "mended"', key=key, headers={"trace": "t1"})
    stage.host.wait("con-dots", lambda status: status.position.covers(position), 60)


def shot(page: Page, name: str) -> None:
    if "SHOTS" in os.environ:
        page.screenshot(path=f"{os.environ['SHOTS']}/{name}.png", full_page=True)


def test_a_dead_letter_is_mended_appended_again_and_marked(open_at: Open, stage: Stage) -> None:
    from playwright.sync_api import expect

    poison(stage, "broken")
    page = open_at("/console/views/con-dots")
    shot(page, "view")
    page.get_by_role("link", name=re.compile("new dead letter")).click()
    reason = page.get_by_text("the value is not JSON", exact=False).first
    reason.click()
    row = page.locator(".letter").filter(has_text="broken")
    shot(page, "group")
    row.locator("summary").click()
    expect(row.get_by_role("link", name="con-dots/0:", exact=False).first).to_be_visible()
    shot(page, "letter")
    row.get_by_role("button", name="Fix and append again").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_label("Key (empty: none)")).to_have_value("broken")
    expect(dialog.get_by_label("Its value")).to_have_value("t1")
    dialog.get_by_text("Partition, time, conditions").click()
    expect(dialog.get_by_label("Idempotency key")).to_have_value(re.compile(f"dead-letter/{re.escape(LETTERS)}/0:"))
    shot(page, "dialog")
    dialog.get_by_label("Value: JSON, or text").fill('{"id": "broken"}')
    dialog.get_by_role("button", name="Append", exact=True).click()
    expect(dialog.get_by_text("Appended and on disk")).to_be_visible()
    shot(page, "appended")
    dialog.get_by_role("button", name="Close").click()
    expect(row).to_have_count(0)
    [_, mended] = stage.log.read_key("con-dots", "broken")
    assert mended.value == b'{"id":"broken"}'
    assert ("trace", b"t1") in mended.headers


def test_all_letters_of_a_reason_are_marked_and_shown_again(open_at: Open, stage: Stage) -> None:
    from playwright.sync_api import expect

    poison(stage, "worse")
    page = open_at("/console/dead-letters", 390)
    page.locator(".letter-group summary").first.click()
    page.locator(".letter").filter(has_text="worse").wait_for()
    shot(page, "phone")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.get_by_role("button", name="Mark all as handled").click()
    expect(page.get_by_text("No new dead letters here")).to_be_visible()
    page.get_by_text("Handled ones, too").click()
    page.locator(".letter").filter(has_text="worse").locator("summary").click()
    page.get_by_role("button", name="Mark as new again").first.click()
    expect(page.locator(".new-count").first).to_have_text("1 new")


def test_a_shown_record_is_copied_checked_and_appended_with_a_condition(open_at: Open, stage: Stage) -> None:
    from playwright.sync_api import expect

    stage.log.append("con-dots", {"id": "copied"}, key="copied", headers={"trace": "t2"})
    page = open_at("/console/topics/con-dots")
    page.get_by_label("Records", exact=True).get_by_role("listitem").filter(has_text="copied").first.click()
    page.get_by_role("button", name="Copy to the append form").click()
    expect(page.get_by_label("Key (empty: none)")).to_have_value("copied")
    expect(page.get_by_label("Its value")).to_have_value("t2")
    page.get_by_label("Value: JSON, or text").fill('{"id": null}')
    page.get_by_role("button", name="Check").click()
    expect(page.get_by_text("the schema says NOT NULL")).to_be_visible()
    page.get_by_role("button", name="Fill example").click()
    page.get_by_role("button", name="Check").click()
    expect(page.get_by_text("fits the topic's schema")).to_be_visible()
    shot(page, "form")


def test_a_file_is_appended_when_all_its_lines_fit(open_at: Open, stage: Stage) -> None:
    from playwright.sync_api import expect

    page = open_at("/console/topics/con-dots")
    page.get_by_text("Append a record").click()
    page.get_by_text("Append a file").click()
    page.get_by_label("Key made of").fill("id")
    for text, said in (
        ('{"id": "f1"}\n{"id": 2', "line 2 is not JSON"),
        ('{"id": "f1"}\n{"id": null}', "line 2 has no"),
    ):
        page.get_by_label("File", exact=True).set_input_files(
            {"name": "dots.jsonl", "mimeType": "application/x-ndjson", "buffer": text.encode()}
        )
        page.get_by_role("button", name="Append the file").click()
        expect(page.get_by_text(said)).to_be_visible()
    page.get_by_label("File", exact=True).set_input_files(
        {"name": "dots.csv", "mimeType": "text/csv", "buffer": b"id\nf1\nf2\n"}
    )
    page.get_by_role("button", name="Append the file").click()
    expect(page.get_by_text("2 records of dots.csv are appended")).to_be_visible()
    assert [record.value for record in stage.log.read_key("con-dots", "f2")] == [b'{"id":"f2"}']


def test_records_are_searched_by_fields(open_at: Open) -> None:
    from playwright.sync_api import expect

    page = open_at("/console/topics/con-flights")
    page.get_by_text("Search in keys, values and headers").click()
    page.get_by_label("Where, e.g.").fill("carrier = 'B6' AND delay > 45")
    page.get_by_role("button", name="Search", exact=True).click()
    expect(page.get_by_text("at the end", exact=False).first).to_be_visible()
    rows = page.get_by_label("Records", exact=True).get_by_role("listitem")
    expect(rows.first).to_contain_text("B6")
    shot(page, "search")
    with page.expect_download() as download:
        page.get_by_role("button", name="Download").click()
    assert download.value.suggested_filename == "con-flights.jsonl"
