"""What the flow says of lags, rates and a followed position; and in Chromium, the chosen node."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from mainstem.console.flow.flow_graph import connected, graph_of
from mainstem.console.flow.flow_numbers import edge_texts, width
from mainstem.console.flow.flow_picture import picture
from mainstem.console.flow.followed_position import FollowedPosition, as_text
from mainstem.console.flow.lag_trends import LagTrends
from mainstem.model import Position

if TYPE_CHECKING:
    from tests.console.conftest import Open
    from tests.console.stage import Stage

VIEWS = [{"name": "v", "topic": "out", "kind": "sql", "position": ""}, {"name": "w", "topic": "in", "kind": "sql"}]


def enrich(source: str, sink: str) -> dict[str, Any]:
    return {"name": "enrich", "inputs": ["in"], "outputs": ["out"], "tables": "", "source": source, "sink": sink}


def views(v: str, w: str) -> list[dict[str, Any]]:
    return [{**VIEWS[0], "position": v}, {**VIEWS[1], "position": w}]


def test_a_position_is_followed_hop_by_hop() -> None:
    followed = FollowedPosition(Position.parse("in/0:10"), 100.0)
    followed.look([enrich("in/0:9", "out/0:4")], views("out/0:4", "in/0:10"), 100.1)
    assert list(followed.hops) == ["topic:in", "view:w"]
    assert sorted(followed.waits_for) == ["pipeline:enrich", "topic:out", "view:v"]
    followed.look([enrich("in/0:12", "out/0:5")], views("out/0:4", "in/0:12"), 100.42)
    followed.look([enrich("in/0:14", "out/0:7")], views("out/0:5", "in/0:14"), 100.455)  # the sink as it was then
    assert as_text(followed.hops.values()) == "in 0 → w earlier → enrich 420 → out 420 → v 455 ms"
    assert followed.waits_for == []


def test_a_pipeline_that_reads_what_it_writes_ends_the_following() -> None:
    followed = FollowedPosition(Position.parse("a/0:1"), 0.0)
    loop = {"name": "p", "inputs": ["a"], "outputs": ["a"], "source": "a/0:1", "sink": "a/0:9"}
    followed.look([loop], [], 1.0)
    assert (list(followed.hops), followed.waits_for) == (["topic:a", "pipeline:p"], [])


def test_a_lag_rises_when_it_grew_three_times() -> None:
    trends = LagTrends()
    assert [bool(trends.look({"v": lag})) for lag in (0, 1, 2, 3, 3, 2, 3)] == [False] * 3 + [True, True, False, False]
    assert trends.look({"v": None, "w": 5}) == frozenset()


def test_an_arrow_is_as_wide_as_its_rate_and_red_when_the_lag_rises() -> None:
    graph = graph_of([], [], [{"name": "v", "topic": "t", "kind": "sql"}])
    texts, lines = edge_texts(graph, {"view:v": 99.0}, {"view:v": 1_500}, {"view:v"})
    assert lines == {"flow-edge-0-line": (3.5, True)}
    assert texts["flow-edge-0-lag"] == ("lag 1.5k ↑", "bad")
    assert width(None) == width(0.0) == 1.5 < width(1e9) <= 7


def test_what_is_connected_with_a_node_is_before_and_behind_it() -> None:
    graph = graph_of([], [enrich("", "")], VIEWS)
    assert connected(graph, "topic:out") == {"topic:in", "pipeline:enrich", "topic:out", "view:v"}
    assert connected(graph, "view:w") == {"topic:in", "view:w"}


def test_a_phone_gets_the_flow_from_top_to_bottom() -> None:
    many = [{"name": f"v{number}", "topic": "t", "kind": "sql"} for number in range(7)]
    drawn = picture(graph_of([], [], many), is_vertical=True)
    assert 'viewBox="0 0 350 ' in drawn
    assert drawn.count("<a ") == 8


@pytest.mark.browser
def test_a_chosen_node_is_lit_with_what_is_connected(open_at: Open) -> None:
    from playwright.sync_api import expect

    page = open_at("/")
    page.get_by_role("link", name="pipeline con-count").focus()
    page.keyboard.press("Enter")
    panel = page.locator(".node-panel")
    expect(panel).to_contain_text("con-flights/0:")
    expect(page.locator(".flow a.lit[data-node='topic:con-flights']")).to_have_count(1)
    expect(page.locator(".flow a.lit[data-node='topic:con-live']")).to_have_count(0)
    panel.get_by_role("button", name="Close").click()
    expect(page.locator(".flow a.lit")).to_have_count(0)


@pytest.mark.browser
def test_the_next_record_is_followed_to_its_view(open_at: Open, stage: Stage) -> None:
    from playwright.sync_api import expect

    page = open_at("/?search=con-dots", 390)
    page.locator("a[data-node='topic:con-dots']").click()
    page.get_by_role("button", name="Follow the next record of con-dots").click()
    page.get_by_text("Waiting for the next record").wait_for()
    stage.log.append("con-dots", {"id": "followed"}, key="followed")
    expect(page.locator(".way")).to_contain_text("it has arrived everywhere")
    expect(page.locator(".way")).to_contain_text("con-dots 0 → con-dots ")
    expect(page.locator("a.reached[data-node='view:con-dots']")).to_have_count(1)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
