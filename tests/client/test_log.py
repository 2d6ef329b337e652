from __future__ import annotations

import datetime
import threading
from collections.abc import Callable

import pytest

from mainstem.client.log import Log
from mainstem.client.records import NewRecord
from mainstem.errors import (
    ConfigError,
    InputError,
    LogUnavailableError,
    OffsetOutOfRangeError,
    RecordTooLargeError,
    SchemaError,
    TopicExistsError,
    UnknownTopicError,
)
from mainstem.model import Position, TopicPartition
from mainstem.record.partitioner import partition_for
from tests.support.eventually import eventually

NewTopic = Callable[..., str]


def values(log: Log, topic: str, **options: object) -> list[bytes | None]:
    return [record.value for record in log.read(topic, **options)]  # type: ignore[arg-type]


def test_an_append_returns_the_position_just_after_its_record(log: Log, new_topic: NewTopic) -> None:
    topic = new_topic()
    assert log.append(topic, "a") == Position.of(topic, 0, 1)
    assert log.append(topic, "b") == Position.of(topic, 0, 2)
    assert log.end(topic) == Position.of(topic, 0, 2)


def test_what_was_appended_is_read_as_it_was(log: Log, new_topic: NewTopic) -> None:
    topic = new_topic()
    log.append(topic, {"a": 1}, key="k", headers=[("h", b"1"), ("h", None)], timestamp_ms=1_700_000_000_000)
    log.append(topic, None, key="k")
    first, second = log.read(topic)
    assert (first.key, first.value, first.headers) == (b"k", b'{"a":1}', (("h", b"1"), ("h", None)))
    assert (first.offset, first.timestamp_ms) == (0, 1_700_000_000_000)
    assert (second.offset, second.value) == (1, None)


def test_many_records_keep_their_order_and_give_the_joined_position(log: Log, new_topic: NewTopic) -> None:
    topic = new_topic(partitions=3)
    position = log.append_many(topic, [(f"k{i % 10}", str(i)) for i in range(5000)])
    assert position == log.end(topic)
    per_key = [[int(r.value or b"") for r in log.read(topic, key=f"k{k}")] for k in range(10)]
    assert per_key == [list(range(k, 5000, 10)) for k in range(10)]


def test_append_many_takes_every_form_of_a_record(log: Log, new_topic: NewTopic) -> None:
    topic = new_topic(partitions=2)
    log.append(topic, "read", key="copied", partition=1)
    [copied] = log.read(topic)
    log.append_many(topic, ["bare", ("k", {"a": 1}), NewRecord("new", partition=1, headers={"h": "v"}), copied])
    assert sorted(values(log, topic), key=str) == sorted([b"read", b"bare", b'{"a":1}', b"new", b"read"], key=str)


def test_appending_nothing_gives_the_empty_position(log: Log, new_topic: NewTopic) -> None:
    assert log.append_many(new_topic(), []) == Position()


def test_appends_of_many_threads_are_all_acknowledged_once(log: Log, new_topic: NewTopic) -> None:
    topic, positions = new_topic(), []

    def append() -> None:
        positions.extend(log.append(topic, "x") for _ in range(20))

    threads = [threading.Thread(target=append) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert sorted(p[TopicPartition(topic, 0)] for p in positions) == list(range(1, 161))


def test_an_append_to_an_unknown_topic_creates_nothing_and_says_how_to(log: Log) -> None:
    with pytest.raises(UnknownTopicError, match=r"log\.create_topic\('no-such'\)"):
        log.append("no-such", "x")
    with pytest.raises(UnknownTopicError):
        log.append_many("no-such", ["x"])
    assert "no-such" not in log.topics()


def test_an_append_to_a_partition_that_is_not_there_is_refused(log: Log, new_topic: NewTopic) -> None:
    topic = new_topic()
    with pytest.raises(UnknownTopicError):
        log.append(topic, "x", partition=7)
    assert log.append(topic, "x") == Position.of(topic, 0, 1)


@pytest.mark.parametrize("count", [100, 2000], ids=["at once", "in bulk"])
def test_a_record_over_the_limit_is_refused_and_nothing_else_is_lost(log: Log, new_topic: NewTopic, count: int) -> None:
    topic = new_topic(max_message_bytes="10000")
    assert log.append_many(topic, ["x" * 1000] * count) == Position.of(topic, 0, count)
    with pytest.raises(RecordTooLargeError, match=r"max\.message\.bytes is 10000"):
        log.append(topic, "x" * 20_000)
    assert log.append(topic, "after") == Position.of(topic, 0, count + 1)


def test_one_record_over_the_limit_fails_the_bulk_it_is_in(log: Log, new_topic: NewTopic) -> None:
    topic = new_topic(max_message_bytes="10000")
    with pytest.raises(RecordTooLargeError, match=r"max\.message\.bytes is 10000"):
        log.append_many(topic, (("x" * 20_000) if number == 700 else "x" for number in range(2000)))
    assert log.append(topic, "after")


def test_a_topic_made_again_is_appended_to_from_its_beginning(log: Log, new_topic: NewTopic) -> None:
    topic = new_topic()
    log.append_many(topic, ["a", "b"])
    log.delete_topic(topic)
    log.create_topic(topic)
    assert log.append(topic, "c") == Position.of(topic, 0, 1)


def test_a_value_without_a_json_form_is_refused_before_anything_is_sent(log: Log, new_topic: NewTopic) -> None:
    topic = new_topic()
    with pytest.raises(SchemaError):
        log.append_many(topic, [{"a": object()}])
    assert log.end(topic) == Position.of(topic, 0, 0)


def test_a_bounded_read_ends_where_the_log_ended_at_its_start(log: Log, new_topic: NewTopic) -> None:
    topic = new_topic()
    log.append_many(topic, ["a", "b"])
    reader = log.read(topic)
    log.append(topic, "c")
    assert [record.value for record in reader] == [b"a", b"b"]
    assert reader.position == reader.end == Position.of(topic, 0, 2)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"start": 3}, "345"),
        ({"start": "latest"}, ""),
        ({"end": 2}, "01"),
        ({"start": 1, "end": 3}, "12"),
        ({"start": "earliest", "limit": 2}, "01"),
        ({"start": 6}, ""),
        ({"end": "earliest"}, ""),
        ({"limit": 0}, ""),
    ],
)
def test_a_read_begins_and_ends_where_it_is_told(
    log: Log, new_topic: NewTopic, options: dict[str, object], expected: str
) -> None:
    topic = new_topic()
    log.append_many(topic, list("012345"))
    assert values(log, topic, **options) == [character.encode() for character in expected]


def test_a_read_from_a_position_starts_absent_partitions_at_their_beginning(log: Log, new_topic: NewTopic) -> None:
    topic = new_topic(partitions=2)
    log.append_many(topic, [NewRecord(f"{p}{n}", partition=p) for n in range(2) for p in range(2)])
    assert sorted(values(log, topic, start=f"{topic}/0:1"), key=str) == [b"01", b"10", b"11"]
    assert values(log, topic, end=Position.of(topic, 1, 1)) == [b"10"]


def test_reading_on_from_a_readers_position_repeats_and_skips_nothing(log: Log, new_topic: NewTopic) -> None:
    topic = new_topic(partitions=3)
    log.append_many(topic, [(str(i), str(i)) for i in range(100)])
    seen, position = [], Position()
    while position != log.end(topic):
        reader = log.read(topic, start=position, limit=7)
        seen += [record.value for record in reader]
        position = reader.position
    assert sorted(seen, key=str) == sorted([str(i).encode() for i in range(100)], key=str)


def test_a_read_by_time_starts_at_the_first_record_that_is_not_older(log: Log, new_topic: NewTopic) -> None:
    topic = new_topic()
    log.append_many(topic, [NewRecord(str(i), timestamp_ms=1_700_000_000_000 + i * 1000) for i in range(5)])
    third = datetime.datetime.fromtimestamp(1_700_000_002, datetime.UTC)
    assert values(log, topic, start=third) == [b"2", b"3", b"4"]
    assert values(log, topic, end=third) == [b"0", b"1"]
    assert log.positions_at(topic, third) == Position.of(topic, 0, 2)
    assert log.positions_at(topic, datetime.datetime(2100, 1, 1)) == Position.of(topic, 0, 5)


@pytest.mark.parametrize("start", [9, -1, "t/0:9"])
def test_a_start_beyond_the_log_is_refused(log: Log, new_topic: NewTopic, start: int | str) -> None:
    topic = new_topic()
    log.append(topic, "x")
    with pytest.raises(OffsetOutOfRangeError):
        log.read(topic, start=start.replace("t/", f"{topic}/") if isinstance(start, str) else start)


def test_a_read_by_key_looks_in_the_keys_partition_or_in_all(log: Log, new_topic: NewTopic) -> None:
    topic = new_topic(partitions=4)
    elsewhere = (partition_for(b"UA", 4) + 1) % 4
    log.append_many(topic, [NewRecord("home", key="UA"), NewRecord("away", key="UA", partition=elsewhere), ("DL", "-")])
    assert values(log, topic, key="UA") == [b"home"]
    assert sorted(values(log, topic, key="UA", every_partition=True), key=str) == [b"away", b"home"]


def test_a_read_by_key_begins_at_a_position_that_names_all_partitions(log: Log, new_topic: NewTopic) -> None:
    topic = new_topic(partitions=4)
    middle = log.append_many(topic, [("UA", "1"), ("DL", "-"), ("AA", "-"), ("B6", "-"), ("EV", "-")])
    log.append(topic, "2", key="UA")
    assert values(log, topic, key="UA", start=middle) == [b"2"]
    with pytest.raises(UnknownTopicError, match="no partition"):
        log.read(topic, key="UA", start=f"{topic}/4:0")


def test_reading_an_unknown_topic_is_an_error(log: Log) -> None:
    with pytest.raises(UnknownTopicError, match="'no-such'"):
        log.read("no-such")


def test_a_follower_sees_records_as_they_come_and_knows_its_position(log: Log, new_topic: NewTopic) -> None:
    first, second = new_topic(), new_topic()
    log.append(first, "before")
    with log.follow(first, second) as follower:
        log.append(second, "one")
        log.append(first, "two")
        assert {next(follower).value, next(follower).value} == {b"one", b"two"}
        assert follower.position == log.end(first, second)


def test_closing_a_follower_ends_who_waits_for_it(log: Log, new_topic: NewTopic) -> None:
    follower, seen = log.follow(new_topic(), start="earliest"), []
    thread = threading.Thread(target=lambda: seen.extend(follower))
    thread.start()
    follower.close()
    thread.join(10)
    assert not thread.is_alive()
    assert seen == []


def test_a_topic_is_created_described_altered_and_deleted(log: Log) -> None:
    log.create_topic("life", partitions=3, configs={"cleanup.policy": "compact"})
    log.append("life", "x", key="k")
    description = log.describe_topic("life")
    assert (description.info.partitions, description.offsets) == (3, 1)
    assert description.configs["cleanup.policy"] == "compact"
    assert log.topics()["life"].topic_id == description.info.topic_id
    log.cluster_admin.set_topic_configs("life", {"retention.ms": "5000"})
    eventually(  # a broker of Apache Kafka learns of it from the controller, some time after the answer
        lambda: log.describe_topic("life").configs["retention.ms"] == "5000", "the config is changed"
    )
    assert log.describe_topic("life").configs["cleanup.policy"] == "compact"
    with pytest.raises(ConfigError, match="life"):
        log.cluster_admin.set_topic_configs("life", {"cleanup.policy": "sometimes"})
    log.delete_topic("life")
    with pytest.raises(UnknownTopicError):
        log.cluster_admin.set_topic_configs("life", {"retention.ms": "5000"})
    with pytest.raises(UnknownTopicError):
        log.delete_topic("life")


def test_creating_a_topic_twice_is_an_error_unless_that_is_allowed(log: Log, new_topic: NewTopic) -> None:
    topic = new_topic(partitions=2)
    with pytest.raises(TopicExistsError):
        log.create_topic(topic)
    assert log.create_topic(topic, partitions=9, exist_ok=True).partitions == 2


@pytest.mark.parametrize(
    ("name", "options", "error"),
    [
        ("bad name", {}, InputError),
        ("fine", {"configs": {"cleanup.policy": "sometimes"}}, ConfigError),
        ("fine", {"partitions": 0}, ConfigError),
    ],
)
def test_an_impossible_topic_is_refused(log: Log, name: str, options: dict[str, object], error: type) -> None:
    with pytest.raises(error):
        log.create_topic(name, **options)  # type: ignore[arg-type]


def test_a_closed_log_refuses_every_call(bootstrap: str, new_topic: NewTopic) -> None:
    topic, log = new_topic(), Log(bootstrap, timeout_s=15.0)
    log.append(topic, "x")
    log.close()
    for call in (lambda: log.append(topic, "x"), log.topics, lambda: log.read(topic)):
        with pytest.raises(LogUnavailableError):
            call()


def test_a_log_that_is_not_there_is_unavailable_in_time() -> None:
    with Log("127.0.0.1:1", timeout_s=0.2) as log:
        with pytest.raises(LogUnavailableError, match="is it running"):
            log.topics()
        with pytest.raises(LogUnavailableError):
            log.append("t", "x")


@pytest.mark.parametrize("bootstrap", ["", "host:port:x", "a b", "host:0"])
def test_what_is_no_address_is_refused_at_once(bootstrap: str) -> None:
    with pytest.raises(ConfigError, match="HOST:PORT"):
        Log(bootstrap)


def test_the_producer_puts_keys_where_the_reader_looks(log: Log) -> None:
    log.create_topic("partitioned", partitions=7)
    for key in (b"", b"a", b"ab", b"abc", b"abcd", "Zürich".encode(), b"\xff\x00"):
        position = log.append("partitioned", "x", key=key)
        assert position.covers(Position.of("partitioned", partition_for(key, 7), 1))
