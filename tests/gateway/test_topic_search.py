"""A search finds what matches, says how far it is, and goes on where it ended, within its bounds."""

from __future__ import annotations

import uuid
from typing import Any

import httpx
import pytest

from mainstem.client.log import Log
from mainstem.client.records import NewRecord
from mainstem.errors import InputError
from mainstem.gateway.streams.search_conditions import SearchConditions
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
