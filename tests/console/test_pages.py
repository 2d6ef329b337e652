"""Each page of the console in Chromium, over a real log and real views."""

from __future__ import annotations

import re
import subprocess
import threading
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from mainstem.console.records.record_pages import PAGE_RECORDS
from mainstem.testing.embedded import EmbeddedBroker
from mainstem.views.host.view import HostedView
from tests.console.stage import FLIGHTS, Stage, gateway

if TYPE_CHECKING:
    from playwright.sync_api import Page, WebSocketRoute

    from tests.console.conftest import Open
    from tests.support.browser import NewPage

pytestmark = pytest.mark.browser

ANSWERED = re.compile(r"^[\d,]+ rows? in .*as of$")
PAGES = (
    "/",
    "/console/topics",
    "/console/topics/con-flights",
    *(f"/console/topics/con-flights?tab={tab}" for tab in ("partitions", "consumers", "schema", "configs", "about")),
    "/console/topics/con-flights/records/0/1",
    "/console/pipelines",
    "/console/pipelines/con-count",
    "/console/views",
    "/console/views/con-by-key",
    "/console/sql",
    "/console/schemas",
    "/console/schemas/con-orders-value",
    "/console/groups",
    "/console/clients",
    "/console/access",
    "/console/access?tab=tokens",
    "/console/history",
    "/console/problems",
    "/console/config",
    "/console/dead-letters",
)
SHARES_OF_FLOW = """place => {
    const svg = place.querySelector("svg"), whole = parseFloat(svg.style.getPropertyValue("--width"));
    place.style.flex = "none";
    return [1.2, 0.8, 0.5].map(share => {
        place.style.width = `${share * whole}px`;
        return svg.getBoundingClientRect().width / whole;
    });
}"""
"""The picture's width as a share of its full one, in places that are wider, narrower, and much narrower."""


PLACE_OF_NODE = """async ([label, center, name]) => {
    let place, chart, data;
    while (true) {
        place = document.querySelector(`[role=img][aria-label^="${label}"]`);
        chart = place && getElement(Number(place.id.slice(1)))?.chart;
        data = chart?.getModel()?.getSeriesByIndex(0)?.getData();
        if (data?.getName(0) === center) break;
        await new Promise(requestAnimationFrame);
    }
    const graphic = data.getItemGraphicEl(data.indexOfName(name));
    const point = graphic.transformCoordToGlobal(0, 0);
    return [point[0], point[1]];
}"""
"""Where a node of a graph is drawn, once the graph around a center is the one that is shown."""


def see(page: Page, text: str) -> None:
    from playwright.sync_api import expect

    expect(page.get_by_text(text, exact=False).first).to_be_visible()


def test_the_flow_shows_topics_pipelines_and_views_and_leads_to_them(open_at: Open) -> None:
    page = open_at("/")
    see(page, f"{FLIGHTS} offsets")
    see(page, "lag 0")
    page.get_by_role("link", name="pipeline con-count").click()
    page.get_by_role("link", name="Open the pipeline").click()
    see(page, "Micro-batches")


def test_the_flow_says_that_nothing_matches(open_at: Open) -> None:
    see(open_at("/?search=no-such-name"), "Nothing has that in its name")


def test_the_flow_of_an_empty_log_says_how_to_fill_it(new_page: NewPage) -> None:
    with EmbeddedBroker() as broker, gateway(broker.bootstrap) as (url, _):
        page = new_page(viewport={"width": 390, "height": 800})
        page.goto(url)
        see(page, "Nothing flows yet")


def test_an_append_shows_in_the_flow_while_one_looks(open_at: Open, stage: Stage) -> None:
    page = open_at("/?search=con-carriers")
    page.get_by_role("link", name="topic con-carriers").wait_for()
    before = stage.log.describe_topic("con-carriers").offsets
    stage.log.append("con-carriers", {"carrier": "ZZ", "flights": 1}, key="ZZ")
    see(page, f"{before + 1} offsets")
    shown = page.locator(".flow").evaluate(SHARES_OF_FLOW)
    assert shown == pytest.approx([1.0, 0.8, 0.75], abs=0.01), "it shrinks to its place, down to what one can read"


def test_topics_are_found_by_a_part_of_their_name(open_at: Open) -> None:
    from playwright.sync_api import expect

    page = open_at("/console/topics")
    see(page, "con-carriers")
    page.get_by_label("Find a topic").fill("fligh")
    expect(page.get_by_role("link", name="con-carriers")).to_have_count(0)
    page.get_by_role("link", name="con-flights").click()
    see(page, "Newest")


def test_a_records_value_and_position_are_shown_when_it_is_opened(open_at: Open) -> None:
    page = open_at("/console/topics/con-flights")
    page.get_by_label("Key", exact=True).fill("F0042")
    page.get_by_role("button", name="Show").click()
    row = page.get_by_role("listitem").filter(has_text="F0042")
    row.locator("summary").click()
    see(page, '"carrier": "B6"')
    see(page, "Position just after it")


def test_records_are_read_from_an_offset(open_at: Open) -> None:
    from playwright.sync_api import expect

    page = open_at("/console/topics/con-flights")
    page.get_by_role("button", name="Offset").click()
    page.get_by_label("Offset", exact=True).fill("100")
    page.get_by_label("Offset", exact=True).press("Enter")
    see(page, "0 : 100")
    page.get_by_label("Partition", exact=True).click()
    page.get_by_role("option", name="1", exact=True).click()
    page.get_by_role("button", name="Show", exact=True).click()
    see(page, "1 : 100")
    expect(page.locator(".record summary .mono", has_text="0 : ")).to_have_count(0)
    page.wait_for_url("**/con-flights?from=100&partition=1")
    page.reload()
    see(page, "1 : 100")
    expect(page.locator(".record summary .mono", has_text="0 : ")).to_have_count(0)


def test_new_records_show_by_themselves_while_live(open_at: Open, stage: Stage) -> None:
    page = open_at("/console/topics/con-live")
    page.get_by_role("switch", name="Live").click()
    see(page, "● Live")
    for number in range(3):
        stage.log.append("con-live", {"id": f"L{number}"}, key=f"L{number}")
    rows = page.get_by_label("Records", exact=True).get_by_role("listitem")
    rows.filter(has_text="L2").first.wait_for()
    assert "L2" in rows.first.inner_text()


def test_more_goes_on_once_however_often_it_is_clicked_and_whatever_the_form_says(open_at: Open) -> None:
    from playwright.sync_api import expect

    page = open_at("/console/topics/con-flights")
    rows = page.get_by_label("Records", exact=True).get_by_role("listitem")
    more = page.get_by_role("button", name="More")
    expect(more).to_be_enabled()
    first_page = rows.count()  # at least half a page: the rest waits until the other partition is read as far back
    assert first_page >= PAGE_RECORDS // 2
    page.get_by_label("Key", exact=True).fill("F0042")
    more.evaluate("(button) => { button.click(); button.click(); }")
    rows.nth(first_page + PAGE_RECORDS // 2 - 1).wait_for()
    expect(more).to_be_enabled()
    shown = page.locator(".record summary .mono").all_inner_texts()
    assert len(set(shown)) == len(shown)


def test_a_record_is_appended_by_the_form(open_at: Open, stage: Stage) -> None:
    page = open_at("/console/topics/con-carriers")
    page.get_by_text("Append a record").click()
    page.get_by_label("Key (empty: none)").fill("NEW")
    page.get_by_label("Value: JSON, or text").fill('{"carrier": "NEW", "flights": 7}')
    page.get_by_role("button", name="Append", exact=True).click()
    see(page, "Appended and on disk")
    [record] = stage.log.read_key("con-carriers", "NEW")
    assert record.value == b'{"carrier":"NEW","flights":7}'


def test_a_pipelines_micro_batches_are_drawn(open_at: Open) -> None:
    page = open_at("/console/pipelines")
    page.get_by_role("link", name="con-count").click()
    see(page, "250/s")
    see(page, "1,234 in con-flights delay")
    page.locator(".chart canvas").first.wait_for()


@pytest.mark.parametrize(
    ("view", "label", "asked", "answer"),
    [
        ("con-by-key", "Key (empty: all)", "F0042", "F0042"),
        ("con_table", "One SELECT", "SELECT count(*) AS flights FROM con_table", f"{FLIGHTS}"),
        ("con-search", "Words, field", "dest:MIA", "MIA"),
        ("con-routes", "Node", "EWR", "ATL"),
        ("con_lake", "One SELECT", "SELECT count(*) AS flights FROM con_lake", f"{FLIGHTS}"),
        ("con-figures", "Only with", "carrier=UA", "UA"),
    ],
)
def test_a_view_of_each_kind_is_asked(open_at: Open, view: str, label: str, asked: str, answer: str) -> None:
    from playwright.sync_api import expect

    page = open_at(f"/console/views/{view}")
    page.get_by_label(label).fill(asked)
    page.locator("form button[type=submit]").click()
    expect(page.get_by_text(ANSWERED).first).to_be_visible()
    expect(page.get_by_role("cell", name=answer).first).to_be_visible()


def test_a_click_on_a_node_of_a_graph_asks_for_its_neighbors(open_at: Open) -> None:
    from playwright.sync_api import expect

    page = open_at("/console/views/con-routes?node=EWR&hops=2&direction=both")
    expect(page.get_by_label("Hops")).to_have_value("2")
    page.evaluate(PLACE_OF_NODE, ["The nodes around it", "EWR", "ATL"])  # what comes after the list is there, too
    page.get_by_role("button", name="ATL", exact=True).focus()
    page.keyboard.press("Enter")
    expect(page.get_by_label("Node", exact=True)).to_have_value("ATL")
    page.wait_for_url("**/con-routes?node=ATL&hops=2&direction=both")
    page.locator(".content .curl code", has_text="node=ATL").first.wait_for()
    chart = page.get_by_role("img", name="The nodes around it")
    place = page.evaluate(PLACE_OF_NODE, ["The nodes around it", "ATL", "JFK"])
    chart.click(position={"x": place[0], "y": place[1]})
    expect(page.get_by_label("Node", exact=True)).to_have_value("JFK")
    page.wait_for_url("**/con-routes?node=JFK&hops=2&direction=both")


def test_a_range_of_more_keys_than_are_shown_is_read_on(open_at: Open) -> None:
    from playwright.sync_api import expect

    page = open_at("/console/views/con-by-key")
    page.get_by_label("Key (empty: all)").fill("F0")
    page.locator("form button[type=submit]").click()
    for first in ("F0200", "F0400"):
        page.get_by_role("button", name="Next rows").click()
        expect(page.get_by_role("cell", name=first).first).to_be_visible()
    expect(page.get_by_role("button", name="Next rows")).to_have_count(0)


def test_an_answers_numbers_are_shown_with_all_their_digits(open_at: Open) -> None:
    from playwright.sync_api import expect

    page = open_at("/console/views/con_table")
    huge = 2**127 - 1
    numbers = f"1234567890.12::DOUBLE AS a, 9007199254740993 AS b, [9007199254740993] AS c, {huge}::HUGEINT AS d"
    page.get_by_label("One SELECT").fill(f"SELECT x, {numbers} FROM range(2) AS t(x)")
    page.get_by_label("One SELECT").press("Control+Enter")
    for text in ("1234567890.12", "9007199254740993", "[9007199254740993]", str(huge)):
        expect(page.get_by_role("cell", name=text, exact=True).first).to_be_visible()


def test_a_bad_query_shows_the_problem_and_no_traceback(open_at: Open) -> None:
    from playwright.sync_api import expect

    page = open_at("/console/views/con_table")
    page.get_by_label("One SELECT").fill("DELETE FROM con_table")
    page.get_by_label("One SELECT").press("Control+Enter")
    expect(page.get_by_role("alert").filter(has_text="Invalid query").first).to_be_visible()
    assert "Traceback" not in page.content()
    page.get_by_label("One SELECT").fill("SELECT flight,\n  nope FROM con_table")
    page.get_by_label("One SELECT").press("Control+Enter")
    expect(page.locator("pre.value")).to_have_text("  nope FROM con_table\n  ^")


def test_a_query_lists_its_columns_and_is_drawn_when_asked(open_at: Open) -> None:
    from playwright.sync_api import expect

    page = open_at("/console/views/con_table")
    expect(page.locator(".columns .sql-column", has_text="delay")).to_contain_text("INTEGER")
    page.get_by_label("One SELECT").fill("SELECT carrier, count(*) AS flights FROM con_table GROUP BY 1")
    page.get_by_label("One SELECT").press("Control+Enter")
    page.get_by_role("cell", name="UA").wait_for()
    expect(page.locator(".chart")).to_have_count(0)
    page.get_by_role("button", name="Chart").click()
    page.locator(".chart canvas").first.wait_for()
    page.get_by_role("button", name="JSON").click()
    see(page, '"carrier": "UA"')
    page.get_by_role("button", name="Python").first.click()
    see(page, "import json, urllib.request")


def test_pages_have_titles_of_their_own_a_language_and_a_status(open_at: Open, stage: Stage) -> None:
    page = open_at("/console/topics/con-flights")
    assert page.title() == "Topic con-flights · Mainstem"
    assert page.evaluate("document.documentElement.lang") == "en-US"
    for path in (
        *(f"/console/{kind}/con-nope" for kind in ("topics", "views", "pipelines", "groups")),
        "/console/nope",
    ):
        answers = (page.goto(stage.url + path) for _ in range(10))  # a gateway slower than two seconds gets a page
        assert any(answer is not None and answer.status == 404 for answer in answers), path


def test_the_groups_that_mainstem_made_are_shown_when_asked(open_at: Open, stage: Stage) -> None:
    from playwright.sync_api import expect

    for group in ("mainstem-load-0123", "con-readers"):
        reader = Consumer({"bootstrap.servers": stage.log.bootstrap, "group.id": group})
        reader.commit(offsets=[TopicPartition("con-flights", 0, 1)], asynchronous=False)
        reader.close()
    page = open_at("/console/groups", 390)
    see(page, "con-readers")
    expect(page.get_by_text("mainstem-load-0123")).to_have_count(0)
    page.get_by_text("Mainstem's own groups").click()
    see(page, "of a load")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_a_curl_line_of_the_page_runs(open_at: Open) -> None:
    page = open_at("/console/views/con-by-key")
    page.get_by_label("Key (empty: all)").fill("F0042")
    page.locator("form button[type=submit]").click()
    page.get_by_text(ANSWERED).first.wait_for()
    line = page.locator(".content .curl code").filter(has_text="prefix=F0042").first.inner_text()
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, timeout=60, check=True)
    assert '"F0042"' in done.stdout


def test_a_key_of_dots_is_found(open_at: Open, stage: Stage) -> None:
    from playwright.sync_api import expect

    position = stage.log.append("con-dots", {"id": ".."}, key="..")
    page = open_at("/console/views/con-dots")
    page.get_by_label("Find").click()
    page.get_by_role("option", name="This key").click()
    page.get_by_label("Key (empty: all)").fill("..")
    page.get_by_label("At least").fill(str(position))
    page.get_by_label("At least").press("Enter")
    expect(page.get_by_role("cell", name="..", exact=True).first).to_be_visible()


@pytest.mark.parametrize(
    ("view", "source", "told"),
    [
        ("con-by-key", "the whole log", f"Rebuilt from {FLIGHTS} records"),
        ("con-search", "what retention has left", f"Rebuilt from {FLIGHTS} records"),
        ("con_table", "the topic's lake, then the log", f"Rebuilt from {FLIGHTS} records"),
        ("con_table", "the newest snapshot, then the log", "has no snapshot to begin at"),
    ],
)
def test_a_view_is_rebuilt_from_each_source(open_at: Open, view: str, source: str, told: str) -> None:
    page = open_at(f"/console/views/{view}")
    page.get_by_role("button", name="Rebuild …").click()
    page.get_by_label("From", exact=True).click()
    page.get_by_role("option", name=source).click()
    page.get_by_role("button", name="Rebuild", exact=True).click()
    see(page, told)


def test_a_click_is_not_lost_while_the_page_of_a_view_connects(stage: Stage, new_page: NewPage) -> None:
    page = new_page(viewport={"width": 1280, "height": 800})
    held: list[WebSocketRoute] = []

    def hold(socket: WebSocketRoute) -> None:
        held.append(socket)

    page.route_web_socket("**/_nicegui_ws/**", hold)
    page.goto(f"{stage.url}/console/views/con-by-key")
    page.get_by_role("button", name="Rebuild …").hover()
    page.mouse.down()
    assert not page.evaluate("window.did_handshake")
    for socket in held:
        socket.connect_to_server()
    page.get_by_label("At least").wait_for()
    page.mouse.up()
    page.get_by_label("From", exact=True).wait_for()


def test_somebody_elses_rebuild_is_told_while_it_lasts(
    open_at: Open, stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    from playwright.sync_api import expect

    seen, catch_up = threading.Event(), HostedView._catch_up

    def held(view: HostedView, version: Any) -> None:
        assert seen.wait(100)
        catch_up(view, version)

    monkeypatch.setattr(HostedView, "_catch_up", held)
    other = threading.Thread(target=stage.host.rebuild, args=("con-search",))
    other.start()
    try:
        page = open_at("/console/views/con-search")
        see(page, "A rebuild is under way.")
        expect(page.get_by_role("button", name="Rebuild …")).to_be_disabled()
    finally:
        seen.set()
        other.join(100)
    see(page, "A rebuild has ended.")
    expect(page.get_by_role("button", name="Rebuild …")).to_be_enabled()


def test_a_past_moment_is_asked_for(open_at: Open) -> None:
    from playwright.sync_api import expect

    page = open_at("/console/views/con-by-key")
    page.get_by_label("As of").fill("con-flights/0:0,con-flights/1:0")
    page.get_by_label("As of").press("Enter")
    expect(page.get_by_text("No rows").first).to_be_visible()
