"""An App over two topics, run in the tests' Spark session: what tests of pipelines stand on."""

from __future__ import annotations

import itertools
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mainstem.client.log import Log
from mainstem.model import Position
from mainstem.pipelines.app import App
from mainstem.pipelines.deploy import deploy
from mainstem.pipelines.progress import PROGRESS_TOPIC, Progress
from mainstem.pipelines.state import STATES_TOPIC, PipelineState
from mainstem.testing.embedded import EmbeddedBroker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FLIGHT = "flight_id STRING, carrier STRING, delay INT"
NUMBERS = itertools.count(1)


class Flights:
    """An App of its own topics: flights, airlines; and what its tests do with them."""

    def __init__(self, spark: SparkSession, broker: EmbeddedBroker, log: Log, checkpoints: Path) -> None:
        self.prefix = f"app{next(NUMBERS)}"
        self.app = App(self.prefix)
        self.flights = self.app.topic(f"{self.prefix}.flights", schema=FLIGHT, key="flight_id", partitions=2)
        self.airlines = self.app.topic(
            f"{self.prefix}.airlines", "carrier STRING, name STRING", "carrier", compacted=True
        )
        self.log = log
        self.broker, self.bootstrap = broker, broker.bootstrap
        self.spark, self.checkpoints = spark, checkpoints

    def fly(self, *delays: tuple[str, int | None]) -> Position:
        deploy(self.app, self.log)
        rows = [{"flight_id": f"f{next(NUMBERS)}", "carrier": carrier, "delay": delay} for carrier, delay in delays]
        return self.log.append_many(self.flights.name, [(row["flight_id"], row) for row in rows])

    def name(self, carrier: str, name: str) -> Position:
        deploy(self.app, self.log)
        return self.log.append(self.airlines.name, {"carrier": carrier, "name": name}, key=carrier)

    def runner(self, **options: Any) -> Any:
        from mainstem.spark.runner import Runner

        return Runner(self.app, self.bootstrap, checkpoints=self.checkpoints, spark=self.spark, **options)

    def run_once(self, **options: Any) -> None:
        self.runner(**options).run(once=True)

    @contextmanager
    def running(self) -> Iterator[None]:
        runner, ready = self.runner(), threading.Event()
        thread = threading.Thread(target=runner.run, kwargs={"on_ready": ready.set})
        thread.start()
        try:
            assert ready.wait(180)
            yield
        finally:
            runner.stop()
            thread.join(180)

    def latest(self, topic: str) -> dict[str, Any]:
        records = self.log.read(topic)
        return {(record.key or b"").decode(): json.loads(record.value or b"null") for record in records}

    def rows(self, topic: str) -> list[dict[str, Any]]:
        return [json.loads(record.value or b"null") for record in self.log.read(topic)]

    def has_written(self, sink: Position, *topics: str) -> bool:
        """Whether ``sink`` lies behind all rows of the topics; markers of transactions may follow."""
        rows = Position.join(
            Position.of(topic, record.partition, record.offset + 1)
            for topic in topics
            for record in self.log.read(topic)
        )
        return sink.covers(rows) and self.log.end(*topics).covers(sink)

    def progress(self, pipeline: str) -> list[Progress]:
        said = [Progress.from_record(record) for record in self.log.read(PROGRESS_TOPIC)]
        return [progress for progress in said if progress is not None and progress.pipeline == pipeline]

    def wait_until(self, pipeline: str, covers: Callable[[Progress], bool]) -> Progress:
        for record in self.log.follow(PROGRESS_TOPIC, start="earliest"):
            said = Progress.from_record(record)
            if said is not None and said.pipeline == pipeline and covers(said):
                return said
        raise AssertionError("a follower has no end")

    def wait_for_state(self, pipeline: str, is_so: Callable[[PipelineState], bool]) -> PipelineState:
        for record in self.log.follow(STATES_TOPIC, start="earliest"):
            state = PipelineState.from_record(record)
            if state is not None and state.pipeline == pipeline and is_so(state):
                return state
        raise AssertionError("a follower has no end")
