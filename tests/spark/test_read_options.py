"""The options of a read: in the words of Spark's Kafka connector, refused with a reason, written down whole."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from mainstem.client.wire.cluster.cluster import EARLIEST, LATEST, Isolation
from mainstem.errors import ConfigError, SchemaError
from mainstem.model import TopicPartition
from mainstem.spark.options.options import COMMON_OPTIONS
from mainstem.spark.options.read_options import (
    READ_OPTIONS,
    At,
    ByOffset,
    ByTime,
    GroupOptions,
    ReadLimits,
    ReadOptions,
    Splits,
)
from mainstem.spark.options.security_options import NAMES as SECURITY_OPTIONS

LOG = {"kafka.bootstrap.servers": "localhost:9092"}
PAGE = Path(__file__).resolve().parents[2] / "docs/spark/options.md"


def read(**options: str) -> ReadOptions:
    return ReadOptions.parse({**LOG, "subscribe": "flights", **{k.replace("_", "."): v for k, v in options.items()}})


def test_names_are_taken_in_any_case() -> None:
    assert ReadOptions.parse({"KAFKA.bootstrap.servers": "h:1", "SUBSCRIBE": "a, b"}).topics == ("a", "b")


def test_offsets_are_words_or_json() -> None:
    assert read(startingOffsets="Earliest").starting == At("startingOffsets", EARLIEST)
    assert read(endingOffsets="latest").ending == At("endingOffsets", LATEST)
    offsets = {TopicPartition("flights", 0): 17, TopicPartition("flights", 1): -2}
    assert read(startingOffsets='{"flights":{"0":17,"1":-2}}').starting == ByOffset("startingOffsets", offsets)


def test_times_are_one_for_all_or_one_for_each_partition() -> None:
    assert read(startingTimestamp="1500").starting == ByTime("startingTimestamp", 1500, {})
    each = ByTime("endingOffsetsByTimestamp", None, {TopicPartition("flights", 0): 1500})
    assert read(endingOffsetsByTimestamp='{"flights":{"0":1500}}').ending == each


def test_a_time_without_a_record_is_an_error_unless_the_strategy_says_otherwise() -> None:
    assert read().fails_without_match
    assert not read(startingOffsetsByTimestampStrategy="latest").fails_without_match


def test_limits_and_splits_are_read() -> None:
    limits = read(
        maxOffsetsPerTrigger="9", maxBytesPerTrigger="8", minOffsetsPerTrigger="7", maxTriggerDelay="2m"
    ).limits
    assert limits == ReadLimits(9, 8, 7, 120.0)
    assert read(minPartitions="3", maxRecordsPerPartition="4", maxBytesPerPartition="5").splits == Splits(3, 4, 5)
    assert not read().splits.is_given


@pytest.mark.parametrize(
    ("text", "seconds"), [("15m", 900.0), ("30s", 30.0), ("500ms", 0.5), ("250", 0.25), ("1h", 3600)]
)
def test_a_delay_is_in_sparks_words(text: str, seconds: float) -> None:
    assert read(minOffsetsPerTrigger="7", maxTriggerDelay=text).limits.delay_s_max == seconds


def test_the_group_has_a_name_or_a_prefix() -> None:
    assert read().group == GroupOptions(None, "mainstem-spark", commits=True)
    assert read(kafka_group_id="mine").group.name == "mine"
    assert read(groupIdPrefix="mine").group.prefix == "mine"
    assert not read(commitOffsets="false").group.commits


def test_committed_records_alone_are_read_by_default() -> None:
    assert read().isolation is Isolation.READ_COMMITTED
    assert read(kafka_isolation_level="read_uncommitted").isolation is Isolation.READ_UNCOMMITTED


def test_headers_are_read_when_they_are_asked_for() -> None:
    assert "headers" not in (read().columns or ())
    assert read(includeHeaders="true").columns is None
    assert read(columns="key, value").columns == ("key", "value")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"startingOffset": "earliest"},
            r"unknown option startingoffset \(did you mean startingOffsets\?\); for reading",
        ),
        ({"topic": "flights"}, "option topic is not for reading"),
        ({"kafka.auto.offset.reset": "earliest"}, "not taken: say where to start by startingOffsets"),
        ({"kafkaConsumer.pollTimeoutMs": "5"}, "not taken: kafka.request.timeout.ms"),
        ({"startingOffsets": "first"}, "neither earliest, latest nor JSON"),
        ({"startingOffsets": '{"flights":{"0":17}'}, "neither earliest, latest nor JSON"),
        ({"startingOffsets": '{"flights":17}'}, "neither earliest, latest nor JSON"),
        ({"startingOffsets": '{"flights":{"0":1.5}}'}, "neither earliest, latest nor JSON"),
        ({"startingOffsets": '{"flights":{"zero":1}}'}, "neither earliest, latest nor JSON"),
        ({"startingOffsets": "{}"}, "names no partition"),
        ({"startingOffsets": '{"flights":{"0":-3}}'}, "flights/0 has -3"),
        ({"startingOffsets": '{"a/b":{"0":3}}'}, "a/b/0 is not a partition"),
        ({"startingTimestamp": "yesterday"}, "not milliseconds since 1970"),
        ({"startingOffsetsByTimestamp": "1500"}, "not JSON such as"),
        ({"startingOffsetsByTimestamp": '{"flights":{"0":-1}}'}, "flights/0 has -1; times are"),
        (
            {"startingOffsets": "earliest", "startingTimestamp": "1"},
            "starting offsets by one of .* not by startingOffsets",
        ),
        ({"endingTimestamp": "1", "endingOffsetsByTimestamp": "{}"}, "ending offsets by one of the options"),
        ({"startingTimestamp": "2", "endingTimestamp": "1"}, "is after endingTimestamp"),
        (
            {"startingOffsets": '{"flights":{"0":5}}', "endingOffsets": '{"flights":{"0":4}}'},
            "flights/0 has 5, after its endingOffsets of 4",
        ),
        ({"startingOffsetsByTimestampStrategy": "earliest"}, "use one of ERROR, LATEST"),
        ({"maxOffsetsPerTrigger": "0"}, "not a number above 0"),
        ({"maxBytesPerTrigger": "1k"}, "not a number above 0"),
        ({"minOffsetsPerTrigger": "2", "maxOffsetsPerTrigger": "1"}, "no micro-batch could be both"),
        ({"maxTriggerDelay": "15m"}, "give that as well"),
        ({"minOffsetsPerTrigger": "2", "maxTriggerDelay": "soon"}, "give one such as 30s"),
        ({"kafka.group.id": "a", "groupIdPrefix": "b"}, "needs no prefix"),
        ({"kafka.group.id": ""}, "kafka.group.id is empty"),
        ({"failOnDataLoss": "maybe"}, "neither true nor false"),
        ({"columns": "key,vaule"}, "no vaule; there are key, value"),
        ({"columns": ","}, "none is named"),
        ({"mode": "LENIENT"}, "use one of PERMISSIVE"),
        ({"table": "true"}, "needs the option valueSchema"),
        ({"assign": '{"flights":[0]}'}, "subscribePattern, assign, not by subscribe and assign together"),
        ({"kafka.security.protocol": "SASL_SSL"}, "sasl.mechanism"),
        ({"subscribe": "a/b"}, "invalid topic name"),
        ({"valueFormat": "xml"}, "unknown format 'xml': use one of json, avro, json-schema"),
        ({"keyFormat": "xml"}, "unknown format 'xml': use one of text, avro, json-schema"),
        ({"valueFormat": "avro"}, "needs avroSchema .* or schemaRegistry"),
        ({"valueFormat": "avro", "avroSchema": "{}", "valueSchema": "a INT"}, "the Avro schema says the columns"),
        (
            {"valueFormat": "avro", "avroSchema": "{}", "valueSubject": "s"},
            "valueSubject needs the option schemaRegistry",
        ),
        ({"valueFormat": "avro", "schemaRegistry": "sr:8081"}, "schemaRegistry is not an address"),
        ({"avroSchema": "{}"}, "avroSchema is for valueFormat=avro"),
        ({"deadLetterTopic": "d"}, "deadLetterTopic needs the option valueSchema"),
        ({"deadLetterTopic": "a/b", "valueSchema": "a INT"}, "deadLetterTopic: invalid topic name 'a/b'"),
        ({"deadLetterTopic": "flights", "valueSchema": "a INT"}, "flights is read itself"),
        ({"deadLetterTopic": "d", "valueSchema": "a INT", "mode": "failfast"}, "with mode=FAILFAST"),
        ({"deadLetterTopic": "d", "valueSchema": "a INT", "table": "true"}, "not for tables"),
        ({"subscribe": " , "}, "there is no topic in it"),
        ({"kafka.isolation.level": "serializable"}, "neither read_committed nor read_uncommitted"),
    ],
)
def test_a_wrong_option_is_refused_with_its_reason(options: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        ReadOptions.parse({**LOG, "subscribe": "flights", **options})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "say what to read by one of the options subscribe, subscribePattern, assign"),
        ({"subscribePattern": "("}, "invalid regular expression"),
        ({"subscribePattern": " "}, "subscribePattern is empty"),
        ({"assign": "flights"}, "not JSON such as"),
        ({"assign": '{"flights":["0"]}'}, "not JSON such as"),
        ({"assign": '{"flights":[]}'}, "names no partition"),
    ],
)
def test_what_to_read_has_to_be_said(options: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        ReadOptions.parse({**LOG, **options})


@pytest.mark.parametrize("option", ["endingOffsets", "endingTimestamp", "table"])
def test_a_stream_refuses_what_only_a_batch_can_do(option: str) -> None:
    value = {"endingOffsets": "latest", "endingTimestamp": "5", "table": "true"}[option]
    with pytest.raises(ConfigError, match=f"option {option}"):
        read(**{option: value, "valueSchema": "a INT"}).require_stream()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"maxOffsetsPerTrigger": "5"}, "maxOffsetsPerTrigger is for streams"),
        ({"startingOffsets": "latest"}, "reads nothing"),
        ({"startingOffsets": '{"flights":{"0":-1}}'}, "flights/0 has -1; .* reads nothing"),
        ({"endingOffsets": "earliest"}, "reads nothing"),
    ],
)
def test_a_batch_refuses_what_makes_no_sense_there(options: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        read(**options).require_batch()


def test_the_page_lists_every_option_and_no_other() -> None:
    section = PAGE.read_text().split("## Reading\n")[1].split("\n## ")[0]
    listed = re.findall(r"^\| `([\w.]+)`", section, re.MULTILINE)
    assert sorted(listed) == sorted({*READ_OPTIONS, *COMMON_OPTIONS} - set(SECURITY_OPTIONS))


def test_an_avro_schema_that_cannot_be_read_is_refused() -> None:
    with pytest.raises(SchemaError, match="columns need a record"):
        read(valueFormat="avro", avroSchema='"string"')


def test_the_password_of_a_schema_registry_shows_in_no_text() -> None:
    options = read(valueFormat="avro", schemaRegistry="http://sr:8081", schemaRegistryAuth="me:secret")
    assert options.values.registry is not None
    assert options.values.registry.auth == "me:secret"
    assert "secret" not in repr(options)
