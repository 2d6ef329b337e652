"""Spark over a topic with batches that cannot be read: it stops by name, or skips by name."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import StreamingQueryException

from mainstem.client.log import Log
from mainstem.errors import PipelineFailedError
from mainstem.model import TopicPartition
from mainstem.pipelines.losses import recorded_losses
from mainstem.testing.embedded import EmbeddedBroker
from tests.spark.flights_app import Flights
from tests.support.damage import DAMAGES, plant

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
TOPIC = "flights"
GOOD = [0, 1, 4, 5, 8, 9, 12, 13]
DAMAGED = {(2, 4), (6, 8), (10, 12)}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedBroker]:
    """A log with a topic of seven batches of two records: the second, fourth and sixth are damaged, each otherwise."""
    with (
        EmbeddedBroker(tmp_path_factory.mktemp("damaged")) as broker,
        Log(broker.bootstrap, timeout_s=10) as log,
    ):
        log.create_topic(TOPIC, partitions=1)
        for first in range(0, 14, 2):
            log.append_many(TOPIC, [(f"k{n}", {"n": n}) for n in (first, first + 1)])
        broker._stop_broker()
        for offset, how in zip((2, 6, 10), DAMAGES, strict=True):
            plant(broker.directory, TopicPartition(TOPIC, 0), offset, how)
        broker.start()
        yield broker


@pytest.fixture
def log(broker: EmbeddedBroker) -> Iterator[Log]:
    with Log(broker.bootstrap, timeout_s=10) as log:
        yield log


def options(broker: EmbeddedBroker, **more: str) -> dict[str, str]:
    return {"kafka.bootstrap.servers": broker.bootstrap, "subscribe": TOPIC, "startingOffsets": "earliest", **more}


def noted(log: Log, reader: str) -> set[tuple[int, int | None]]:
    losses = [loss for loss in recorded_losses(log, reader) if loss.topic_partition.topic == TOPIC]
    assert all(loss.rule.startswith("damaged: ") for loss in losses)
    return {(loss.start, loss.end) for loss in losses}


@pytest.mark.parametrize("typed", [{}, {"valueSchema": "n INT"}])
def test_a_batch_read_stops_at_damage_or_notes_it_and_goes_on(
    spark: SparkSession, broker: EmbeddedBroker, log: Log, typed: dict[str, str]
) -> None:
    def read(**more: str) -> Any:
        return spark.read.format("mainstem").options(**options(broker, **typed, **more)).load()

    with pytest.raises(Exception, match=r"flights/0:2-3 cannot be read.*onDamaged"):
        read().collect()
    rows = read(onDamaged="skip", groupIdPrefix=f"batch{len(typed)}").collect()
    assert sorted(row.n if typed else row.offset for row in rows) == GOOD
    assert noted(log, f"batch{len(typed)}") == DAMAGED


def test_a_table_stops_at_damage_or_goes_on(spark: SparkSession, broker: EmbeddedBroker) -> None:
    given = {"kafka.bootstrap.servers": broker.bootstrap, "subscribe": TOPIC, "table": "true", "valueSchema": "n INT"}
    with pytest.raises(Exception, match="flights/0:2-3 cannot be read"):
        spark.read.format("mainstem").options(**given).load().collect()
    rows = spark.read.format("mainstem").options(**given, onDamaged="skip").load().collect()
    assert sorted(row.n for row in rows) == GOOD


def test_a_stream_stops_at_damage_and_goes_on_from_its_checkpoint_when_it_may(
    spark: SparkSession, broker: EmbeddedBroker, log: Log, tmp_path: Path
) -> None:
    seen: list[int] = []

    def stream(**more: str) -> None:
        frame = spark.readStream.format("mainstem").options(**options(broker, **more)).load()
        writer = frame.writeStream.foreachBatch(lambda rows, _: seen.extend(row.offset for row in rows.collect()))
        query = writer.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True).start()
        assert query.awaitTermination(120)

    name = {"kafka.group.id": "of-damage", "maxOffsetsPerTrigger": "2"}
    with pytest.raises(StreamingQueryException, match="flights/0:2-3 cannot be read"):
        stream(**name)
    assert seen == [0, 1]
    stream(**name, onDamaged="skip")
    assert seen == GOOD
    assert noted(log, "of-damage") == DAMAGED


@pytest.mark.parametrize("on_damaged", ["stop", "skip"])
def test_a_pipeline_stops_at_damage_or_goes_on_as_it_is_declared(
    spark: SparkSession, tmp_path: Path, on_damaged: Any
) -> None:
    with EmbeddedBroker(tmp_path / "log") as broker:
        with Log(broker.bootstrap, timeout_s=10) as log:
            world = Flights(spark, broker, log, tmp_path / "checkpoints")
            copies = f"{world.prefix}.copies"
            declare = world.app.pipeline(
                world.flights, into=copies, key="flight_id", name=copies, partitions=1, on_damaged=on_damaged
            )
            declare(lambda flights: flights)
            world.fly(("UA", 1))
            [record] = log.read(world.flights.name)
        broker._stop_broker()
        plant(broker.directory, TopicPartition(world.flights.name, record.partition), record.offset, "garbage")
        broker.start()
        with Log(broker.bootstrap, timeout_s=10) as world.log:
            world.fly(("AA", 2))
            if on_damaged == "stop":
                place = f"{world.flights.name}/{record.partition}:0-0 cannot be read"
                with pytest.raises(PipelineFailedError, match=place):
                    world.run_once()
                return
            world.run_once()
            assert [json.loads(copy.value or b"")["carrier"] for copy in world.log.read(copies)] == ["AA"]
            [loss] = recorded_losses(world.log, f"mainstem-{copies}")
            assert (loss.start, loss.end) == (0, 1)
