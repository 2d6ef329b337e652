"""The source's options: read in Kafka's words, refused with a reason."""

from __future__ import annotations

import pytest

from mainstem.client.wire.cluster import EARLIEST, LATEST, Isolation
from mainstem.errors import ConfigError
from mainstem.model import TopicPartition
from mainstem.spark.options import ReadOptions, WriteOptions

LOG = {"kafka.bootstrap.servers": "localhost:9092"}


def read(**options: str) -> ReadOptions:
    return ReadOptions.parse({**LOG, "subscribe": "flights", **{k.replace("_", "."): v for k, v in options.items()}})


def test_names_are_taken_in_any_case() -> None:
    assert ReadOptions.parse({"KAFKA.bootstrap.servers": "h:1", "SUBSCRIBE": "a, b"}).topics == ("a", "b")


def test_offsets_are_words_or_json() -> None:
    assert (read(startingOffsets="Earliest").starting, read(endingOffsets="latest").ending) == (EARLIEST, LATEST)
    assert read(startingOffsets='{"flights":{"0":17,"1":-2}}').starting == {
        TopicPartition("flights", 0): 17,
        TopicPartition("flights", 1): -2,
    }


def test_committed_records_alone_are_read_by_default() -> None:
    assert read().isolation is Isolation.READ_COMMITTED
    assert read(kafka_isolation_level="read_uncommitted").isolation is Isolation.READ_UNCOMMITTED


def test_all_columns_are_read_by_default_and_headers_can_be_left_out() -> None:
    assert read().columns is None
    assert "headers" not in (read(includeHeaders="false").columns or ())
    assert read(columns="key, value").columns == ("key", "value")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"startingOffset": "earliest"}, "unknown option startingoffset; for reading there are .*startingOffsets"),
        ({"startingOffsets": "first"}, "neither earliest, latest nor JSON"),
        ({"startingOffsets": '{"flights":{"0":-3}}'}, "flights/0 has -3"),
        ({"maxOffsetsPerTrigger": "0"}, "not a number above 0"),
        ({"failOnDataLoss": "maybe"}, "neither true nor false"),
        ({"columns": "key,vaule"}, "no vaule; there are key, value"),
        ({"mode": "LENIENT"}, "none of PERMISSIVE"),
        ({"table": "true"}, "needs the option valueSchema"),
        ({"assign": '{"flights":[0]}'}, "one of the options subscribe, subscribePattern and assign"),
        ({"kafka.security.protocol": "SASL_SSL"}, "sasl.mechanism"),
        ({"subscribe": "a/b"}, "no topic's name"),
        ({"deadLetterTopic": "d"}, "deadLetterTopic needs the option valueSchema"),
        ({"deadLetterTopic": "a/b", "valueSchema": "a INT"}, "deadLetterTopic: 'a/b' is no topic's name"),
        ({"deadLetterTopic": "flights", "valueSchema": "a INT"}, "flights is read itself"),
        ({"deadLetterTopic": "d", "valueSchema": "a INT", "mode": "failfast"}, "with mode=FAILFAST"),
        ({"deadLetterTopic": "d", "valueSchema": "a INT", "table": "true"}, "not for tables"),
    ],
)
def test_a_wrong_option_is_refused_with_its_reason(options: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        ReadOptions.parse({**LOG, "subscribe": "flights", **options})


def test_the_address_of_the_log_is_needed() -> None:
    with pytest.raises(ConfigError, match=r"kafka\.bootstrap\.servers is missing"):
        WriteOptions.parse({"topic": "flights"})


def test_a_pattern_that_is_no_pattern_is_refused() -> None:
    with pytest.raises(ConfigError, match="no regular expression"):
        ReadOptions.parse({**LOG, "subscribePattern": "("})
