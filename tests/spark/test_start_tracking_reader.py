"""Streams on a Spark that does not say where a stream stands: the reader knows it from the calls that Spark makes."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql.types import StructType

from mainstem.client.log import Log
from mainstem.client.records import NewRecord
from mainstem.errors import ConfigError
from mainstem.spark.options.read_options import ReadOptions
from mainstem.spark.planning.start_tracking_reader import StartTrackingReader
from mainstem.spark.startup.java_classes import first_class
from mainstem.testing.embedded import EmbeddedBroker


def reader(broker: EmbeddedBroker, topic: str, **options: str) -> StartTrackingReader:
    given = {"kafka.bootstrap.servers": broker.bootstrap, "subscribe": topic, **options}
    return StartTrackingReader(ReadOptions.parse(given), StructType())


def ends(offsets: dict[str, Any]) -> list[int]:
    return list(offsets["position"].values())


def test_a_limit_bounds_each_micro_batch_from_the_end_of_the_one_before(
    mainstem_broker: EmbeddedBroker, mainstem_log: Log, mainstem_topic: str
) -> None:
    mainstem_log.append_many(mainstem_topic, [NewRecord(b"v") for _ in range(25)])
    options = {"startingOffsets": "earliest", "maxOffsetsPerTrigger": "10"}
    stream = reader(mainstem_broker, mainstem_topic, **options)
    first = stream.latestOffset()  # Spark asks so before it asks for the initial offsets
    initial = stream.initialOffset()
    assert (ends(initial), ends(first)) == ([0], [10])
    assert len(stream.partitions(initial, first)) == 1
    second = stream.latestOffset()
    assert ends(second) == [20]

    resumed = reader(mainstem_broker, mainstem_topic, **options)
    assert resumed.partitions(first, first) == []  # by this Spark says where a query goes on
    assert ends(resumed.latestOffset()) == [20]


def test_an_end_that_was_planned_without_the_checkpoint_is_refused(
    mainstem_broker: EmbeddedBroker, mainstem_log: Log, mainstem_topic: str
) -> None:
    stream = reader(mainstem_broker, mainstem_topic)
    mainstem_log.append(mainstem_topic, b"v")
    kept = stream.latestOffset()
    mainstem_log.append(mainstem_topic, b"left out")
    resumed = reader(mainstem_broker, mainstem_topic)
    end = resumed.latestOffset()  # "latest", since the reader does not know the checkpoint
    kept.pop("initial", None)
    with pytest.raises(ConfigError, match="triggerAvailableNowWrapper"):
        resumed.partitions(kept, end)


def test_the_first_java_class_that_there_is_is_taken() -> None:
    there = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    assert first_class("org.apache.spark.sql.Nowhere", there) == there
    assert first_class("org.apache.spark.sql.Nowhere") is None
