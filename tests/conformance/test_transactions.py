"""Transactions with foreign clients: confluent-kafka (version 1 of transactions), kafka-python; and after a SIGKILL."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kafka
import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from tests.broker.harness import LogProcess
from tests.conformance.test_confluent_kafka import TIMEOUT_S, consumer, new_topic, produce


def transactional(log: LogProcess, transactional_id: str, **more: Any) -> Producer:
    settings = {
        "bootstrap.servers": log.bootstrap,
        "transactional.id": transactional_id,
        "linger.ms": 0,
        "log_level": 0,
    }
    producer = Producer(settings | {name.replace("_", "."): value for name, value in more.items()})
    producer.init_transactions(TIMEOUT_S)
    return producer


def read(log: LogProcess, topic: str, *, isolation: str = "read_committed", partitions: int = 1) -> list[bytes]:
    """All values up to the end that this reader sees."""
    reader = consumer(log, isolation_level=isolation, enable_partition_eof=True)
    reader.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
    values, ends, deadline_s = [], set(), time.monotonic() + 60
    while len(ends) < partitions:
        assert time.monotonic() < deadline_s, "the end of the partitions did not come"
        message = reader.poll(1)
        if message is None:
            continue
        error = message.error()
        if error is None:
            values.append(message.value())
        elif error.code() == KafkaError._PARTITION_EOF:
            ends.add(message.partition())
        else:
            raise KafkaException(error)
    reader.close()
    return values


def test_confluent_commits_and_aborts(log: LogProcess) -> None:
    topic = new_topic(log, partitions=2)
    producer = transactional(log, f"{topic}-tx")
    for number in range(6):
        producer.begin_transaction()
        for partition in (0, 1):
            producer.produce(topic, b"%d" % number, partition=partition)
        if number % 3 == 1:
            producer.abort_transaction(TIMEOUT_S)
        else:
            producer.commit_transaction(TIMEOUT_S)
    assert sorted(read(log, topic, partitions=2)) == sorted([b"0", b"2", b"3", b"5"] * 2)
    everything = read(log, topic, isolation="read_uncommitted", partitions=2)
    assert set(everything) >= {b"0", b"2", b"3", b"5"}  # what is aborted before it was sent never comes


def test_confluent_sees_nothing_of_an_open_transaction(log: LogProcess) -> None:
    topic = new_topic(log)
    producer = transactional(log, f"{topic}-tx")
    producer.begin_transaction()
    producer.produce(topic, b"open")
    assert producer.flush(TIMEOUT_S) == 0
    produce(log, topic, b"behind")
    assert read(log, topic) == []
    assert read(log, topic, isolation="read_uncommitted") == [b"open", b"behind"]
    producer.abort_transaction(TIMEOUT_S)
    assert read(log, topic) == [b"behind"]


def test_confluent_fences_an_older_producer(log: LogProcess) -> None:
    topic = new_topic(log)
    older = transactional(log, f"{topic}-tx")
    older.begin_transaction()
    older.produce(topic, b"older")
    older.flush(TIMEOUT_S)
    newer = transactional(log, f"{topic}-tx")
    with pytest.raises(KafkaException) as caught:
        older.commit_transaction(TIMEOUT_S)
    assert caught.value.args[0].fatal()
    newer.begin_transaction()
    newer.produce(topic, b"newer")
    newer.commit_transaction(TIMEOUT_S)
    assert read(log, topic) == [b"newer"]


@pytest.fixture
def pipe(log: LogProcess) -> Iterator[tuple[str, str, Consumer]]:
    """Two topics, the first with ten records, and a member of a group that reads it."""
    source, sink = new_topic(log), new_topic(log)
    produce(log, source, *(b"%d" % number for number in range(10)))
    reader = consumer(log, group=f"{source}-group", isolation_level="read_committed")
    reader.subscribe([source])
    yield source, sink, reader
    reader.close()


def test_confluent_commits_offsets_with_what_it_wrote(log: LogProcess, pipe: tuple[str, str, Consumer]) -> None:
    source, sink, reader = pipe
    producer = transactional(log, f"{source}-tx")
    done = 0
    deadline_s = time.monotonic() + 60
    while done < 10:
        assert time.monotonic() < deadline_s
        messages = reader.consume(3, 1)
        if not messages:
            continue
        producer.begin_transaction()
        for message in messages:
            assert message.error() is None
            producer.produce(sink, b"seen " + message.value())
        producer.send_offsets_to_transaction(
            reader.position(reader.assignment()), reader.consumer_group_metadata(), TIMEOUT_S
        )
        producer.commit_transaction(TIMEOUT_S)
        done += len(messages)
    (committed,) = reader.committed([TopicPartition(source, 0)], TIMEOUT_S)
    assert committed.offset == 10
    assert read(log, sink) == [b"seen %d" % number for number in range(10)]


def test_confluent_takes_offsets_back_with_an_abort(log: LogProcess, pipe: tuple[str, str, Consumer]) -> None:
    source, _, reader = pipe
    producer = transactional(log, f"{source}-tx")
    deadline_s = time.monotonic() + 60
    while not reader.assignment():
        assert time.monotonic() < deadline_s
        reader.poll(0.1)
    producer.begin_transaction()
    producer.send_offsets_to_transaction([TopicPartition(source, 0, 7)], reader.consumer_group_metadata(), TIMEOUT_S)
    producer.abort_transaction(TIMEOUT_S)
    (committed,) = reader.committed([TopicPartition(source, 0)], TIMEOUT_S)
    assert committed.offset < 0


def test_kafka_python_commits_aborts_and_reads_committed(log: LogProcess) -> None:
    topic = new_topic(log)
    producer = kafka.KafkaProducer(bootstrap_servers=log.bootstrap, transactional_id=f"{topic}-tx")
    producer.init_transactions()
    for number in range(4):
        producer.begin_transaction()
        producer.send(topic, b"%d" % number).get(TIMEOUT_S)
        offsets = {kafka.TopicPartition(topic, 0): kafka.structs.OffsetAndMetadata(number, "", -1)}
        producer.send_offsets_to_transaction(offsets, f"{topic}-group")
        if number % 2:
            producer.abort_transaction()
        else:
            producer.commit_transaction()
    producer.close()
    assert read(log, topic) == [b"0", b"2"]
    reader = kafka.KafkaConsumer(
        bootstrap_servers=log.bootstrap,
        isolation_level="read_committed",
        group_id=f"{topic}-group",
        consumer_timeout_ms=60_000,
        enable_auto_commit=False,
    )
    partition = kafka.TopicPartition(topic, 0)
    reader.assign([partition])
    assert reader.committed(partition) == 2
    reader.seek_to_beginning(partition)
    assert [next(reader).value for _ in range(2)] == [b"0", b"2"]
    reader.close()


def test_a_killed_log_leaves_each_transaction_whole(tmp_path: Path) -> None:
    """A SIGKILL amid commits: what the producer was told is there, what it was not told is there or not, as a whole."""
    with LogProcess(tmp_path / "data") as log:
        topic = new_topic(log, partitions=2)
        told = []
        for life in range(2):
            producer = transactional(log, "tx")
            for number in range(5):
                value = b"%d-%d" % (life, number)
                producer.begin_transaction()
                for partition in (0, 1):
                    producer.produce(topic, value, partition=partition)
                producer.commit_transaction(TIMEOUT_S)
                told.append(value)
            producer.begin_transaction()
            for partition in (0, 1):
                producer.produce(topic, b"%d-open" % life, partition=partition)
            producer.flush(TIMEOUT_S)
            log.kill()
            log.start()
        transactional(log, "tx")  # aborts what the last life left open
        values = read(log, topic, partitions=2)
    assert sorted(values) == sorted(told * 2)
