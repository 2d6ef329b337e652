"""Topics that validate schemas: what a record must name, and what a producer is told."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mainstem.model import Headers, TopicPartition
from mainstem.protocol.errors import ErrorCode
from mainstem.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from mainstem.protocol.messages.delete_topics import DeleteTopicsRequest
from mainstem.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from mainstem.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from mainstem.record.constants import Compression
from mainstem.record.writer import NewRecord, ProducerStamp, build_batch
from mainstem.schemas_topic.frames import frame_of, guid_frame_of
from mainstem.schemas_topic.record_names import record_names
from mainstem.schemas_topic.records import Content, StoredSchema, schema_key, schema_record
from tests.broker.harness import Client, running, with_broker
from tests.support.damage import Damage, plant

VALUES = {"confluent.value.schema.validation": "true"}
CONTENT = Content("AVRO", '"string"')
OTHER = Content("AVRO", '"long"')
NO_ID = "does not begin with a schema id"


async def create(client: Client, name: str, configs: dict[str, str]) -> Any:
    entries = [CreatableTopicConfig(name=key, value=value) for key, value in configs.items()]
    topic = CreatableTopic(name=name, num_partitions=1, replication_factor=1, assignments=(), configs=entries)
    return (await client.request(CreateTopicsRequest(topics=[topic]), 7)).topics[0]


async def send(client: Client, topic: str, records: Sequence[NewRecord], **build: Any) -> Any:
    data = PartitionProduceData(index=0, records=build_batch(list(records), **build))
    body = ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=[TopicProduceData(name=topic, partition_data=[data])])
    return (await client.request(body, 9)).responses[0].partition_responses[0]


async def register(client: Client, subject: str, schema_id: int, content: Content = CONTENT, **more: Any) -> None:
    """Write what a registry writes."""
    key, value = schema_record(replace(StoredSchema(subject, schema_id, schema_id, content), **more))
    assert (await send(client, "_schemas", [NewRecord(key, value, (), 1)])).error_code == 0


async def topic_with_schema(client: Client, configs: dict[str, str] = VALUES) -> None:
    await create(client, "_schemas", {"cleanup.policy": "compact"})
    assert (await create(client, "t", configs)).error_code == 0
    await register(client, "t-value", 7)


def record(value: bytes | None, headers: Headers = (), key: bytes | None = None) -> NewRecord:
    return NewRecord(key, value, headers, 1_700_000_000_000)


def guid(content: Content) -> bytes:
    return guid_frame_of(content.guid)


async def answer_to(client: Client, *records: NewRecord, **build: Any) -> dict[int, str]:
    """The records that are refused, by index; what is not refused is appended."""
    answer = await send(client, "t", records, **build)
    if answer.error_code == 0:
        return {}
    assert answer.error_code == ErrorCode.INVALID_RECORD, answer
    return {each.batch_index: each.batch_index_error_message for each in answer.record_errors}


@pytest.mark.parametrize("name", ["confluent.value.schema.validation", "mainstem.value.schema.validation"])
@with_broker()
async def test_a_record_without_a_schema_of_its_subject_is_refused_by_its_index(client: Client, name: str) -> None:
    await topic_with_schema(client, {name: "true"})
    await register(client, "other-value", 8, OTHER)
    good = record(frame_of(7) + b"x")
    refused = await answer_to(client, good, record(b'{"a": 1}'), good, record(frame_of(8)), record(frame_of(9)))
    assert list(refused) == [1, 3, 4]
    assert NO_ID in refused[1]
    assert refused[3] == "its value names schema 8, which is not a version of subject t-value: register it there first"
    assert "schema 9" in refused[4]
    answer = await send(client, "t", [good, record(b"x"), record(b"y")])
    assert answer.error_message.startswith("record 1: its value does not begin with a schema id")
    assert answer.error_message.endswith("(and 1 more records)")
    assert await client.values("t") == []
    assert await answer_to(client, good, record(None)) == {}
    assert await client.values("t") == [frame_of(7) + b"x", None]


@with_broker()
async def test_global_ids_count_in_values_and_in_headers(client: Client) -> None:
    await topic_with_schema(client)
    await register(client, "other-value", 8, OTHER)
    inside, header = guid(CONTENT), "__value_schema_id"
    with_place = inside + b"\x02\x04"  # as Protobuf's serializers write it
    good = [record(inside + b"x"), record(b"bare", ((header, inside),)), record(b"bare", ((header, with_place),))]
    assert await answer_to(client, *good) == {}
    refused = await answer_to(
        client,
        record(guid(OTHER) + b"x"),
        record(b"bare", ((header, guid(OTHER)),)),
        record(frame_of(7), ((header, guid(OTHER)),)),
        record(b"bare", ((header, guid(OTHER)), (header, inside))),
        record(b"bare", (("__key_schema_id", inside),)),
        record(b"bare", (("__value_schema_id_", inside),)),
        record(None, ((header, guid(OTHER)),)),
    )
    assert list(refused) == [0, 1, 2, 4, 5]
    assert f"schema {uuid.UUID(OTHER.guid)}" in refused[1]


@with_broker()
async def test_wrong_lengths_and_giant_ids_are_refused(client: Client) -> None:
    await topic_with_schema(client)
    await register(client, "t-value", 2**40)
    await register(client, "t-value", -1, OTHER)
    header = "__value_schema_id"
    wrong = [b"", b"\0", frame_of(7)[:4], b"\1", guid(CONTENT)[:16], b"\2" + frame_of(7)[1:], frame_of(2**32 - 1)]
    records = [record(each) for each in wrong]
    records += [record(b"x", ((header, each),)) for each in (b"", None, guid(CONTENT)[:16], frame_of(7))]
    assert list(await answer_to(client, *records)) == list(range(len(records)))
    assert await answer_to(client, record(frame_of(7))) == {}


@with_broker()
async def test_keys_have_a_subject_and_headers_of_their_own(client: Client) -> None:
    await topic_with_schema(client, {"confluent.key.schema.validation": "true"})
    await register(client, "t-key", 5, OTHER)
    header = "__key_schema_id"
    good = [record(b"any", key=frame_of(5)), record(b"any"), record(b"x", ((header, guid(OTHER)),), key=b"bare")]
    assert await answer_to(client, *good) == {}
    refused = await answer_to(client, record(frame_of(7), key=frame_of(7)), record(b"x", key=b"bare"))
    assert "its key names schema 7, which is not a version of subject t-key" in refused[0]
    assert f"its key {NO_ID}" in refused[1]


@pytest.mark.parametrize("codec", list(Compression))
@with_broker()
async def test_batches_of_every_codec_and_size_are_checked(client: Client, codec: Compression) -> None:
    await topic_with_schema(client)
    for count in (3, 3000):
        good = [record(frame_of(7) + b"x" * 20)] * count
        assert await answer_to(client, *good, compression=codec) == {}
        assert list(await answer_to(client, *good, record(b"x"), compression=codec)) == [count]


@with_broker()
async def test_many_unknown_ids_are_named_up_to_a_thousand(client: Client) -> None:
    await topic_with_schema(client)
    answer = await send(client, "t", [record(frame_of(number)) for number in range(100_000, 120_000)])
    assert answer.error_code == ErrorCode.INVALID_RECORD
    assert len(answer.record_errors) == 1000
    assert "(and 19999 more records)" in answer.error_message


@with_broker()
async def test_without_a_registry_only_null_passes_until_a_schema_is_there(client: Client) -> None:
    await create(client, "t", VALUES)
    [text] = (await answer_to(client, record(frame_of(7)))).values()
    assert "subject t-value has no schemas in topic _schemas: register its schema first" in text
    assert await answer_to(client, record(None)) == {}
    await create(client, "_schemas", {"cleanup.policy": "compact"})
    assert list(await answer_to(client, record(frame_of(7)))) == [0]
    await register(client, "t-value", 7)
    assert await answer_to(client, record(frame_of(7))) == {}


@with_broker()
async def test_what_the_registry_removes_no_longer_passes(client: Client) -> None:
    await topic_with_schema(client)
    await register(client, "t-value", 8, OTHER)
    assert await answer_to(client, record(frame_of(7)), record(frame_of(8))) == {}
    await register(client, "t-value", 7, is_deleted=True)
    assert list(await answer_to(client, record(frame_of(7)), record(frame_of(8)))) == [0]
    await send(client, "_schemas", [NewRecord(schema_key("t-value", 8), None, (), 1)])
    assert list(await answer_to(client, record(frame_of(8)))) == [0]
    await register(client, "t-value", 9)
    assert await answer_to(client, record(frame_of(9))) == {}
    await client.request(DeleteTopicsRequest(topic_names=["_schemas"], timeout_ms=10_000), 5)
    assert list(await answer_to(client, record(frame_of(9)))) == [0]
    await create(client, "_schemas", {"cleanup.policy": "compact"})
    await register(client, "t-value", 3)
    assert list(await answer_to(client, record(frame_of(3)), record(frame_of(9)))) == [1]


@with_broker()
async def test_a_schema_counts_when_its_transaction_is_committed(client: Client) -> None:
    await topic_with_schema(client)
    key, value = schema_record(StoredSchema("t-value", 8, 8, OTHER))
    log = client.broker.node.topics.get("_schemas").partition(0)  # type: ignore[union-attr]
    stamp = ProducerStamp(1, 0, 0, is_transactional=True)
    log.append(build_batch([NewRecord(key, value, (), 1)], producer=stamp))
    log.flush()
    assert list(await answer_to(client, record(frame_of(7)), record(frame_of(8)))) == [1]
    log.append_marker(1, 0, commit=False, coordinator_epoch=0, timestamp_ms=1)
    log.flush()
    assert list(await answer_to(client, record(frame_of(8)))) == [0]
    log.append(build_batch([NewRecord(key, value, (), 1)], producer=stamp._replace(base_sequence=1)))
    log.append_marker(1, 0, commit=True, coordinator_epoch=0, timestamp_ms=1)
    log.flush()
    assert await answer_to(client, record(frame_of(8))) == {}


@with_broker()
async def test_configs_turn_it_on_and_off_and_other_strategies_are_refused(client: Client) -> None:
    await topic_with_schema(client, {})
    assert await answer_to(client, record(b"x")) == {}

    async def alter(name: str, value: str) -> Any:
        config = AlterableConfig(name=name, config_operation=0, value=value)
        resource = AlterConfigsResource(resource_type=2, resource_name="t", configs=[config])
        return (
            await client.request(IncrementalAlterConfigsRequest(resources=[resource], validate_only=False), 1)
        ).responses[0]

    assert (await alter("confluent.value.schema.validation", "true")).error_code == 0
    assert list(await answer_to(client, record(b"x"))) == [0]
    strategy = "io.confluent.kafka.serializers.subject.{}"
    name = "confluent.value.subject.name.strategy"
    assert (await alter(name, strategy.format("TopicNameStrategy"))).error_code == 0
    refused = await alter(name, strategy.format("OtherStrategy"))
    assert refused.error_code == ErrorCode.INVALID_CONFIG
    assert "must be one of io.confluent.kafka.serializers.subject.TopicNameStrategy" in refused.error_message
    assert (await alter("confluent.value.schema.validation", "maybe")).error_code == ErrorCode.INVALID_CONFIG
    assert (await alter("confluent.value.schema.validation", "false")).error_code == 0
    assert await answer_to(client, record(b"x")) == {}


@pytest.mark.parametrize("damage", ["checksum", "garbage"])
def test_damaged_schemas_refuse_validated_records_alone_until_they_are_mended(tmp_path: Path, damage: Damage) -> None:
    async def main() -> None:
        async with running(tmp_path / "data") as client:
            await topic_with_schema(client)
            await register(client, "t-value", 8, OTHER)
            await client.create_topic("free")
            [path] = (tmp_path / "data").rglob("_schemas-0/*.log")
            whole = path.read_bytes()
            plant(tmp_path / "data", TopicPartition("_schemas", 0), 1, damage)
            for value in (frame_of(7), frame_of(8), b"no id", None):
                answer = await send(client, "t", [record(value)])
                assert answer.error_code == ErrorCode.KAFKA_STORAGE_ERROR  # which clients retry
            assert (await send(client, "free", [record(b"x")])).error_code == 0
            assert await client.values("t") == []
            path.write_bytes(whole)
            assert await answer_to(client, record(frame_of(7)), record(frame_of(8))) == {}
            assert list(await answer_to(client, record(b"no id"))) == [0]

    asyncio.run(main())


RECORD = Content("AVRO", '{"type":"record","name":"Order","namespace":"shop","fields":[]}')
TITLED = Content("JSON", '{"title":"Order","type":"object"}')
PROTO = Content(
    "PROTOBUF",
    'syntax = "proto3"; package shop; // message Not {\n'
    "message A { string message = 1; message Inner {} } enum E { Z = 0; }",
)


@pytest.mark.parametrize(("strategy", "prefix"), [("RecordNameStrategy", ""), ("TopicRecordNameStrategy", "t-")])
@with_broker()
async def test_the_record_of_a_schema_names_its_subject(client: Client, strategy: str, prefix: str) -> None:
    name = f"io.confluent.kafka.serializers.subject.{strategy}"
    await topic_with_schema(client, {**VALUES, "confluent.value.subject.name.strategy": name})
    for number, (subject, content) in enumerate(
        (("shop.Order", RECORD), ("Order", TITLED), ("shop.A.Inner", PROTO), ("Inner", PROTO), ("Order", RECORD))
    ):
        await register(client, prefix + subject, 20 + number, content)
    good = [record(frame_of(number)) for number in (20, 21, 22)] + [record(guid(RECORD))]
    assert await answer_to(client, *good) == {}
    refused = await answer_to(
        client, record(frame_of(7)), record(frame_of(23)), record(frame_of(24)), record(frame_of(99))
    )
    assert list(refused) == [0, 1, 2, 3]
    assert f"schema 23, which is not a version of the subject {prefix}RECORD, by the name of its record" in refused[1]
    await register(client, prefix + "shop.A", 25, PROTO)
    await register(client, prefix + "shop.Order", 20, RECORD, is_deleted=True)
    assert list(await answer_to(client, record(frame_of(25)), record(frame_of(20)))) == [1]


@pytest.mark.parametrize(
    ("content", "names"),
    [
        (RECORD, {"shop.Order"}),
        (Content("AVRO", '{"type":"record","name":"a.b.C","namespace":"other","fields":[]}'), {"a.b.C"}),
        (Content("AVRO", '{"type":"enum","name":"E","symbols":[]}'), set()),
        (Content("AVRO", '["null","long"]'), set()),
        (Content("AVRO", "{"), set()),
        (Content("AVRO", "[" * 100_000), set()),
        (TITLED, {"Order"}),
        (Content("JSON", '{"title":5}'), set()),
        (Content("JSON", "true"), set()),
        (PROTO, {"shop.A", "shop.A.Inner"}),
        (Content("PROTOBUF", "message A { /* } message B { */ oneof x { string y = 1; } } message C {}"), {"A", "C"}),
        (Content("PROTOBUF", "} } message {{ message D {} message"), {"D"}),
        (Content("PROTOBUF", "message A { " * 70_000 + "}"), {".".join("A" * depth) for depth in range(1, 101)}),
    ],
)
def test_the_names_of_records(content: Content, names: set[str]) -> None:
    assert record_names(content) == names
