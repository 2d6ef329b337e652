"""Writing from Spark: rows become records, and a stream's positions travel."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import StreamingQueryException

from mainstem.client.log import Log
from mainstem.client.wire.produce.transaction_requests import end_all, learn_capabilities, open_transactions
from mainstem.model import TopicPartition
from mainstem.pipelines.journey.finished_batches import BATCHES_TOPIC, FinishedBatch
from mainstem.pipelines.progress import PROGRESS_TOPIC, Progress
from mainstem.spark.clients import borrowed
from mainstem.spark.sink.sink_run import SinkRun
from mainstem.testing.embedded import EmbeddedBroker
from tests.spark.sink_world import KilledError, Sink, killing
from tests.spark.versions import several_micro_batches

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark


def write(frame: DataFrame, broker: EmbeddedBroker, mode: str = "append", **options: str) -> None:
    writer = frame.write.format("mainstem").mode(mode).option("kafka.bootstrap.servers", broker.bootstrap)
    writer.options(**options).save()


def test_rows_become_records(
    spark: SparkSession, mainstem_broker: EmbeddedBroker, mainstem_log: Log, mainstem_topic: str
) -> None:
    frame = spark.sql(
        "SELECT 'k' AS key, 'v' AS value, array(named_struct('key', 'h', 'value', X'01')) AS headers, "
        "timestamp_millis(1500) AS timestamp"
    )
    write(frame, mainstem_broker, topic=mainstem_topic)
    record = next(iter(mainstem_log.read(mainstem_topic)))
    assert (record.key, record.value, record.headers, record.timestamp_ms) == (b"k", b"v", (("h", b"\x01"),), 1500)


def test_rows_of_any_columns_are_written_by_a_key_column(
    spark: SparkSession, mainstem_broker: EmbeddedBroker, mainstem_log: Log, mainstem_topic: str
) -> None:
    frame = spark.sql("SELECT 'UA' AS carrier, 7 AS flights, 1.5D AS delay, CAST(null AS STRING) AS note")
    options = {"kafka.compression.type": "zstd", "topic": mainstem_topic}
    write(frame, mainstem_broker, keyColumn="carrier", **options)
    write(frame, mainstem_broker, keyColumn="carrier, flights", **options)
    one, two = mainstem_log.read(mainstem_topic)
    assert (one.key, two.key) == (b"UA", b'["UA",7]')
    assert json.loads(one.value or b"") == {"carrier": "UA", "flights": 7, "delay": 1.5, "note": None}


def test_each_row_may_name_its_topic(spark: SparkSession, mainstem_broker: EmbeddedBroker, mainstem_log: Log) -> None:
    for name in ("sink.a", "sink.b"):
        mainstem_log.create_topic(name)
    write(spark.sql("SELECT t AS topic, t AS value FROM VALUES ('sink.a'), ('sink.b') AS v(t)"), mainstem_broker)
    assert [record.value for name in ("sink.a", "sink.b") for record in mainstem_log.read(name)] == [
        b"sink.a",
        b"sink.b",
    ]


@pytest.mark.parametrize(
    ("query", "options", "message"),
    [
        ("SELECT 1 AS id", {"topic": "t"}, "a record is written from the columns key, value"),
        ("SELECT 'v' AS value", {}, "say where to write"),
        ("SELECT 'v' AS value", {"topic": "nowhere"}, "there is no topic nowhere"),
        ("SELECT 'v' AS value", {"topic": "t", "writeId": "a b"}, "option writeId: 'a b' has other characters"),
        (
            "SELECT 1 AS id",
            {"topic": "t", "keyColumn": "ids"},
            "option keyColumn: there is no column ids; there are id",
        ),
        ("SELECT 1 AS id, array(1) AS a", {"topic": "t", "keyColumn": "id"}, "column a is nested"),
        ("SELECT 'v' AS value", {"topic": "t", "writeVersion": "1"}, "give the option writeId, too"),
    ],
)
def test_what_cannot_be_written_is_one_clear_error(
    spark: SparkSession, mainstem_broker: EmbeddedBroker, query: str, options: dict[str, str], message: str
) -> None:
    with pytest.raises(Exception, match=message):
        write(spark.sql(query), mainstem_broker, **options)


def test_a_log_is_never_overwritten(spark: SparkSession, mainstem_broker: EmbeddedBroker, mainstem_topic: str) -> None:
    with pytest.raises(Exception, match="only ever appended to"):
        write(spark.sql("SELECT 'v' AS value"), mainstem_broker, mode="overwrite", topic=mainstem_topic)


def test_a_batch_write_that_fails_leaves_nothing(
    spark: SparkSession, mainstem_broker: EmbeddedBroker, mainstem_log: Log, mainstem_topic: str
) -> None:
    # One task, whose first rows are in the log when it fails.
    rows = "SELECT if(id = 25000, raise_error('too many'), string(id)) AS value FROM range(0, 30000, 1, 1)"
    with pytest.raises(Exception, match="too many"):
        write(spark.sql(rows), mainstem_broker, topic=mainstem_topic)
    mainstem_log.append(mainstem_topic, b"after")  # nothing open stands before it
    assert [record.value for record in mainstem_log.read(mainstem_topic)] == [b"after"]


def test_a_batch_write_with_a_name_counts_once(
    spark: SparkSession, mainstem_broker: EmbeddedBroker, mainstem_log: Log, mainstem_topic: str
) -> None:
    frame = spark.sql("SELECT string(id) AS value FROM range(0, 100, 1, 4)")
    for version in ("0", "0", "1"):
        write(frame, mainstem_broker, topic=mainstem_topic, writeId=mainstem_topic, writeVersion=version)
    values = sorted(int(record.value or b"") for record in mainstem_log.read(mainstem_topic))
    assert values == sorted([*range(100), *range(100)])


def test_a_batch_write_with_a_name_says_what_is_lost(
    spark: SparkSession, mainstem_broker: EmbeddedBroker, mainstem_log: Log, mainstem_topic: str
) -> None:
    sink = Sink(mainstem_broker.bootstrap, mainstem_topic)
    run = SinkRun(sink.log, f"write-{mainstem_topic}")
    with pytest.raises(KilledError):
        sink.batch(run, 0, killing("driver:decided"))
    with borrowed(sink.log) as client:
        end_all(
            client, open_transactions(client, run.group), learn_capabilities(client), commit=False
        )  # as a time-out does
    with pytest.raises(Exception, match=r"2 of 2 transactions of micro-batch 0 .* records are lost") as raised:
        write(spark.sql("SELECT 'v' AS value"), mainstem_broker, topic=mainstem_topic, writeId=mainstem_topic)
    assert "Writing job failed" not in str(raised.value)
    assert not list(mainstem_log.read(mainstem_topic))


@several_micro_batches
def test_a_stream_that_loses_its_last_commit_appends_nothing_twice(
    spark: SparkSession, mainstem_broker: EmbeddedBroker, mainstem_log: Log, mainstem_topic: str, tmp_path: Path
) -> None:
    output = f"{mainstem_topic}.out"
    mainstem_log.create_topic(output)
    options = {"kafka.bootstrap.servers": mainstem_broker.bootstrap, "checkpointLocation": str(tmp_path)}
    reader = spark.readStream.format("mainstem").options(**options).option("subscribe", mainstem_topic)
    frame = reader.option("startingOffsets", "earliest").load().select("value")
    for number in range(3):
        mainstem_log.append(mainstem_topic, f"{number}".encode())
        writer = frame.writeStream.format("mainstem").options(**options, topic=output)
        assert writer.trigger(availableNow=True).start().awaitTermination(120)
        (tmp_path / "commits" / f"{number}").unlink()
    assert [record.value for record in mainstem_log.read(output)] == [b"0", b"1", b"2"]


def test_positions_travel_through_a_plain_stream(
    spark: SparkSession, mainstem_broker: EmbeddedBroker, mainstem_log: Log, mainstem_topic: str, tmp_path: Path
) -> None:
    mainstem_log.create_topic(PROGRESS_TOPIC, configs={"cleanup.policy": "compact"}, exist_ok=True)
    mainstem_log.create_topic("plain.out", exist_ok=True)
    position = mainstem_log.append(mainstem_topic, b"v")
    options = {"kafka.bootstrap.servers": mainstem_broker.bootstrap, "checkpointLocation": str(tmp_path)}
    reader = spark.readStream.format("mainstem").options(**options).option("subscribe", mainstem_topic)
    frame = reader.option("startingOffsets", "earliest").load().select("value")
    writer = frame.writeStream.format("mainstem").options(**options, topic="plain.out", pipeline="plain")
    assert writer.trigger(availableNow=True).start().awaitTermination(180)
    said = [Progress.from_record(record) for record in mainstem_log.read(PROGRESS_TOPIC) if record.key == b"plain"][-1]
    assert said is not None
    assert said.source.covers(position)
    assert said.sink == mainstem_log.end("plain.out")


@pytest.mark.parametrize("guarantee", ["exactly_once", "at_least_once"])
def test_the_first_micro_batch_of_a_stream_wrote_its_own_records(
    spark: SparkSession,
    mainstem_broker: EmbeddedBroker,
    mainstem_log: Log,
    mainstem_topic: str,
    tmp_path: Path,
    guarantee: str,
) -> None:
    mainstem_log.create_topic(out := f"{guarantee}.first", partitions=1)
    mainstem_log.append_many(out, [b"of another writer"] * 3)
    for value in (b"a", b"b"):
        mainstem_log.append(mainstem_topic, value)
    options = {"kafka.bootstrap.servers": mainstem_broker.bootstrap, "checkpointLocation": str(tmp_path)}
    reader = spark.readStream.format("mainstem").options(**options).option("subscribe", mainstem_topic)
    frame = reader.option("startingOffsets", "earliest").load().select("value")
    options |= {"topic": out, "pipeline": guarantee, "deliveryGuarantee": guarantee}
    assert (
        frame.writeStream.format("mainstem").options(**options).trigger(availableNow=True).start().awaitTermination(180)
    )
    [record] = [each for each in mainstem_log.read(BATCHES_TOPIC) if each.key == guarantee.encode()]
    batch = FinishedBatch.from_record(record)
    assert batch is not None
    first = TopicPartition(out, 0)
    assert (batch.sink_from[first], batch.sink_to[first]) == (3, mainstem_log.end(out)[first])


def test_a_pipeline_that_streams_no_topic_is_refused_before_it_commits(
    spark: SparkSession, mainstem_broker: EmbeddedBroker, mainstem_log: Log, mainstem_topic: str, tmp_path: Path
) -> None:
    frame = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 1).load()
    options = {"kafka.bootstrap.servers": mainstem_broker.bootstrap, "checkpointLocation": str(tmp_path)}
    writer = frame.selectExpr("CAST(value AS STRING) AS value").writeStream.format("mainstem")
    writer = writer.options(**options, topic=mainstem_topic, pipeline="of-rates")
    with pytest.raises(StreamingQueryException, match="of-rates streams no topic by the format mainstem"):
        writer.start().awaitTermination(180)
    assert list(mainstem_log.read(mainstem_topic)) == []
