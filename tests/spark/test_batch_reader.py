"""A batch read's planning, in Spark: filters, bounds, splits, and what is said when it cannot."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import datasource
from pyspark.sql.types import StructType

from mainstem.client.log import Log
from mainstem.client.records import NewRecord
from mainstem.errors import ConfigError, OffsetOutOfRangeError
from mainstem.pipelines.losses import recorded_losses
from mainstem.spark.options.read_options import ReadOptions
from mainstem.spark.planning import splits
from mainstem.spark.planning.batch_reader import LogReader
from mainstem.testing.embedded import EmbeddedBroker
from tests.spark.versions import filters
from tests.support.removed_records import delete_records

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PUSHDOWN = "spark.sql.python.filterPushdown.enabled"
FILTERS = (
    "offset >= 3 AND offset < 7",
    "offset IN (1, 8) AND partition = 0",
    "partition <=> 1",
    "topic = 'nowhere'",
    "timestamp >= TIMESTAMP '1970-01-01 00:00:04'",
    "timestamp > TIMESTAMP '1970-01-01 00:00:04.0005' AND timestamp < TIMESTAMP '1970-01-01 00:00:08'",
    "timestamp = TIMESTAMP '1970-01-01 00:00:05' OR offset = 2",
    "NOT offset = 3 AND key IS NULL",
)


@pytest.fixture
def topic(mainstem_log: Log, mainstem_topic: str) -> str:
    """Ten records in each of two partitions, whose times go up and down."""
    name = f"{mainstem_topic}-2"
    mainstem_log.create_topic(name, partitions=2, configs={"retention.ms": "-1"})
    times = (1, 6, 2, 4, 3, 9, 5, 7, 4, 8)
    mainstem_log.append_many(
        name,
        [
            NewRecord(b"v", partition=p, timestamp_ms=1000 * time, key=b"k" if p else None)
            for p in (0, 1)
            for time in times
        ],
    )
    return name


def reader(broker: EmbeddedBroker, topic: str, **options: str) -> LogReader:
    given = {"kafka.bootstrap.servers": broker.bootstrap, "subscribe": topic, **options}
    return LogReader(ReadOptions.parse({name.replace("_", "."): value for name, value in given.items()}), StructType())


def ranges(planned: LogReader) -> list[str]:
    parts = [part for task in planned.partitions() for part in task.ranges]  # type: ignore[attr-defined]
    return sorted(f"{part.topic_partition.partition}:{part.start}-{part.end}" for part in parts)


@pytest.mark.spark
def test_a_filter_gives_the_same_rows_whether_it_is_handed_down_or_not(
    spark: SparkSession, mainstem_broker: EmbeddedBroker, topic: str
) -> None:
    def rows(condition: str, *, handed_down: bool) -> list[tuple[Any, ...]]:
        spark.conf.set(PUSHDOWN, str(handed_down).lower())
        return sorted((row.partition, row.offset) for row in load().filter(condition).collect())

    def load() -> DataFrame:
        options = {"kafka.bootstrap.servers": mainstem_broker.bootstrap, "subscribe": topic}
        return spark.read.format("mainstem").options(**options).load()

    try:
        for condition in FILTERS:
            assert rows(condition, handed_down=True) == rows(condition, handed_down=False), condition
        spark.conf.set(PUSHDOWN, "true")
        assert load().filter("offset >= 3 AND offset < 7 AND partition = 0").rdd.getNumPartitions() == 1
    finally:
        spark.conf.set(PUSHDOWN, "true")


@filters
@pytest.mark.spark
def test_spark_hands_times_down_as_moments(spark: SparkSession, mainstem_broker: EmbeddedBroker, topic: str) -> None:
    options = {"kafka.bootstrap.servers": mainstem_broker.bootstrap, "subscribe": topic, "maxRecordsPerPartition": "1"}
    frame = spark.read.format("mainstem").options(**options).load()
    late = frame.filter("timestamp >= TIMESTAMP '1970-01-01 00:00:09'")
    assert late.count() == 2
    assert late.rdd.getNumPartitions() == 10  # offsets 5 to 9 of both partitions, each a task
    few = frame.filter(f"offset >= 8 AND partition = 0 AND topic = '{topic}'")
    assert few.rdd.getNumPartitions() == 2


@filters
def test_a_filter_narrows_what_is_read(mainstem_broker: EmbeddedBroker, topic: str) -> None:
    planned = reader(mainstem_broker, topic)
    given: list[datasource.Filter] = [datasource.GreaterThan(("offset",), 6)]
    assert planned.pushFilters(given) == given  # Spark applies it again
    assert ranges(planned) == ["0:7-10", "1:7-10"]


def test_a_table_takes_no_filter(mainstem_broker: EmbeddedBroker, topic: str) -> None:
    planned = reader(mainstem_broker, topic, table="true", valueSchema="a INT")
    assert "pushFilters" not in vars(planned)


def test_a_batch_reads_from_time_to_time(mainstem_broker: EmbeddedBroker, topic: str) -> None:
    assert ranges(reader(mainstem_broker, topic, startingTimestamp="2000", endingTimestamp="9000")) == [
        "0:1-5",
        "1:1-5",
    ]
    each = {
        "startingOffsetsByTimestamp": json.dumps({topic: {"0": 7000, "1": 9500}}),
        "startingOffsetsByTimestampStrategy": "latest",
        "endingOffsetsByTimestamp": json.dumps({topic: {"0": 99_000, "1": 99_000}}),
    }
    assert ranges(reader(mainstem_broker, topic, **each)) == ["0:5-10"]


def test_large_partitions_are_cut_by_size(mainstem_broker: EmbeddedBroker, mainstem_log: Log, topic: str) -> None:
    mainstem_log.append_many(topic, [NewRecord(bytes([n]) * 10_000, partition=1) for n in range(10)])
    planned = reader(mainstem_broker, topic, maxBytesPerPartition="60000").partitions()
    by_partition = [task.ranges[0].topic_partition.partition for task in planned]  # type: ignore[attr-defined]
    assert by_partition.count(0) == 1
    assert by_partition.count(1) >= 2


def test_a_large_read_is_cut_for_all_cores_but_only_when_partitions_are_fewer(
    mainstem_broker: EmbeddedBroker, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(splits, "UNASKED_OFFSETS_MIN", 20)
    monkeypatch.setattr(splits, "_cores", lambda: 4)
    assert len(reader(mainstem_broker, topic).partitions()) == 4
    monkeypatch.setattr(splits, "_cores", lambda: 2)
    assert len(reader(mainstem_broker, topic).partitions()) == 1
    monkeypatch.setattr(splits, "_cores", lambda: 4)
    assert len(reader(mainstem_broker, topic, minPartitions="2").partitions()) == 2


def test_an_offset_that_was_removed_is_named_with_what_removed_it(mainstem_broker: EmbeddedBroker, topic: str) -> None:
    delete_records(mainstem_broker.bootstrap, topic, 1, 6)
    start = json.dumps({topic: {"0": 2, "1": 2}})
    with pytest.raises(
        OffsetOutOfRangeError, match=r"/1: offsets 2 to 5 \(removed by a delete-records request: no ret"
    ):
        reader(mainstem_broker, topic, startingOffsets=start).partitions()


def test_a_read_that_may_lose_offsets_notes_them_and_goes_on(
    mainstem_broker: EmbeddedBroker, mainstem_log: Log, topic: str
) -> None:
    delete_records(mainstem_broker.bootstrap, topic, 1, 6)
    start = json.dumps({topic: {"0": 2, "1": 2}})
    options = {"startingOffsets": start, "failOnDataLoss": "false", "kafka_group_id": topic}
    assert ranges(reader(mainstem_broker, topic, **options)) == ["0:2-10", "1:6-10"]
    assert [(loss.start, loss.end) for loss in recorded_losses(mainstem_log, topic)] == [(2, 6)]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"startingOffsets": '{"TOPIC":{"0":11,"1":0}}'}, "startingOffsets: TOPIC/0 has 11, but ends at 10"),
        ({"endingOffsets": '{"TOPIC":{"0":11,"1":0}}'}, "endingOffsets: TOPIC/0 has 11, but ends at 10"),
        ({"endingOffsets": '{"TOPIC":{"0":1}}'}, "endingOffsets must name every partition.*TOPIC/1 is missing"),
        ({"endingOffsetsByTimestamp": '{"TOPIC":{"0":1}}'}, "TOPIC/1 is missing .each needs a time"),
        ({"startingTimestamp": "99000"}, "no record at or after 99000; set startingOffsetsByTimestampStrategy=latest"),
        ({"startingOffsets": "latest"}, "reads nothing"),
        ({"maxOffsetsPerTrigger": "5"}, "is for streams"),
    ],
)
def test_what_a_batch_cannot_read_is_refused(
    mainstem_broker: EmbeddedBroker, topic: str, options: dict[str, str], message: str
) -> None:
    named = {name: value.replace("TOPIC", topic) for name, value in options.items()}
    with pytest.raises(ConfigError, match=message.replace("TOPIC", topic)):
        ranges(reader(mainstem_broker, topic, **named))


def test_times_are_those_of_records_and_not_of_transaction_markers(
    mainstem_broker: EmbeddedBroker, mainstem_log: Log, mainstem_topic: str
) -> None:
    for time_ms in (1_000, 2_000, 3_000, 4_000):  # records at 0, 2, 4, 6; the markers have today's date
        with mainstem_log.transaction() as transaction:
            transaction.append(mainstem_topic, b"v", timestamp_ms=time_ms)
    assert ranges(reader(mainstem_broker, mainstem_topic, endingTimestamp="3500")) == ["0:0-6"]
    assert ranges(reader(mainstem_broker, mainstem_topic, startingTimestamp="3500")) == ["0:6-8"]
    by_time = json.dumps({mainstem_topic: {"0": 2_500}})
    assert ranges(reader(mainstem_broker, mainstem_topic, endingOffsetsByTimestamp=by_time)) == ["0:0-4"]
    with pytest.raises(ConfigError, match="no record at or after 5000"):
        ranges(reader(mainstem_broker, mainstem_topic, startingTimestamp="5000"))
