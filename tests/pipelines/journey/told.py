"""A log on which pipelines have told of micro-batches, as their drivers do."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from confluent_kafka import Producer

from mainstem.client.log import Log
from mainstem.model import Position
from mainstem.pipelines.journey.finished_batches import BATCHES_TOPIC, FinishedBatch, create_batches_topic
from mainstem.pipelines.journey.journey import JourneyFinder, Sees
from mainstem.pipelines.journey.steps import Journey
from mainstem.pipelines.overview import Overview
from mainstem.pipelines.progress import PROGRESS_TOPIC, Progress
from mainstem.pipelines.state import STATES_TOPIC, PipelineState, Status

NOW_MS = 1_800_000_000_000


def position(text: str) -> Position:
    """A position by its text."""
    return Position.parse(text)


class ToldLog:
    """The log, and what is told on it."""

    def __init__(self, log: Log, *topics: str) -> None:
        self.log = log
        for name in (PROGRESS_TOPIC, STATES_TOPIC):
            log.create_topic(name, partitions=1, exist_ok=True)
        create_batches_topic(log)
        for name in topics:
            log.create_topic(name, partitions=1, exist_ok=True)

    def batch(
        self, pipeline: str, batch_id: int, source: tuple[str, str], sink: tuple[str, str], time_ms: int | None = None
    ) -> FinishedBatch:
        """Tell of a micro-batch: where its sources and its sinks were before it, and after it."""
        ends = [position(text) for text in (*source, *sink)]
        told = FinishedBatch(pipeline, batch_id, *ends, tuple(sorted(ends[1].topics)), tuple(sorted(ends[3].topics)))
        key, value = told.to_record()
        self.log.append(BATCHES_TOPIC, value, key=key, timestamp_ms=time_ms)
        return told

    def progress(self, told: FinishedBatch, *, tables: str = "") -> None:
        """Tell the progress after a micro-batch."""
        now = Progress(
            told.pipeline, told.batch_id, told.source_to, told.sink_to, position(tables), told.inputs, told.outputs
        )
        self.log.append_many(PROGRESS_TOPIC, [now.to_record()])

    def state(self, pipeline: str, status: Status, seen_ms: int, **more: Any) -> None:
        """Tell the state of a pipeline."""
        state = dataclasses.replace(PipelineState(pipeline, "app", status, "1 second", seen_ms, seen_ms), **more)
        self.log.append_many(STATES_TOPIC, [state.to_record()])

    def journey(self, record: str, sees: Sees | None = None, **options: Any) -> Journey:
        """The journey of the record at ``topic/partition:offset``."""
        [(tp, offset)] = position(record).items()
        return JourneyFinder(self.log, Overview(self.log, **options), **options).find(tp, offset, sees)


@contextmanager
def left_open(log: Log, transactional_id: str, topic: str) -> Iterator[None]:
    """A transaction of a real Kafka client, with one record in a topic, that is open meanwhile."""
    producer = Producer({"bootstrap.servers": log.bootstrap, "transactional.id": transactional_id})
    producer.init_transactions(20)
    producer.begin_transaction()
    producer.produce(topic, b"{}", b"open", 0)
    producer.flush(20)
    try:
        yield
    finally:
        producer.abort_transaction(20)
