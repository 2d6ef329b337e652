"""Spark itself reads a topic whose old segments are in the backup's store alone: a batch, and a stream."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from mainstem.spark.tasks.local_segments import OFFSETS_MIN
from tests.backup.test_remote_segments import TIERED, TOPIC, World
from tests.spark.test_streams import run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

COUNT = OFFSETS_MIN + 2_000
"""Enough for tasks to read the store themselves."""


def test_a_batch_and_a_stream_read_old_records_from_the_store(spark: SparkSession, tmp_path: Path) -> None:
    world = World(tmp_path)
    with world.running() as (_, log):
        log.create_topic(TOPIC, partitions=1, configs=TIERED | {"internal.segment.bytes": "100000"})
        for first in range(0, COUNT, 500):
            log.append_many(TOPIC, [f"{n} {'x' * 60}" for n in range(first, first + 500)])
        world.move()
    assert len(world.files(".remote")) > 5
    with world.running(mainstem_remote_storage_url="") as (broker, _):  # this log may not read there: the tasks do
        options = {"kafka.bootstrap.servers": broker.bootstrap, "subscribe": TOPIC, "startingOffsets": "earliest"}
        frame = spark.read.format("mainstem").options(**options).load()
        numbers = frame.selectExpr("cast(split(cast(value AS string), ' ')[0] AS int) AS n")
        [found] = numbers.distinct().selectExpr("count(*)", "sum(n)").collect()
        assert tuple(found) == (COUNT, sum(range(COUNT)))
    with world.running() as (broker, _):
        _, counts = run(spark, broker.bootstrap, tmp_path / "checkpoint", subscribe=TOPIC)
        assert sum(counts) == COUNT
