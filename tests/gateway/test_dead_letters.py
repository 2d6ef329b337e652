"""Dead letters are grouped by what was wrong, read one by one, and marked without being changed."""

from __future__ import annotations

import uuid
from typing import Any

import httpx
import pytest

from mainstem.client.dead_letter_headers import dead_letter_headers, dead_letter_of, pipeline_topic, view_topic
from mainstem.client.dead_letters import DeadLetters, reason_of
from mainstem.client.handled_letters import HANDLED_TOPIC, RANGES_MAX, HandledLetters, ranges_over
from mainstem.client.log import Log
from mainstem.client.records import NewRecord
from mainstem.model import TopicPartition
from tests.gateway.test_bad_input import is_problem

SOURCE = "letters-source"
DIVISION = "the fold count, line 12 of flights.py: ZeroDivisionError: division by zero"


@pytest.fixture
def topic(session_log: Log) -> str:
    """Five letters of a view: three reasons, one of which names a value."""
    name = view_topic("letters", f"v{uuid.uuid4().hex[:8]}")
    session_log.create_topic(name, partitions=1)
    errors = (DIVISION, "column 'delay': abc is not INT", DIVISION, "column 'delay': x is not INT", "the key is null")
    session_log.append_many(name, [letter(error, number) for number, error in enumerate(errors)])
    return name


def letter(error: str, number: int) -> NewRecord:
    headers = (("own", b"kept"), *dead_letter_of(error, TopicPartition(SOURCE, 2), number, view="v"))
    return NewRecord(f'{{"n":{number}}}', f"k{number}", headers)


def groups(api: httpx.Client, topic: str) -> dict[str, dict[str, Any]]:
    found = api.get("/dead-letters", params={"topic": topic}).json()["groups"]
    return {group["reason"]: group for group in found}


def new(api: httpx.Client, topic: str) -> dict[str, int]:
    return {reason: group["unhandled"] for reason, group in groups(api, topic).items()}


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (DIVISION, "ZeroDivisionError flights.py:12"),
        ("the fold f, line 3 of a b.py: KeyError: 'x: y'", "KeyError a b.py:3"),
        (
            "the value is not JSON: Expecting value: line 1 column 1 (char 0)",
            "the value is not JSON: Expecting value",
        ),
        ("the value is not UTF-8 text: invalid byte at byte 17", "the value is not UTF-8 text: invalid byte"),
        ("flights/0:17-20 cannot be read: the checksum is wrong", "offsets cannot be read: the checksum is wrong"),
        ("column 'a b': it's not INT is not INT", "column 'a b' is not INT"),
        ("one line\nand another", "one line"),
        ("x" * 300, "x" * 200),
    ],
)
def test_a_reason_is_the_error_without_what_differs(error: str, reason: str) -> None:
    assert reason_of(error) == reason


def test_letters_are_grouped_with_counts_times_and_sources(api: httpx.Client, topic: str) -> None:
    found = groups(api, topic)
    assert {reason: group["letters"] for reason, group in found.items()} == {
        "ZeroDivisionError flights.py:12": 2,
        "column 'delay' is not INT": 2,
        "the key is null": 1,
    }
    division = found["ZeroDivisionError flights.py:12"]
    assert (division["kind"], division["app"], division["sources"]) == ("view", "letters", [SOURCE])
    assert division["error"] == DIVISION
    assert 0 < division["first_ms"] <= division["last_ms"]


def test_letters_are_read_newest_first_with_their_records_and_places(api: httpx.Client, topic: str) -> None:
    first = api.get(f"/dead-letters/{topic}", params={"limit": 3}).json()
    assert [each["place"] for each in first["letters"]] == ["0:4", "0:3", "0:2"]
    assert first["letters"][0]["record"]["value"] == {"n": 4}
    assert first["letters"][0]["record"]["headers"] == [{"name": "own", "value": "kept"}]
    assert first["letters"][0]["source"] == {"topic": SOURCE, "partition": 2, "offset": 4}
    rest = api.get(f"/dead-letters/{topic}", params={"after": first["next"]}).json()
    assert ([each["place"] for each in rest["letters"]], rest["next"]) == (["0:1", "0:0"], None)
    group = groups(api, topic)["the key is null"]["id"]
    only = api.get(f"/dead-letters/{topic}", params={"group": group}).json()["letters"]
    assert [each["place"] for each in only] == ["0:4"]


def test_marks_are_kept_in_the_log_and_taken_back(api: httpx.Client, topic: str, session_log: Log) -> None:
    def mark(**body: Any) -> int:
        answer = api.post(f"/dead-letters/{topic}/handled", json=body)
        assert answer.status_code == 200, answer.text
        return int(answer.json()["changed"])

    before = [record.headers for record in session_log.read(topic)]
    division = groups(api, topic)["ZeroDivisionError flights.py:12"]["id"]
    assert mark(group=division) == 2
    assert mark(group=division) == 0
    assert mark(places=["0:1"]) == 1
    assert new(api, topic) == {
        "ZeroDivisionError flights.py:12": 0,
        "column 'delay' is not INT": 1,
        "the key is null": 1,
    }
    shown = api.get(f"/dead-letters/{topic}").json()["letters"]
    assert [each["place"] for each in shown] == ["0:4", "0:3"]
    shown = api.get(f"/dead-letters/{topic}", params={"handled": True}).json()["letters"]
    assert [each["handled"] for each in shown] == [False, False, True, True, True]
    elsewhere = DeadLetters(session_log)
    assert [each.unhandled for each in elsewhere.topics(topic)] == [2]
    assert elsewhere.mark(topic, places=["0:3"]) == 1
    assert mark(places=["0:0", "0:1"], handled=False) == 2
    assert sum(new(api, topic).values()) == 3
    assert [record.headers for record in session_log.read(topic)] == before


def test_two_who_mark_at_a_time_lose_nothing(api: httpx.Client, topic: str, session_log: Log) -> None:
    one, other = DeadLetters(session_log), DeadLetters(session_log)
    one.mark(topic, places=["0:0"])
    other.topics()
    stale = other._handled
    one.mark(topic, places=["0:1"])
    topic_id = session_log.topics()[topic].topic_id
    assert stale.change(topic, topic_id, {0: range(5)}, {0: [4]}, handled=True) == 1  # it knows of 0:0 alone
    assert [each.unhandled for each in one.topics(topic)] == [2]


def test_a_foreign_record_under_a_key_of_ours_counts_as_no_marks(topic: str, session_log: Log) -> None:
    known = DeadLetters(session_log)
    assert known.mark(topic, places=["0:0"]) == 1
    key = f"{session_log.topics()[topic].topic_id}/0"
    for foreign in (b"\xff", {"handled": [[n, n] for n in range(RANGES_MAX + 1)]}, {"handled": [["x", 1]]}):
        session_log.append(HANDLED_TOPIC, foreign, key=key)
        assert [each.unhandled for each in known.topics(topic)] == [5]
    assert known.mark(topic, places=["0:1"]) == 1
    assert [each.unhandled for each in known.topics(topic)] == [4]


def test_the_marks_that_are_kept_are_bounded(topic: str, session_log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mainstem.client.handled_letters.RANGES_IN_ALL", 10)
    marks = HandledLetters(session_log)
    for _ in range(20):
        session_log.append(HANDLED_TOPIC, {"handled": [[1, 2], [4, 4]]}, key=f"{uuid.uuid4()}/0")
    marks.catch_up()
    assert 0 < len(marks._ranges) <= 5
    assert marks._offsets.keys() == marks._ranges.keys()


def test_a_topic_that_was_made_again_has_no_marks(api: httpx.Client, topic: str, session_log: Log) -> None:
    assert api.post(f"/dead-letters/{topic}/handled", json={"all": True}).json()["changed"] == 5
    session_log.delete_topic(topic)
    session_log.create_topic(topic, partitions=1)
    session_log.append_many(topic, [letter("the key is null", 0)])
    assert new(api, topic) == {"the key is null": 1}


def test_rows_of_a_pipeline_and_foreign_records_are_listed_too(api: httpx.Client, session_log: Log) -> None:
    name = pipeline_topic("letters", f"p{uuid.uuid4().hex[:8]}")
    session_log.create_topic(name, partitions=1)
    session_log.append(name, {"a": 1}, headers=dead_letter_headers("the key column a is null", "derived"))
    session_log.append(name, b"\xff")
    newest, row = api.get(f"/dead-letters/{name}").json()["letters"]
    assert (row["source"], row["error"]) == ({"topic": "derived"}, "the key column a is null")
    assert (newest["source"], newest["error"]) == ({"topic": ""}, "no error is given")
    assert "value_base64" in newest["record"]
    session_log.append(HANDLED_TOPIC, "not ours", key=f"{uuid.uuid4()}/0")
    session_log.append(HANDLED_TOPIC, {"handled": []}, key="not/ours")
    assert sum(new(api, name).values()) == 2


def test_only_the_newest_of_very_many_letters_are_known(
    session_log: Log, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mainstem.client.dead_letters.LETTERS_MAX", 3)
    known = DeadLetters(session_log)
    [seen] = known.topics(topic)
    assert (seen.letters, seen.is_partial) == (3, True)
    session_log.append_many(topic, [letter("the key is null", 9)])
    assert [each.offset for each, _ in known.letters(topic)] == [5, 4, 3]


def test_what_is_wrong_is_refused_with_the_value(api: httpx.Client, topic: str) -> None:
    is_problem(api.get("/dead-letters/flights"), 404, "flights")
    is_problem(api.get(f"/dead-letters/{topic}", params={"after": "0:99"}), 400, "0:99")
    is_problem(api.get(f"/dead-letters/{topic}", params={"limit": 0}), 400, "limit")
    handled = f"/dead-letters/{topic}/handled"
    is_problem(api.post(handled, json={"places": ["0:99"]}), 400, "0:99")
    is_problem(api.post(handled, json={}), 400, "one way")
    is_problem(api.post(handled, json={"all": True, "group": "x"}), 400, "one way")


def test_ranges_go_over_offsets_that_hold_no_letter() -> None:
    assert ranges_over([1, 4, 7, 9], {1, 4, 9}) == ((1, 4), (9, 9))
    assert ranges_over([1, 4], set()) == ()
