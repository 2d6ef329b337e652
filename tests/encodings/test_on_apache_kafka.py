"""Encoded topics on Apache Kafka itself: registered, written, read, and decoded by a second client."""

from __future__ import annotations

import pytest

from mainstem.client.log import Log
from mainstem.encodings.registration import register_topic
from mainstem.encodings.topic_values import Codec
from mainstem.schema.infer import schema_of
from mainstem.schema.types import ENCODINGS
from tests.support.apache_kafka import ApacheKafka

pytestmark = pytest.mark.maven


def test_encoded_topics_are_written_and_read_on_apache_kafka() -> None:
    with ApacheKafka() as kafka, Log(kafka.bootstrap) as log, Log(kafka.bootstrap) as other:
        for encoding in ENCODINGS:
            topic, row = f"orders-{encoding}", {"id": 1, "name": "Zoë"}
            log.create_topic(topic)
            register_topic(log, topic, schema_of("id BIGINT, name STRING"), ("id",), encoding)
            value = Codec(log).encode(topic, row)
            assert value is not None
            assert value[:1] == b"\x00"
            log.append(topic, value, key=1)
            register_topic(log, topic, schema_of("id BIGINT, name STRING, more INT"), ("id",), encoding)
            log.append(topic, Codec(log).encode(topic, {**row, "more": 2}), key=1)
            codec = Codec(other)
            found = [codec.decode(record) for record in other.read(topic)]
            assert found == [{**row, "more": None}, {**row, "more": 2}]
