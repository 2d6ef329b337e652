"""Streams planned by Spark itself: what it makes of limits, what its progress shows, what Kafka's tools show."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from mainstem.client.log import Log
from mainstem.client.records import NewRecord
from mainstem.pipelines.losses import recorded_losses
from mainstem.testing.embedded import EmbeddedBroker
from tests.spark.versions import several_micro_batches
from tests.support.apache_kafka import ApacheKafka, create_offsets_topic, run_tool
from tests.support.removed_records import delete_records

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

pytestmark = pytest.mark.spark


def run(spark: SparkSession, bootstrap: str, checkpoint: Path, **options: str) -> tuple[StreamingQuery, list[int]]:
    """Run a query over what is there now; how many records each micro-batch had."""
    counts: list[int] = []
    given = {"kafka.bootstrap.servers": bootstrap, "startingOffsets": "earliest", **options}
    frame = spark.readStream.format("mainstem").options(**{n.replace("_", "."): v for n, v in given.items()}).load()
    writer = frame.writeStream.foreachBatch(lambda batch, _: counts.append(batch.count()))
    query = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
    assert query.awaitTermination(120)
    return query, counts


def latest_offsets(query: StreamingQuery) -> list[dict[str, Any]]:
    """What the progress of each micro-batch shows of the source's ends."""
    return [json.loads(progress["sources"][0]["latestOffset"]) for progress in query.recentProgress]


@several_micro_batches
def test_spark_keeps_to_each_kind_of_limit_and_shows_the_backlog(
    spark: SparkSession, mainstem_broker: EmbeddedBroker, mainstem_log: Log, mainstem_topic: str, tmp_path: Path
) -> None:
    mainstem_log.append_many(mainstem_topic, [NewRecord(random.Random(n).randbytes(100)) for n in range(300)])
    query, counts = run(
        spark, mainstem_broker.bootstrap, tmp_path / "rows", subscribe=mainstem_topic, maxOffsetsPerTrigger="200"
    )
    assert counts == [200, 100]
    assert [shown["backlog"] for shown in latest_offsets(query)][:2] == [100, 0]
    assert latest_offsets(query)[0]["position"] == {f"{mainstem_topic}/0": 300}
    limits = {"maxBytesPerTrigger": "15000", "minOffsetsPerTrigger": "2"}
    _, counts = run(spark, mainstem_broker.bootstrap, tmp_path / "bytes", subscribe=mainstem_topic, **limits)
    assert sum(counts) == 300
    assert 2 <= len(counts) <= 4
    _, counts = run(
        spark, mainstem_broker.bootstrap, tmp_path / "least", subscribe=mainstem_topic, minOffsetsPerTrigger="999"
    )
    assert counts == [300]


@several_micro_batches
def test_on_apache_kafka_lag_shows_in_its_tools_and_loss_is_noted(
    spark: SparkSession, apache_kafka: ApacheKafka, tmp_path: Path
) -> None:
    options = {"subscribe": "flights", "kafka_group_id": "of-spark", "failOnDataLoss": "false"}
    kafka = apache_kafka
    with Log(kafka.bootstrap) as log:
        log.create_topic("flights", partitions=2, configs={"retention.ms": "3600000"})
        log.append_many("flights", [NewRecord(b"v", partition=n % 2) for n in range(10)])
        create_offsets_topic(kafka.bootstrap, "flights")
        run(spark, kafka.bootstrap, tmp_path, **options)
        log.append_many("flights", [NewRecord(b"v", partition=0) for _ in range(3)])
        assert described(kafka, "of-spark") == {("flights", 0): (5, 8, 3), ("flights", 1): (5, 5, 0)}
        delete_records(kafka.bootstrap, "flights", 0, 7)
        _, counts = run(spark, kafka.bootstrap, tmp_path, **options)
        assert sum(counts) == 1
        assert described(kafka, "of-spark")["flights", 0] == (8, 8, 0)
        (loss,) = recorded_losses(log, "of-spark")
        assert str(loss) == "flights/0: offsets 5 to 6 (removed by retention.ms=3600000, or a delete-records request)"


def described(kafka: ApacheKafka, group: str) -> dict[tuple[str, int], tuple[int, int, int]]:
    """Committed offset, end and lag of each partition, as Kafka's own tool tells them."""
    argv = ["--bootstrap-server", kafka.bootstrap, "--describe", "--group", group]
    said = run_tool("org.apache.kafka.tools.consumer.group.ConsumerGroupCommand", *argv).stdout
    rows = re.findall(rf"^{group}\s+(\S+)\s+(\d+)\s+(\d+)\s+(\d+)\s+(\d+)", said, re.MULTILINE)
    return {(topic, int(number)): (int(done), int(end), int(lag)) for topic, number, done, end, lag in rows}
