"""A search finds what matches, says how far it is, and goes on where it ended, within its bounds."""

from __future__ import annotations

import asyncio
import json
import uuid
from dataclasses import replace
from typing import Any

import httpx
import pytest

from mainstem.client.log import Log
from mainstem.client.records import NewRecord
from mainstem.errors import InputError, UnavailableError, UnknownTopicError
from mainstem.gateway.streams.search_conditions import SearchConditions
from mainstem.gateway.streams.topic_search import SearchRange, TopicSearch, TopicSearches
from mainstem.model import Record
from tests.gateway.sse import Event, EventReader
from tests.gateway.test_bad_input import is_problem

CARRIERS = ("UA", "AA", "B6")


@pytest.fixture(scope="module")
def topic(session_log: Log) -> str:
    """300 flights in two partitions, and one record that is no JSON."""
    name = f"search-{uuid.uuid4().hex[:8]}"
    session_log.create_topic(name, partitions=2)
    flights = [{"carrier": CARRIERS[n % 3], "delay": n, "to": {"state": "NY" if n % 2 else None}} for n in range(300)]
    session_log.append_many(name, [(f"F{n:03d}", flight) for n, flight in enumerate(flights)])
    session_log.append_many(name, [NewRecord(b"\xff plain", "odd", {"trace": "Needle"}, partition=1)])
    return name


def search(api: httpx.Client, topic: str, **params: Any) -> list[Event]:
    if "start" in params:
        params["from"] = params.pop("start")
    with api.stream("GET", f"/topics/{topic}/search", params=params) as response:
        assert response.status_code == 200, response.read()
        return list(EventReader(response))


def keys(events: list[Event]) -> list[str]:
    return [event.data["key"] for event in events if event.name == "hit"]


def test_fields_are_compared_and_the_end_is_told(api: httpx.Client, topic: str) -> None:
    events = search(api, topic, where="carrier = 'UA' AND delay >= 290")
    assert sorted(keys(events)) == ["F291", "F294", "F297"]
    end = events[-1]
    assert (end.name, end.data["reason"], end.data["scanned"], end.data["hits"]) == ("end", "end", 301, 3)
    assert end.data["position"] == end.id


def test_a_text_is_found_in_key_value_and_headers_in_any_case(api: httpx.Client, topic: str) -> None:
    assert keys(search(api, topic, text="f042")) == ["F042"]
    assert keys(search(api, topic, text="needle")) == ["odd"]
    assert keys(search(api, topic, text="PLAIN")) == ["odd"]
    assert len(keys(search(api, topic, text='"carrier":"b6"', where="delay < 30"))) == 10


def test_a_search_goes_on_where_it_ended_without_a_gap_or_a_repeat(api: httpx.Client, topic: str) -> None:
    found: list[str] = []
    start = "earliest"
    for _ in range(50):
        events = search(api, topic, where="delay >= 0", limit=17, start=start)
        found += keys(events)
        start = events[-1].data["position"]
        if events[-1].data["reason"] == "end":
            break
        assert events[-1].data["reason"] == "limit"
    assert sorted(found) == [f"F{n:03d}" for n in range(300)]


def test_a_search_is_of_one_partition_and_ends_in_time(api: httpx.Client, topic: str) -> None:
    both = [search(api, topic, text="F", partition=each, limit=1000) for each in (0, 1)]
    assert sum(len(keys(events)) for events in both) == 300
    assert {event.data["partition"] for event in both[0] if event.name == "hit"} == {0}
    assert search(api, topic, text="nowhere", timeout=0)[-1].data["reason"] in ("time", "end")


def test_what_cannot_be_searched_is_refused_before_a_stream_begins(api: httpx.Client, topic: str) -> None:
    address = f"/topics/{topic}/search"
    is_problem(api.get(address), 400, "nothing to search for")
    is_problem(api.get(address, params={"where": "delay >"}), 400, "delay >")
    is_problem(api.get(address, params={"text": "x", "partition": 7}), 400, "partition 7")
    is_problem(api.get(address, params={"text": "x", "from": f"{topic}/0:99999"}), 416, "99999")
    is_problem(api.get("/topics/no-such-topic/search", params={"text": "x"}), 404, "no-such-topic")


async def rest(search: TopicSearch) -> dict[str, Any]:
    """The last event's document."""
    blocks = [block async for block in search.events()]
    search.close()
    return dict(json.loads(blocks[-1].decode().partition("data: ")[2]))


def test_a_new_search_of_a_client_ends_the_one_before(
    session_log: Log, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mainstem.gateway.streams.topic_search._STEP_BYTES", 1)  # a record a step
    searches, conditions = TopicSearches(session_log), SearchConditions.parse("nowhere", None)
    what = SearchRange(topic, "earliest", "latest", None, 100, 60.0)

    async def run() -> None:
        first, other = [await searches.start(what, conditions, client) for client in ("a", "b")]
        begun = first.events()
        await anext(begun)
        second = await searches.start(what, conditions, "a")
        assert searches.running == 2
        last = [block async for block in begun][-1]
        first.close()
        assert (b'"reason":"replaced"' in last, searches.running) == (True, 2)
        assert 0 < json.loads(last.partition(b"data: ")[2])["scanned"] < 301
        assert [(await rest(each))["reason"] for each in (second, other)] == ["end", "end"]
        assert searches.running == 0

    asyncio.run(run())


def test_a_client_that_has_a_search_may_begin_another_when_all_places_are_taken(session_log: Log, topic: str) -> None:
    searches, conditions = TopicSearches(session_log), SearchConditions.parse("nowhere", None)
    what = SearchRange(topic, "earliest", "latest", None, 100, 60.0)

    async def run() -> None:
        for client in (None, "a", "b", "c"):
            await searches.start(what, conditions, client)
        for client in (None, "d"):
            with pytest.raises(UnavailableError, match="4 searches are running already"):
                await searches.start(what, conditions, client)
        again = await searches.start(what, conditions, "b")
        assert (await rest(again))["reason"] == "end"
        assert searches.running == 3
        with pytest.raises(UnknownTopicError):
            await searches.start(replace(what, topic="no-such-topic"), conditions, "c")
        assert searches.running == 2

    asyncio.run(run())


def test_a_client_names_itself_in_few_signs_and_sees_how_many_searches_run(api: httpx.Client, topic: str) -> None:
    address = f"/topics/{topic}/search"
    for client in ("", "a b", "x" * 65):
        is_problem(api.get(address, params={"text": "x", "client": client}), 400, "client")
    answer = api.get(address, params={"text": "x", "client": "aZ_9-"})
    assert (answer.status_code, answer.headers["mainstem-searches-running"]) == (200, "1")


@pytest.mark.parametrize(
    ("where", "holds"),
    [
        ("a = 1", True),
        ("a = 1.0 and b = 'it''s'", True),
        ("a = '1'", False),
        ("a = true", False),
        ("t = TRUE", True),
        ("n = null", True),
        ("missing.more = null", True),
        ("missing != 3", True),
        ("missing < 3", False),
        ("b > 'a'", True),
        ("b > 1", False),
        ("c.d <= -2.5e0", True),
        ("c.\"x y\" ~ 'WOR'", True),
        ("b <> 'x' AND c.d > -3 AND a >= 1", True),
    ],
)
def test_comparisons(where: str, holds: bool) -> None:
    value = b'{"a": 1, "b": "it\'s", "c": {"d": -2.5, "x y": "a word"}, "t": true, "n": null}'
    conditions = SearchConditions.parse(None, where)
    assert conditions.hold(Record("t", 0, 0, 0, None, value)) is holds
    assert not conditions.hold(Record("t", 0, 0, 0, None, b"[1]"))


@pytest.mark.parametrize(
    "where",
    [
        "a",
        "a = ",
        "a = x",
        "a = 007",
        "a = \u0663",
        "a = 1.",
        "a = 'x",
        "a = 1 OR b = 2",
        "a = 1 AND",
        "a = 1 b = 2",
        "a = 1;",
        "(a = 1)",
        "a == 1",
    ],
)
def test_what_is_no_comparison_is_refused(where: str) -> None:
    with pytest.raises(InputError, match="where"):
        SearchConditions.parse(None, where)
    with pytest.raises(InputError, match="at most"):
        SearchConditions.parse(None, " AND ".join(["a = 1"] * 21))
