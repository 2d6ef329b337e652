"""A sink as a query drives it, without Spark, and a reader of another make that judges what it wrote."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from itertools import count

import pyarrow as pa
from kafka import KafkaConsumer
from kafka import TopicPartition as KafkaTopicPartition

from mainstem.spark.options.options import LogOptions, WriteOptions
from mainstem.spark.sink.sink_run import Prepared, SinkRun, StepObserver, ignore_step
from mainstem.spark.sink.task_appender import Rows
from mainstem.spark.sink.transactions import begin_run, decide_and_finish, prepare

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

    def task(
        self, run: SinkRun, batch_id: int, task: int, on_step: StepObserver = ignore_step, *, rows: int = 10
    ) -> Prepared:
        with prepare(run, batch_id, task, self.write, on_step) as preparing:
            if rows and not preparing.is_decided:
                values = [f"{batch_id}-{task}-{row}".encode() for row in range(rows)]
                preparing.out.append(self.topic, Rows(pa.array(values), pa.array(values)))
        return preparing.prepared

    def batch(self, run: SinkRun, batch_id: int, on_step: StepObserver = ignore_step) -> None:
        prepared = [self.task(run, batch_id, task, on_step, rows=rows) for task, rows in enumerate((10, 0, 10))]
        decide_and_finish(run, batch_id, prepared, on_step=on_step)

    def read(self) -> list[str]:
        """What a reader of another make sees; it would stall at an open transaction."""
        return sorted(read_committed(self.log.bootstrap, self.topic))


def read_committed(bootstrap: str, topic: str) -> Iterator[str]:
    """Every committed record to the high watermark.

    Not only to the last stable offset: Apache Kafka answers EndTxn before it has written the markers.
    """
    with closing(KafkaConsumer(bootstrap_servers=bootstrap)) as uncommitted:
        partitions = [KafkaTopicPartition(topic, number) for number in uncommitted.partitions_for_topic(topic) or ()]
        ends = uncommitted.end_offsets(partitions)
    with closing(KafkaConsumer(bootstrap_servers=bootstrap, isolation_level="read_committed")) as consumer:
        consumer.assign(partitions)
        consumer.seek_to_beginning()
        while any(consumer.position(each) < ends[each] for each in partitions):
            for records in consumer.poll(timeout_ms=500).values():
                for record in records:
                    yield record.value.decode()


def truth(batches: int) -> list[str]:
    return sorted(f"{batch}-{task}-{row}" for batch in range(batches) for task in (0, 2) for row in range(10))


def killing(step: str) -> StepObserver:
    def steps(done: str) -> None:
        if done == step:
            raise KilledError(step)

    return steps
