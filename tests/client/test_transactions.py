"""``log.transaction()``, and reading over transactions of others; against Mainstem and Apache Kafka."""

from __future__ import annotations

import contextlib
import time
import uuid
from collections.abc import Callable

import pytest
from confluent_kafka import Producer

from mainstem.client.log import Log
from mainstem.client.wire.admin.groups import committed_offsets
from mainstem.client.wire.cluster.cluster import Isolation, WireClient
from mainstem.errors import (
    ConfigError,
    InputError,
    ProducerFencedError,
    RecordTooLargeError,
    SchemaError,
    TransactionTimeoutError,
    UnknownTopicError,
)
from mainstem.model import Position, TopicPartition

NewTopic = Callable[..., str]


def values(log: Log, topic: str) -> list[bytes | None]:
    """The committed values, when no transaction is open: Apache Kafka answers a commit before it can be read."""
    until_stable(log, topic)
    return [record.value for record in log.read(topic)]


def until_stable(log: Log, topic: str) -> None:
    partitions = [TopicPartition(topic, number) for number in range(log.topics()[topic].partitions)]
    deadline_s = time.monotonic() + 100
    with WireClient(log.bootstrap, timeout_s=60) as wire:
        while wire.list_offsets(partitions) != wire.list_offsets(partitions, isolation=Isolation.READ_COMMITTED):
            assert time.monotonic() < deadline_s, "a transaction stays open"


def test_a_reader_passes_aborted_records_and_markers_and_stops_before_what_is_open(
    log: Log, new_topic: NewTopic
) -> None:
    topic = new_topic()
    producer = Producer({"bootstrap.servers": log.bootstrap, "transactional.id": f"{topic}-txn"})
    producer.init_transactions(15)
    for sent, finish in (("ab", producer.commit_transaction), ("cd", producer.abort_transaction)):
        producer.begin_transaction()
        for value in sent:
            producer.produce(topic, value)
        producer.flush(15)
        finish(15)
    producer.begin_transaction()
    open_offsets: list[int | None] = []
    producer.produce(topic, "open", on_delivery=lambda _, message: open_offsets.append(message.offset()))
    producer.flush(15)
    reader = log.read(topic)
    assert [record.value for record in reader] == [b"a", b"b"]
    assert open_offsets == [reader.position[TopicPartition(topic, 0)]]
    producer.abort_transaction(15)


def test_records_of_several_topics_and_an_offset_count_together(
    log: Log, wire: WireClient, new_topic: NewTopic
) -> None:
    orders, totals, group = new_topic(3), new_topic(), f"g-{uuid.uuid4()}"
    consumed = Position.of(orders, 0, 4)
    with log.transaction() as tx:
        for number in range(10):
            tx.append(orders, {"n": number}, key=f"k{number}")
        tx.append_many(totals, ["one", ("key", "two")])
        tx.commit_offsets(group, consumed, metadata="up to here")
        assert list(log.read(totals)) == []
        assert not committed_offsets(wire, group)
    assert len(values(log, orders)) == 10
    assert values(log, totals) == [b"one", b"two"]
    assert committed_offsets(wire, group, require_stable=True) == consumed
    assert tx.position[TopicPartition(totals, 0)] == 2
    assert log.end(orders, totals).covers(tx.position)


def test_an_exception_aborts_all_of_it_and_the_next_transaction_goes_on(
    log: Log, wire: WireClient, new_topic: NewTopic
) -> None:
    topic, group = new_topic(2), f"g-{uuid.uuid4()}"

    def fail() -> None:
        with log.transaction() as tx:
            tx.append(topic, "x" * 300_000, partition=0)  # large enough to be sent at once
            tx.append(topic, "gone", partition=1)
            tx.commit_offsets(group, Position.of(topic, 0, 9))
            raise ZeroDivisionError

    for number in range(3):
        with pytest.raises(ZeroDivisionError):
            fail()
        with log.transaction() as tx:
            tx.append(topic, f"kept {number}", partition=0)
    assert values(log, topic) == [b"kept 0", b"kept 1", b"kept 2"]
    assert not committed_offsets(wire, group, require_stable=True)


def test_a_transaction_may_be_empty(log: Log) -> None:
    with log.transaction() as tx:
        pass
    assert tx.position == Position()


def test_a_transaction_larger_than_its_buffers_keeps_the_order_of_each_partition(log: Log, new_topic: NewTopic) -> None:
    topic = new_topic(2)
    with log.transaction() as tx:
        for number in range(200):
            tx.append(topic, f"{number:05d}" + "x" * 20_000, partition=number % 2)
    until_stable(log, topic)
    read = [record.value[:5] for record in log.read(topic) if record.value and record.partition == 1]
    assert read == [b"%05d" % number for number in range(1, 200, 2)]


def test_a_newer_program_with_the_same_id_fences_the_older_one(log: Log, new_topic: NewTopic) -> None:
    topic, name = new_topic(), f"id-{uuid.uuid4()}"

    def be_overtaken() -> None:
        with log.transaction(name) as older:
            older.append(topic, "x" * 300_000)
            with log.transaction(name) as newer:
                newer.append(topic, "newer")

    with pytest.raises(ProducerFencedError, match="another producer has taken over"):
        be_overtaken()
    assert values(log, topic) == [b"newer"]


def test_a_transaction_that_takes_too_long_says_so(log: Log, new_topic: NewTopic) -> None:
    topic = new_topic()

    def be_slow() -> None:
        with log.transaction(timeout_s=0.2) as tx:
            tx.append(topic, "x" * 300_000)  # large enough to be sent at once
            until_stable(log, topic)  # until the log itself has ended it

    with pytest.raises(TransactionTimeoutError, match="longer timeout_s"):
        be_slow()
    assert values(log, topic) == []


def test_what_is_wrong_with_a_record_aborts_the_transaction(log: Log, new_topic: NewTopic) -> None:
    topic, small = new_topic(), new_topic(max_message_bytes="1000")

    def append(target: str, value: object) -> None:
        with log.transaction() as tx:
            tx.append(topic, "gone")
            tx.append(target, value)

    for error_class, target, value in (
        (UnknownTopicError, "no-such-topic", "v"),
        (RecordTooLargeError, small, "v" * 5000),
        (SchemaError, topic, {"n": float("nan")}),
    ):
        with pytest.raises(error_class):
            append(target, value)
    with log.transaction() as tx:
        tx.append(topic, "kept")
    assert values(log, topic) == [b"kept"]


def test_a_refused_record_aborts_the_transaction_though_the_block_catches_the_error(
    log: Log, new_topic: NewTopic
) -> None:
    topic, small = new_topic(), new_topic(max_message_bytes="1000")

    def append() -> None:
        with log.transaction() as tx:
            tx.append(topic, "gone")
            tx.append(small, "would be lost")
            with contextlib.suppress(RecordTooLargeError):
                tx.append(small, "x" * 300_000)  # large enough to be sent at once, with the one before

    with pytest.raises(RecordTooLargeError):
        append()
    with log.transaction() as tx:
        tx.append(topic, "kept")
    assert (values(log, topic), values(log, small)) == ([b"kept"], [])


def test_a_transaction_is_used_in_its_block_and_once(log: Log, new_topic: NewTopic) -> None:
    topic = new_topic()
    tx = log.transaction()
    with pytest.raises(InputError, match="inside of its block"):
        tx.append(topic, "early")
    with tx:
        tx.append(topic, "in time")
        with pytest.raises(InputError, match="when it is committed"):
            _ = tx.position
    with pytest.raises(InputError, match="used once"), tx:
        pass
    assert values(log, topic) == [b"in time"]


def test_a_time_out_that_the_log_does_not_allow_is_refused(log: Log) -> None:
    with pytest.raises(ConfigError), log.transaction(timeout_s=10**6):
        pass
