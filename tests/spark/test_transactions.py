"""Exactly once, by the seam itself and without Spark: every step of a micro-batch is the last one once."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import pyarrow as pa
import pytest
from kafka import KafkaConsumer
from kafka import TopicPartition as KafkaTopicPartition

from mainstem.client.log import Log
from mainstem.spark import own_producers
from mainstem.spark.options import LogOptions, WriteOptions
from mainstem.spark.producing import Rows
from mainstem.spark.transactions import (
    Prepared,
    SinkRun,
    Steps,
    begin_run,
    decide_and_finish,
    no_steps,
    prepare,
)
from mainstem.testing.embedded import EmbeddedBroker

TASK_STEPS = ("task:initialized", "task:appended", "task:prepared")
DRIVER_STEPS = ("driver:begun", "driver:decided", "driver:ended-first", "driver:ended-all")
NUMBERS = count()


class KilledError(Exception):
    """Stands for a process that is no more."""


class Sink:
    """What a query does, micro-batch by micro-batch: two tasks with rows, one without."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.topic = topic
        self.log = LogOptions(bootstrap)
        self.sink_id = f"test-{next(NUMBERS)}"
        self.write = WriteOptions(self.log, topic, None, None, "none", None)

    def begin(self) -> SinkRun:
        return begin_run(self.log, self.sink_id)

    def task(self, run: SinkRun, batch_id: int, task: int, steps: Steps = no_steps, *, rows: int = 10) -> Prepared:
        with prepare(run, batch_id, task, self.write, steps) as preparing:
            if rows and not preparing.is_decided:
                values = [f"{batch_id}-{task}-{row}".encode() for row in range(rows)]
                preparing.out.append(self.topic, Rows(pa.array(values), pa.array(values)))
        return preparing.prepared

    def batch(self, run: SinkRun, batch_id: int, steps: Steps = no_steps) -> None:
        prepared = [self.task(run, batch_id, task, steps, rows=rows) for task, rows in enumerate((10, 0, 10))]
        decide_and_finish(run, batch_id, prepared, steps=steps)

    def read(self) -> list[str]:
        """What a reader of another make sees, to the last stable offset; it would stall at an open transaction."""
        return sorted(read_committed(self.log.bootstrap, self.topic))


def read_committed(bootstrap: str, topic: str) -> Iterator[str]:
    consumer = KafkaConsumer(bootstrap_servers=bootstrap, isolation_level="read_committed")
    partitions = [KafkaTopicPartition(topic, number) for number in consumer.partitions_for_topic(topic) or ()]
    consumer.assign(partitions)
    consumer.seek_to_beginning()
    ends = consumer.end_offsets(partitions)
    while any(consumer.position(each) < ends[each] for each in partitions):
        for records in consumer.poll(timeout_ms=500).values():
            for record in records:
                yield record.value.decode()
    consumer.close()


def truth(batches: int) -> list[str]:
    return sorted(f"{batch}-{task}-{row}" for batch in range(batches) for task in (0, 2) for row in range(10))


def killing(step: str) -> Steps:
    def steps(done: str) -> None:
        if done == step:
            raise KilledError(step)

    return steps


@pytest.fixture
def sink(mainstem_broker: EmbeddedBroker, mainstem_log: Log) -> Sink:
    topic = f"transactions-{next(NUMBERS)}"
    mainstem_log.create_topic(topic, partitions=3)
    return Sink(mainstem_broker.bootstrap, topic)


def test_each_micro_batch_is_there_once(sink: Sink) -> None:
    run = sink.begin()
    for batch_id in range(3):
        sink.batch(run, batch_id)
    assert sink.read() == truth(3)


@pytest.mark.parametrize("step", [*TASK_STEPS, *DRIVER_STEPS])
def test_a_run_that_ends_after_any_step_is_finished_by_the_next_one(
    sink: Sink, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = sink.begin()
    sink.batch(run, 0)
    with monkeypatch.context() as dead:
        dead.setattr(own_producers.TransactionalProducer, "failed", lambda *_: None)  # nothing is cleared up
        with pytest.raises(KilledError):
            sink.batch(run, 1, killing(step))
    own_producers._THIS.clear()  # its workers are no more, either
    run = sink.begin()
    sink.batch(run, 1)
    sink.batch(run, 2)
    assert sink.read() == truth(3)
