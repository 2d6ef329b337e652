"""The data source in Spark: batch reads and streams, raw and typed, and what it says when it cannot."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer
from pyspark.errors import AnalysisException

from mainstem.client.log import Log
from mainstem.client.records import NewRecord
from mainstem.testing.embedded import EmbeddedBroker
from tests.spark.versions import several_micro_batches
from tests.support.avro_values import encode, framed, registry

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark


@pytest.fixture
def topic(mainstem_log: Log, request: pytest.FixtureRequest) -> str:
    name = f"source.{abs(hash(request.node.name))}"
    mainstem_log.create_topic(name, partitions=2, configs={"retention.ms": "-1"})  # some records are from long ago
    return name


def load(spark: SparkSession, broker: EmbeddedBroker, **options: str) -> DataFrame:
    reader = spark.read.format("mainstem").option("kafka.bootstrap.servers", broker.bootstrap)
    return reader.options(**options).load()


def run_stream(spark: SparkSession, broker: EmbeddedBroker, checkpoint: Path, **options: str) -> list[list[Any]]:
    """The values of each micro-batch, of all that is there now."""
    batches: list[list[Any]] = []
    reader = spark.readStream.format("mainstem").option("kafka.bootstrap.servers", broker.bootstrap)
    frame = reader.options(**{"startingOffsets": "earliest", **options}).load()
    writer = frame.writeStream.foreachBatch(lambda batch, _: batches.append([bytes(r.value) for r in batch.collect()]))
    query = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
    assert query.awaitTermination(180)
    return batches


def test_a_record_is_read_whole(
    spark: SparkSession, mainstem_broker: EmbeddedBroker, mainstem_log: Log, topic: str
) -> None:
    mainstem_log.append(topic, b"v", key=b"k", headers=[("h", b"1"), ("h", None)], partition=1, timestamp_ms=1500)
    row = load(spark, mainstem_broker, subscribe=topic, includeHeaders="true").collect()[0]
    assert (bytes(row.key), bytes(row.value), row.topic, row.partition, row.offset) == (b"k", b"v", topic, 1, 0)
    assert (row.timestamp.replace(tzinfo=dt.UTC).timestamp(), row.timestampType) == (1.5, 0)
    assert [(header.key, header.value) for header in row.headers] == [("h", b"1"), ("h", None)]


def test_the_columns_are_those_of_sparks_kafka_connector(
    spark: SparkSession, mainstem_broker: EmbeddedBroker, topic: str
) -> None:
    names = ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType"]
    assert load(spark, mainstem_broker, subscribe=topic).columns == names
    assert load(spark, mainstem_broker, subscribe=topic, includeHeaders="true").columns == [*names, "headers"]


def test_a_former_name_is_read_where_it_is_asked_for_and_else_the_error_says_the_present_one(
    spark: SparkSession, mainstem_broker: EmbeddedBroker, mainstem_log: Log, topic: str
) -> None:
    mainstem_log.append(topic, b"v")
    asked = {"kafka.bootstrap.servers": mainstem_broker.bootstrap, "subscribe": topic}
    for reader in (spark.read, spark.readStream):
        source = reader.format("mainstem").options(**asked)
        for query in ("timestamp_type", "timestamp_type = 0 AS is_own"):
            with pytest.raises(AnalysisException, match=r"Did you mean one of the following\? \[`timestampType`"):
                source.load().selectExpr(query)
        assert source.option("columns", "value,timestamp_type").load().selectExpr("timestamp_type").columns
    by_option = load(spark, mainstem_broker, subscribe=topic, columns="value,timestampType,timestamp_type")
    by_schema = spark.read.format("mainstem").options(**asked).schema("value BINARY, timestamp_type INT").load()
    for frame in (by_option, by_schema):
        assert [(bytes(row.value), row.timestamp_type) for row in frame.where("timestamp_type = 0").collect()] == [
            (b"v", 0)
        ]


def test_nulls_are_read_as_nulls(
    spark: SparkSession, mainstem_broker: EmbeddedBroker, mainstem_log: Log, topic: str
) -> None:
    mainstem_log.append(topic, None)
    row = load(spark, mainstem_broker, subscribe=topic, includeHeaders="true").collect()[0]
    assert (row.key, row.value, row.headers) == (None, None, None)


def test_columns_can_be_chosen(
    spark: SparkSession, mainstem_broker: EmbeddedBroker, mainstem_log: Log, topic: str
) -> None:
    mainstem_log.append(topic, b"v")
    frame = load(spark, mainstem_broker, subscribe=topic, columns="value,offset")
    assert [tuple(row) for row in frame.collect()] == [(b"v", 0)]


def test_a_schema_chooses_columns_too(
    spark: SparkSession, mainstem_broker: EmbeddedBroker, mainstem_log: Log, topic: str
) -> None:
    mainstem_log.append(topic, b"v")
    reader = spark.read.format("mainstem").option("kafka.bootstrap.servers", mainstem_broker.bootstrap)
    frame = reader.option("subscribe", topic).schema("offset BIGINT, value BINARY").load()
    assert [tuple(row) for row in frame.collect()] == [(0, b"v")]


def test_a_batch_reads_from_offsets_to_offsets(
    spark: SparkSession, mainstem_broker: EmbeddedBroker, mainstem_log: Log, topic: str
) -> None:
    mainstem_log.append_many(topic, [NewRecord(str(n).encode(), partition=n % 2) for n in range(20)])
    start, end = json.dumps({topic: {"0": 2, "1": -2}}), json.dumps({topic: {"0": 5, "1": 1}})
    frame = load(spark, mainstem_broker, subscribe=topic, startingOffsets=start, endingOffsets=end)
    assert sorted((row.partition, row.offset) for row in frame.collect()) == [(0, 2), (0, 3), (0, 4), (1, 0)]


def test_topics_are_found_by_pattern(spark: SparkSession, mainstem_broker: EmbeddedBroker, mainstem_log: Log) -> None:
    for name in ("pattern.a", "pattern.b", "pattern"):
        mainstem_log.create_topic(name)
        mainstem_log.append(name, name)
    frame = load(spark, mainstem_broker, subscribePattern=r"pattern\..")
    assert sorted(row.topic for row in frame.collect()) == ["pattern.a", "pattern.b"]


def test_aborted_transactions_are_out_of_sight_unless_asked_for(
    spark: SparkSession, mainstem_broker: EmbeddedBroker, mainstem_log: Log, topic: str, tmp_path: Path
) -> None:
    settings = {"bootstrap.servers": mainstem_broker.bootstrap}
    aborted, committed = (Producer({**settings, "transactional.id": f"{topic}.{name}"}) for name in "ac")
    for producer, value in ((aborted, b"aborted"), (committed, b"committed")):  # they interleave in the partition
        producer.init_transactions(60)
        producer.begin_transaction()
        producer.produce(topic, value, partition=0)
        assert producer.flush(60) == 0
    committed.commit_transaction(60)
    mainstem_log.append(topic, b"outside", partition=0)
    aborted.abort_transaction(60)
    assert run_stream(spark, mainstem_broker, tmp_path, subscribe=topic) == [[b"committed", b"outside"]]
    read = load(spark, mainstem_broker, subscribe=topic, **{"kafka.isolation.level": "read_uncommitted"}).collect()
    assert sorted(bytes(row.value) for row in read) == [b"aborted", b"committed", b"outside"]


def test_partitions_can_be_assigned(
    spark: SparkSession, mainstem_broker: EmbeddedBroker, mainstem_log: Log, topic: str
) -> None:
    mainstem_log.append_many(topic, [NewRecord(b"v", partition=n % 2) for n in range(4)])
    frame = load(spark, mainstem_broker, assign=json.dumps({topic: [1]}))
    assert {row.partition for row in frame.collect()} == {1}


def test_a_scan_is_cut_into_as_many_tasks_as_asked_for(
    spark: SparkSession, mainstem_broker: EmbeddedBroker, mainstem_log: Log, topic: str
) -> None:
    mainstem_log.append_many(topic, [NewRecord(b"v", partition=0) for _ in range(100)])
    frame = load(spark, mainstem_broker, subscribe=topic, minPartitions="5")
    assert frame.rdd.getNumPartitions() == 5
    assert frame.count() == 100


def test_rows_are_typed_by_the_registered_schema(
    spark: SparkSession, mainstem_broker: EmbeddedBroker, mainstem_log: Log, topic: str
) -> None:
    from mainstem.schema.infer import schema_of
    from mainstem.schema.topic_schemas import register

    register(mainstem_log, topic, schema_of("carrier STRING NOT NULL, delay INT, at TIMESTAMP"), ["carrier"])
    mainstem_log.append(topic, {"carrier": "UA", "delay": 5, "at": "2013-01-01T10:00:00Z"}, partition=1)
    frame = load(spark, mainstem_broker, subscribe=topic, valueSchema="registered")
    row = frame.collect()[0]
    assert (row.carrier, row.delay, row["_partition"], row["_offset"]) == ("UA", 5, 1, 0)
    assert frame.schema["at"].dataType.simpleString() == "timestamp"


def test_what_does_not_parse_is_shown_or_set_aside_as_the_option_says(
    spark: SparkSession, mainstem_broker: EmbeddedBroker, mainstem_log: Log, topic: str, tmp_path: Path
) -> None:
    for value in (b'{"a":1}', b"nope", b'{"a":"x","b":"y"}'):
        mainstem_log.append(topic, value, partition=0)
    typed = {"subscribe": topic, "valueSchema": "a INT, b STRING"}
    shown = load(spark, mainstem_broker, **typed, columnNameOfCorruptRecord="bad").select("a", "b", "bad").collect()
    assert [tuple(row) for row in shown] == [(1, None, None), (None, None, "nope"), (None, "y", '{"a":"x","b":"y"}')]
    reader = spark.read.format("mainstem").option("kafka.bootstrap.servers", mainstem_broker.bootstrap)
    frame = reader.options(**typed).schema("_corrupt STRING, a INT").load()
    assert [tuple(row) for row in frame.collect()][1:2] == [("nope", None)]

    stream = spark.readStream.format("mainstem").option("kafka.bootstrap.servers", mainstem_broker.bootstrap)
    stream = stream.options(**typed, startingOffsets="earliest", deadLetterTopic=f"{topic}.dead").load()
    rows: list[Any] = []
    writer = stream.writeStream.foreachBatch(lambda batch, _: rows.extend(batch.collect()))
    query = writer.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True).start()
    assert query.awaitTermination(120)
    assert [row.a for row in rows] == [1, None]
    assert [letter.value for letter in mainstem_log.read(f"{topic}.dead")] == [b"nope"]


def test_avro_is_read_by_the_schemas_of_a_registry(
    spark: SparkSession, mainstem_broker: EmbeddedBroker, mainstem_log: Log, topic: str
) -> None:
    first = {"type": "record", "name": "r", "fields": [{"name": "a", "type": "int"}]}
    second = {**first, "fields": [{"name": "a", "type": "long"}, {"name": "b", "type": "string", "default": "-"}]}
    for value in (encode({"a": 1}, first), encode({"a": 2**40, "b": "x"}, second), b""):
        mainstem_log.append(topic, framed(1 if len(value) == 1 else 2, value), partition=0)
    asked: list[str] = []
    with registry({1: first, 2: second}, asked) as url:
        typed = {"subscribe": topic, "valueFormat": "avro", "schemaRegistry": url, "valueSubject": "shop.Order"}
        frame = load(spark, mainstem_broker, **typed, columnNameOfCorruptRecord="bad")
        assert frame.schema["a"].dataType.simpleString() == "bigint"
        read = [(row.a, row.b, row.bad is None, row["_offset"]) for row in frame.collect()]
    assert read == [(1, "-", True, 0), (2**40, "x", True, 1), (None, None, False, 2)]
    assert {path.partition("|")[0] for path in asked if "latest" in path} == {"/subjects/shop.Order/versions/latest"}


@pytest.mark.parametrize(
    ("schema", "options", "message"),
    [
        ("vaule BINARY", {}, "no column vaule; there are key, value, topic"),
        ("value STRING", {}, "the column value is BINARY, not STRING; read it as it is, and cast it"),
        ("headers ARRAY<STRUCT<key: STRING, value: BINARY>>, key INT", {}, "the column key is BINARY, not INT"),
        ("_offset BIGINT, c STRING", {"valueSchema": "a INT"}, "no column c; there are _offset, .*, a"),
        ("a BIGINT", {"valueSchema": "a INT"}, "the column a is INT, not BIGINT"),
    ],
)
def test_a_schema_that_does_not_fit_is_refused_by_the_columns_name(
    spark: SparkSession,
    mainstem_broker: EmbeddedBroker,
    topic: str,
    schema: str,
    options: dict[str, str],
    message: str,
) -> None:
    reader = spark.read.format("mainstem").option("kafka.bootstrap.servers", mainstem_broker.bootstrap)
    with pytest.raises(Exception, match=message):
        reader.options(**options, subscribe=topic).schema(schema).load().collect()


def test_a_topic_is_read_as_a_table(
    spark: SparkSession, mainstem_broker: EmbeddedBroker, mainstem_log: Log, topic: str
) -> None:
    for name in ("old", "new"):
        mainstem_log.append(topic, {"carrier": "UA", "name": name}, key="UA")
    frame = load(spark, mainstem_broker, subscribe=topic, table="true", valueSchema="carrier STRING, name STRING")
    assert [tuple(row) for row in frame.collect()] == [("UA", "new")]


def test_a_stream_reads_each_record_once_and_goes_on_where_it_was(
    spark: SparkSession, mainstem_broker: EmbeddedBroker, mainstem_log: Log, topic: str, tmp_path: Path
) -> None:
    mainstem_log.append(topic, b"a")
    assert run_stream(spark, mainstem_broker, tmp_path, subscribe=topic) == [[b"a"]]
    mainstem_log.append(topic, b"b")
    assert run_stream(spark, mainstem_broker, tmp_path, subscribe=topic) == [[b"b"]]
    assert run_stream(spark, mainstem_broker, tmp_path, subscribe=topic) == []


@several_micro_batches
def test_a_stream_keeps_to_its_limit_for_each_micro_batch(
    spark: SparkSession, mainstem_broker: EmbeddedBroker, mainstem_log: Log, topic: str, tmp_path: Path
) -> None:
    mainstem_log.append_many(topic, [NewRecord(str(n).encode(), partition=n % 2) for n in range(10)])
    batches = run_stream(spark, mainstem_broker, tmp_path, subscribe=topic, maxOffsetsPerTrigger="4")
    assert [len(batch) for batch in batches] == [4, 4, 2]


def test_a_topic_that_was_made_again_stops_a_stream(
    spark: SparkSession, mainstem_broker: EmbeddedBroker, mainstem_log: Log, topic: str, tmp_path: Path
) -> None:
    mainstem_log.append(topic, b"a")
    run_stream(spark, mainstem_broker, tmp_path, subscribe=topic)
    mainstem_log.delete_topic(topic)
    mainstem_log.create_topic(topic, partitions=2)
    with pytest.raises(Exception, match="deleted and recreated"):
        run_stream(spark, mainstem_broker, tmp_path, subscribe=topic)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"subscribe": "nowhere"}, "there is no topic nowhere"),
        ({"subscribe": "a", "startingOffset": "earliest"}, "unknown option startingoffset"),
        ({"subscribe": "a", "valueSchema": "carrier STRIN"}, "not a type that a column can have"),
    ],
)
def test_what_cannot_be_read_is_one_clear_error(
    spark: SparkSession, mainstem_broker: EmbeddedBroker, options: dict[str, str], message: str
) -> None:
    with pytest.raises(Exception, match=message):
        load(spark, mainstem_broker, **options).collect()


def test_a_stream_outwaits_its_log_for_two_minutes_unless_told() -> None:
    from pyspark.sql.types import StructType

    from mainstem.spark.source import MainstemDataSource

    options = {"kafka.bootstrap.servers": "127.0.0.1:1", "subscribe": "t"}
    told = {**options, "kafka.Request.timeout.ms": "7000"}
    schema = StructType().add("value", "binary")
    waits = [MainstemDataSource(given).streamReader(schema)._options.log.timeout_s for given in (options, told)]
    assert waits == [120.0, 7.0]
