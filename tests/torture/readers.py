"""What ``read_committed`` readers of other makes see of a topic: kafka-python and Kafka's console consumer."""

from __future__ import annotations

import time
from typing import Literal

import kafka

from mainstem.client.log import Log
from mainstem.model import Position
from mainstem.pipelines.progress import PROGRESS_TOPIC, Progress
from tests.support.apache_kafka import run_tool
from tests.torture.truth import Covered, Seen, from_value

_TIMEOUT_S = 120.0
Isolation = Literal["read_committed", "read_uncommitted"]


def by_kafka_python(bootstrap: str, topic: str, *, isolation: Isolation = "read_committed") -> list[Seen]:
    """All that kafka-python sees up to the end of each partition."""
    consumer = kafka.KafkaConsumer(
        bootstrap_servers=bootstrap, isolation_level=isolation, enable_auto_commit=False, fetch_max_wait_ms=20
    )
    try:
        return _read_to_end(consumer, topic)
    finally:
        consumer.close()


def _read_to_end(consumer: kafka.KafkaConsumer, topic: str) -> list[Seen]:
    places = [kafka.TopicPartition(topic, number) for number in sorted(consumer.partitions_for_topic(topic) or ())]
    assert places, f"there is no topic {topic}"
    consumer.assign(places)
    consumer.seek_to_beginning(*places)
    ends, seen, deadline_s = consumer.end_offsets(places), list[Seen](), time.monotonic() + _TIMEOUT_S
    while any(consumer.position(place) < ends[place] for place in places):
        assert time.monotonic() < deadline_s, f"the end of {topic} was not reached"
        for place, records in consumer.poll(timeout_ms=200).items():
            seen += [Seen(place.partition, record.offset, *from_value(record.value)) for record in records]
    return seen


def open_partitions(bootstrap: str, topic: str) -> dict[int, tuple[int, int]]:
    """The partitions in which a transaction is open: their last stable offsets and ends."""
    ends = []
    for isolation in ("read_committed", "read_uncommitted"):
        consumer = kafka.KafkaConsumer(bootstrap_servers=bootstrap, isolation_level=isolation)
        places = [kafka.TopicPartition(topic, number) for number in consumer.partitions_for_topic(topic) or ()]
        ends.append({place.partition: offset for place, offset in consumer.end_offsets(places).items()})
        consumer.close()
    stable, end = ends
    return {number: (stable[number], end[number]) for number in end if stable[number] < end[number]}


def by_console_consumer(bootstrap: str, topic: str, *, quiet_ms: int = 5000) -> list[Seen]:
    """All that Kafka's console consumer sees until nothing has come for ``quiet_ms``."""
    argv = ["--bootstrap-server", bootstrap, "--topic", topic, "--from-beginning", "--timeout-ms", str(quiet_ms)]
    argv += ["--isolation-level", "read_committed", "--formatter-property", "print.partition=true"]
    argv += ["--formatter-property", "print.offset=true"]
    done = run_tool("org.apache.kafka.tools.consumer.ConsoleConsumer", *argv, timeout_s=_TIMEOUT_S)
    seen = []
    for line in done.stdout.splitlines():
        partition, offset, value = line.split("\t")
        seen.append(Seen(int(partition.split(":")[1]), int(offset.split(":")[1]), *from_value(value.encode())))
    return seen


def progress_of(bootstrap: str, pipeline: str) -> list[Covered]:
    """What a pipeline, named as its output, said after each of its micro-batches."""
    found = []
    with Log(bootstrap) as log:
        for record in log.read(PROGRESS_TOPIC, every_partition=True):
            said = Progress.from_record(record)
            if said is not None and said.pipeline == pipeline and said.batch_id >= 0:
                found.append(
                    Covered(*({tp.partition: n for tp, n in place.items()} for place in (said.source, said.sink)))
                )
    return found


def _by_number(position: Position) -> dict[int, int]:
    """A position within one topic."""
    return {tp.partition: offset for tp, offset in position.items()}
