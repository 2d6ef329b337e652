"""A topic's records as server-sent events: order, resuming, filters, and what is refused before a stream begins."""

from __future__ import annotations

from contextlib import suppress

import httpx
import pytest

from mainstem.client.log import Log
from mainstem.client.records import NewRecord
from mainstem.model import Position
from tests.gateway.sse import Event, reading


@pytest.fixture
def topic(session_log: Log, mainstem_topic: str) -> str:
    session_log.append_many(mainstem_topic, [NewRecord({"n": n}, key="abc"[n % 3]) for n in range(6)])
    return mainstem_topic


@pytest.fixture
def indexed(session_log: Log, mainstem_topic: str) -> str:
    name = f"{mainstem_topic}-indexed"
    session_log.create_topic(name, partitions=3, configs={"mainstem.key.index": "true"})
    session_log.append_many(name, [NewRecord(n, key=f"k{n % 50}") for n in range(500)])
    return name


def numbers(events: list[Event]) -> list[int]:
    return [event.data["value"]["n"] for event in events]


def test_the_past_comes_in_order_and_what_is_appended_follows(api: httpx.Client, topic: str, session_log: Log) -> None:
    with reading(api, f"/topics/{topic}/stream", from_="earliest") as reader:
        first = reader.take(6)
        session_log.append(topic, {"n": 6}, key="a")
        (last,) = reader.take(1)
    assert numbers([*first, last]) == [0, 1, 2, 3, 4, 5, 6]
    assert last.id == f"{topic}/0:7"
    assert last.data["key"] == "a"
    assert (last.data["partition"], last.data["offset"]) == (0, 6)
    assert reader.retry_ms


def test_a_stream_begins_at_the_end_unless_told_otherwise(api: httpx.Client, topic: str, session_log: Log) -> None:
    with reading(api, f"/topics/{topic}/stream") as reader:
        assert reader.begun() == f"{topic}/0:6"
        session_log.append(topic, {"n": 6})
        assert numbers(reader.take(1)) == [6]


@pytest.mark.parametrize("start", ["4", "{topic}/0:4"])
def test_a_stream_begins_at_an_offset_or_position(api: httpx.Client, topic: str, start: str) -> None:
    with reading(api, f"/topics/{topic}/stream", from_=start.format(topic=topic)) as reader:
        assert numbers(reader.take(2)) == [4, 5]


def test_a_stream_begins_at_a_time(api: httpx.Client, mainstem_topic: str, session_log: Log) -> None:
    for time_ms in (1_000, 5_000):
        session_log.append(mainstem_topic, {"n": time_ms}, timestamp_ms=time_ms)
    with reading(api, f"/topics/{mainstem_topic}/stream", from_="1970-01-01T00:00:02Z") as reader:
        assert numbers(reader.take(1)) == [5_000]


def test_the_last_event_id_goes_on_where_any_event_was(api: httpx.Client, session_log: Log, topic: str) -> None:
    name = f"{topic}-spread"
    session_log.create_topic(name, partitions=4)
    session_log.append_many(name, [NewRecord({"n": n}, key=str(n)) for n in range(40)])
    seen: list[int] = []
    last_id = None
    while len(seen) < 40:
        with reading(api, f"/topics/{name}/stream", last_id, from_="earliest") as reader:
            events = reader.take(7 if len(seen) < 35 else 5)
        seen += numbers(events)
        last_id = events[-1].id
    assert sorted(seen) == list(range(40))
    assert Position.parse(last_id or "").covers(session_log.end(name))


def test_what_comes_while_a_reader_joins_is_neither_lost_nor_twice(
    api: httpx.Client, session_log: Log, mainstem_topic: str
) -> None:
    with reading(api, f"/topics/{mainstem_topic}/stream") as keeps_the_tail:
        keeps_the_tail.begun()
        for start in range(0, 300, 30):
            session_log.append_many(mainstem_topic, [NewRecord({"n": n}) for n in range(start, start + 15)])
            with reading(api, f"/topics/{mainstem_topic}/stream", from_="earliest") as reader:
                session_log.append_many(mainstem_topic, [NewRecord({"n": n}) for n in range(start + 15, start + 30)])
                assert numbers(reader.take(start + 30)) == list(range(start + 30))
        assert numbers(keeps_the_tail.take(300)) == list(range(300))


def test_only_committed_records_come(api: httpx.Client, session_log: Log, mainstem_topic: str) -> None:
    with reading(api, f"/topics/{mainstem_topic}/stream", from_="earliest") as reader:
        with suppress(ZeroDivisionError), session_log.transaction() as undone:
            undone.append(mainstem_topic, {"n": 1})
            raise ZeroDivisionError
        with session_log.transaction() as done:
            done.append(mainstem_topic, {"n": 2})
        session_log.append(mainstem_topic, {"n": 3})
        assert numbers(reader.take(2)) == [2, 3]


def test_a_key_is_followed_through_its_index(api: httpx.Client, session_log: Log, indexed: str) -> None:
    with reading(api, f"/topics/{indexed}/stream", key="k7", from_="earliest") as reader:
        past = reader.take(10)
        session_log.append(indexed, 1007, key="k7")
        session_log.append(indexed, 1008, key="k8")
        session_log.append(indexed, 2007, key="k7")
        now = reader.take(2)
    assert [event.data["value"] for event in [*past, *now]] == [*map(str, range(7, 500, 50)), "1007", "2007"]
    with reading(api, f"/topics/{indexed}/stream", past[3].id, key="k7") as again:
        assert [event.data["value"] for event in again.take(2)] == ["207", "257"]
    assert len(Position.parse(past[3].id)) == 1


def test_a_key_is_followed_without_an_index(api: httpx.Client, session_log: Log, topic: str) -> None:
    with reading(api, f"/topics/{topic}/stream", key="b", from_="earliest") as reader:
        assert numbers(reader.take(2)) == [1, 4]
        session_log.append(topic, {"n": 10}, key="a")
        session_log.append(topic, {"n": 11}, key="b")
        (last,) = reader.take(1)
    assert (last.data["value"]["n"], last.id) == (11, f"{topic}/0:8")


def test_a_route_lets_matching_records_through(api: httpx.Client, session_log: Log, mainstem_topic: str) -> None:
    keys = ["orders.eu.de", "orders.us.ny", "orders.eu.fr", "orders"]
    session_log.append_many(mainstem_topic, [NewRecord(n, key=key) for n, key in enumerate(keys)])
    session_log.append(mainstem_topic, 4, key="x", headers={"mainstem-routing-key": "orders.eu.it"})
    with reading(api, f"/topics/{mainstem_topic}/stream", route="orders.eu.*", from_="earliest") as reader:
        assert [event.data["value"] for event in reader.take(3)] == ["0", "2", "4"]
        session_log.append(mainstem_topic, 5, key="orders.us.la")
        session_log.append(mainstem_topic, 6, key="orders.eu.es")
        (last,) = reader.take(1)
    assert (last.data["value"], last.id) == ("6", f"{mainstem_topic}/0:7")


@pytest.mark.parametrize(
    ("query", "last_id", "status", "slug"),
    [
        ("from=nowhere", None, 400, "input"),
        ("from=elsewhere/0:1", None, 400, "position"),
        ("from=99", None, 416, "offset-out-of-range"),
        ("from=", None, 400, "input"),
        ("route=orders..eu", None, 400, "input"),
        ("route=ord*", None, 400, "input"),
        ("keey=a", None, 400, "input"),
        ("", "17 what", 400, "input"),
        ("", "{topic}/0:99", 416, "offset-out-of-range"),
        ("", "{topic}/7:1", 404, "unknown-topic"),
    ],
)
def test_bad_input_is_a_problem_before_the_stream_begins(
    api: httpx.Client, topic: str, query: str, last_id: str | None, status: int, slug: str
) -> None:
    headers = {} if last_id is None else {"Last-Event-ID": last_id.format(topic=topic)}
    answer = api.get(f"/topics/{topic}/stream?{query}", headers=headers)
    assert (answer.status_code, answer.json()["type"]) == (status, f"/problems/{slug}")


def test_a_topic_that_is_not_there_is_a_404(api: httpx.Client) -> None:
    assert api.get("/topics/nope/stream").json()["type"] == "/problems/unknown-topic"
    assert api.get("/topics/no%20name/stream").status_code == 404


def test_a_topic_that_is_deleted_ends_its_streams_with_a_problem(
    api: httpx.Client, session_log: Log, topic: str
) -> None:
    name = f"{topic}-doomed"
    session_log.create_topic(name, partitions=1)
    with reading(api, f"/topics/{name}/stream") as reader:
        reader.begun()
        session_log.delete_topic(name)
        (last,) = reader.take(1)
        assert (last.name, last.data["type"]) == ("problem", "/problems/unknown-topic")
        assert reader.take(1) == []
