"""A search of the console runs as long as its page looks at it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import httpx
import pytest

from tests.console.stage import Stage
from tests.support.eventually import eventually

if TYPE_CHECKING:
    from playwright.sync_api import Page

    from tests.console.conftest import Open

TOPIC = "con-long"
RECORDS = 50_000
VALUE = b'{"n":1,"m":[' + b",".join([b"{}"] * 1_500) + b"]}"  # quickly written, and slowly parsed
ENDS_S = 12.0  # a search of the whole topic takes twice as long, or more


@pytest.fixture(scope="module")
def long_topic(stage: Stage) -> Iterator[None]:
    stage.log.create_topic(TOPIC, partitions=1)
    stage.log.append_many(TOPIC, ((None, VALUE) for _ in range(RECORDS)))
    yield
    stage.log.delete_topic(TOPIC)


def others(stage: Stage) -> int:
    """How many searches run besides the one that asks."""
    answer = httpx.get(f"{stage.url}/topics/con-dots/search", params={"text": "x", "timeout": 0}, timeout=60)
    return int(answer.headers["mainstem-searches-running"]) - 1


def begin(page: Page, stage: Stage) -> None:
    from playwright.sync_api import expect

    page.get_by_text("Search in keys, values and headers").click()
    page.get_by_label("Where, e.g.", exact=False).fill("n = 2")
    page.get_by_role("button", name="Search", exact=True).click()
    expect(page.get_by_role("button", name="Stop")).to_be_visible()
    eventually(lambda: others(stage) == 1, "the search runs")


def ends(stage: Stage) -> None:
    # Between two steps of a search none runs for some milliseconds, so one look is not enough.
    eventually(lambda: not any(others(stage) for _ in range(30)), "the search has ended", within_s=ENDS_S)


@pytest.mark.browser
@pytest.mark.usefixtures("long_topic")
def test_a_search_ends_when_its_page_is_left(open_at: Open, stage: Stage) -> None:
    page = open_at(f"/console/topics/{TOPIC}", 390)
    begin(page, stage)
    page.goto(f"{stage.url}/console/config")
    ends(stage)


@pytest.mark.browser
@pytest.mark.usefixtures("long_topic")
def test_a_page_has_one_search_and_stop_ends_it(open_at: Open, stage: Stage) -> None:
    from playwright.sync_api import expect

    page = open_at(f"/console/topics/{TOPIC}")
    begin(page, stage)
    page.get_by_label("Where, e.g.", exact=False).fill("n = 3")
    page.get_by_role("button", name="Search", exact=True).click()
    eventually(lambda: others(stage) == 1, "the second search runs")
    assert max(others(stage) for _ in range(30)) == 1
    page.get_by_role("button", name="Stop").click()
    ends(stage)
    expect(page.get_by_role("button", name="Load more")).to_be_visible()
    code = page.locator(".requests code", has_text=f"/topics/{TOPIC}/search").first
    expect(code).not_to_contain_text("client=")
