"""What one topic lacks to be like another, and getting it there."""

from __future__ import annotations

import itertools

import pytest

from mainstem.client.log import Log
from mainstem.client.records import NewRecord
from mainstem.errors import DefinitionError, TransactionTimeoutError
from mainstem.spark.changes.topic_difference import TopicDifference
from mainstem.spark.sink.transactions import end_open_transactions
from tests.spark.sink_world import Sink

NUMBERS = itertools.count(1)


def topic(log: Log, *records: tuple[str | None, str | None]) -> str:
    name = f"difference-{next(NUMBERS)}"
    log.create_topic(name, partitions=2)
    if records:
        log.append_many(name, list(records))
    return name


def latest(log: Log, name: str) -> dict[bytes | None, bytes | None]:
    found = {record.key: record.value for record in log.read(name)}
    return {key: value for key, value in found.items() if value is not None}


def test_the_difference_makes_the_topic_say_what_the_other_does(mainstem_log: Log) -> None:
    log = mainstem_log
    live = topic(log, ("same", "1"), ("changed", "1"), ("gone", "1"), ("back", "1"), ("back", None), ("dead", None))
    wanted = topic(log, ("changed", "0"), ("same", "1"), ("changed", "2"), ("added", "3"), ("back", "4"), ("x", None))
    difference = TopicDifference.between(log, live, wanted)
    assert (set(difference.added), difference.changed, difference.gone) == (
        {b"added", b"back"},
        (b"changed",),
        (b"gone",),
    )
    assert str(difference).endswith("1 changed (changed), 1 gone (gone), 1 as they were")
    before = sum(1 for _ in log.read(live))
    difference.append_to_live(log, "difference-test")
    assert latest(log, live) == latest(log, wanted)
    assert sum(1 for _ in log.read(live)) == before + 4
    again = TopicDifference.between(log, live, wanted)
    assert (again.added, again.changed, again.gone) == ((), (), ())


def test_the_same_bytes_of_another_schema_are_a_change(mainstem_log: Log) -> None:
    live, wanted = topic(mainstem_log), topic(mainstem_log)
    frames = [("__value_schema_id", b"\x01" + bytes([number]) * 16) for number in range(2)]
    for name, changed in ((live, frames[0]), (wanted, frames[1])):
        mainstem_log.append_many(
            name, [NewRecord(b"x", "same", headers=[frames[0]]), NewRecord(b"x", "changed", headers=[changed])]
        )
    difference = TopicDifference.between(mainstem_log, live, wanted)
    assert (difference.changed, difference.same) == ((b"changed",), 1)
    difference.append_to_live(mainstem_log, "difference-of-schemas")
    assert [record.headers for record in mainstem_log.read(live, key="changed")][-1] == (frames[1],)


def test_keys_that_came_twice_are_noticed(mainstem_log: Log) -> None:
    live, twice = topic(mainstem_log, ("a", "1")), topic(mainstem_log, ("a", "1"), ("a", "2"))
    assert TopicDifference.between(mainstem_log, live, twice).repeats
    assert not TopicDifference.between(mainstem_log, twice, live).repeats


@pytest.mark.parametrize("hidden", ["live", "wanted"])
def test_a_topic_whose_end_a_transaction_hides_is_not_compared(mainstem_log: Log, hidden: str) -> None:
    topics = {name: topic(mainstem_log, ("a", "1")) for name in ("live", "wanted")}
    stray = Sink(mainstem_log.bootstrap, topics[hidden])
    stray.task(stray.begin(), 0, 0)  # nobody waits for it
    mainstem_log.append_many(topics[hidden], [("a", "3"), ("b", "3")])
    with pytest.raises(TransactionTimeoutError, match=f"an open transaction holds {topics[hidden]}/"):
        TopicDifference.between(mainstem_log, topics["live"], topics["wanted"], wait_s=0.0)
    end_open_transactions(stray.log, stray.sink_id)
    difference = TopicDifference.between(mainstem_log, topics["live"], topics["wanted"])
    assert (difference.changed, difference.added or difference.gone) == ((b"a",), (b"b",))


def test_records_without_a_key_cannot_be_compared(mainstem_log: Log) -> None:
    live, keyless = topic(mainstem_log), topic(mainstem_log, (None, "1"))
    with pytest.raises(DefinitionError, match="records without a key"):
        TopicDifference.between(mainstem_log, live, keyless)
