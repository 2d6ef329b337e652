"""Topics that validate schemas, as Confluent's serializers and clients meet them."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import KafkaError, Producer
from confluent_kafka.schema_registry import SchemaRegistryClient, header_schema_id_serializer
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from kafka import KafkaProducer
from kafka.errors import InvalidRecordError as KafkaPythonInvalidRecord

from mainstem.client.log import Log
from mainstem.encodings.registration import register_topic
from mainstem.encodings.topic_values import Codec
from mainstem.errors import InvalidRecordError
from mainstem.schema.infer import schema_of
from mainstem.schema.types import ENCODINGS
from tests.gateway.served import registry_client

SCHEMA = json.dumps({"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]})
CONFIGS = {"confluent.value.schema.validation": "true"}
CONTENT_CONFIGS = CONFIGS | {"mainstem.schema.validation.content": "true"}


@pytest.fixture
def client(mainstem_log: Log) -> Iterator[SchemaRegistryClient]:
    """Confluent's client of the log's registry."""
    with registry_client(mainstem_log) as client:
        yield client


@pytest.fixture
def topic(mainstem_log: Log) -> str:
    """A topic that validates its values."""
    name = f"validated-{uuid.uuid4()}"
    mainstem_log.create_topic(name, configs=CONFIGS)
    return name


def outcome(log: Log, topic: str, value: bytes, headers: Any = ()) -> KafkaError | None:
    """What librdkafka says of one record."""
    said: list[KafkaError | None] = []
    producer = Producer({"bootstrap.servers": log.bootstrap})
    producer.produce(topic, value, headers=list(headers), on_delivery=lambda error, _: said.append(error))
    assert producer.flush(20) == 0
    return said[0]


@pytest.mark.parametrize("framing", ["prefix", "header"])
def test_what_a_serializer_registers_and_writes_passes_and_another_topics_does_not(
    mainstem_log: Log, client: SchemaRegistryClient, topic: str, framing: str
) -> None:
    config = {"schema.id.serializer": header_schema_id_serializer} if framing == "header" else {}
    serializer = AvroSerializer(client, SCHEMA, conf=config)
    context = SerializationContext(topic, MessageField.VALUE, headers=[])
    value = serializer({"id": 1}, context)
    assert outcome(mainstem_log, topic, value, context.headers) is None
    other = f"other-{uuid.uuid4()}"
    mainstem_log.create_topic(other, configs=CONFIGS)
    error = outcome(mainstem_log, other, value, context.headers)
    assert error is not None
    assert error.code() == KafkaError.INVALID_RECORD


def test_clients_see_the_refusal_and_its_reason(mainstem_log: Log, topic: str) -> None:
    error = outcome(mainstem_log, topic, b'{"id": 1}')
    assert error is not None
    assert error.code() == KafkaError.INVALID_RECORD
    with pytest.raises(InvalidRecordError, match="its value does not begin with a schema id"):
        mainstem_log.append(topic, {"id": 1})
    producer = KafkaProducer(bootstrap_servers=mainstem_log.bootstrap)
    with pytest.raises(KafkaPythonInvalidRecord, match="does not begin with a schema id"):
        producer.send(topic, b'{"id": 1}').get(20)
    producer.close()
    assert list(mainstem_log.read(topic)) == []


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_values_of_an_encoded_topic_pass(mainstem_log: Log, topic: str, encoding: str) -> None:
    register_topic(mainstem_log, topic, schema_of("id BIGINT"), (), encoding)
    codec = Codec(mainstem_log)
    mainstem_log.append_many(topic, [codec.encode(topic, {"id": number}) for number in range(500)])
    mainstem_log.append(topic, None, key="k")
    assert len(list(mainstem_log.read(topic))) == 501


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_values_of_an_encoded_topic_fit_their_schema_and_a_cut_one_does_not(mainstem_log: Log, encoding: str) -> None:
    topic = f"read-{uuid.uuid4()}"
    mainstem_log.create_topic(topic, configs=CONTENT_CONFIGS)
    register_topic(mainstem_log, topic, schema_of("id BIGINT, name STRING"), (), encoding)
    codec = Codec(mainstem_log)
    values = [codec.encode(topic, {"id": number, "name": f"n{number}"}) for number in range(500)]
    mainstem_log.append_many(topic, values)
    with pytest.raises(InvalidRecordError, match="its value does not fit schema"):
        mainstem_log.append(topic, values[7][:-1])
    assert len(list(mainstem_log.read(topic))) == 500


@pytest.mark.parametrize("framing", ["prefix", "header"])
def test_what_a_serializer_writes_fits_and_other_bytes_behind_its_id_do_not(
    mainstem_log: Log, client: SchemaRegistryClient, framing: str
) -> None:
    topic = f"read-{uuid.uuid4()}"
    mainstem_log.create_topic(topic, configs=CONTENT_CONFIGS)
    config = {"schema.id.serializer": header_schema_id_serializer} if framing == "header" else {}
    context = SerializationContext(topic, MessageField.VALUE, headers=[])
    value = AvroSerializer(client, SCHEMA, conf=config)({"id": 1}, context)
    assert outcome(mainstem_log, topic, value, context.headers) is None
    error = outcome(mainstem_log, topic, value + b"x", context.headers)
    assert error is not None
    assert error.code() == KafkaError.INVALID_RECORD


def test_the_configs_are_described(mainstem_log: Log, topic: str) -> None:
    configs = mainstem_log.describe_topic(topic).configs
    assert configs["confluent.value.schema.validation"] == "true"
    assert configs["mainstem.value.schema.validation"] == "false"
