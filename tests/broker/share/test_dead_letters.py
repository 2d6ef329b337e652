"""Dead letters of share groups: which records get one, what it says, and that it is never lost."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from mainstem.broker.share import share_partition_manager
from mainstem.broker.share.dead_letters import letter_writer
from mainstem.broker.share.dead_letters.letter_writer import copied_letters
from mainstem.broker.share.dead_letters.letters import in_batches
from mainstem.broker.share.in_flight import RecordState, Run
from mainstem.broker.share.state_log import SharePartition
from mainstem.protocol.errors import ErrorCode
from mainstem.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from mainstem.protocol.messages.delete_topics import DeleteTopicsRequest
from mainstem.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from mainstem.record.reader import DecodedRecord, iter_records
from mainstem.record.writer import NewRecord
from mainstem.testing.disk import FaultyDisk
from tests.broker.harness import Client, running, with_broker
from tests.broker.share.member import ACCEPT, REJECT, RELEASE, Member, begin_early, offsets, set_config
from tests.broker.test_faults import over_restarts
from tests.support.eventually import eventually

TOPIC = "errors.deadletterqueue.topic.name"
COPY = "errors.deadletterqueue.copy.record.enable"
LETTERS = "dlq.t"


async def create_letters(client: Client, *, partitions: int = 1, allowed: str = "true", **configs: str) -> None:
    configs["errors.deadletterqueue.group.enable"] = allowed
    pairs = [CreatableTopicConfig(name=name.replace("_", "."), value=value) for name, value in configs.items()]
    topic = CreatableTopic(name=LETTERS, num_partitions=partitions, replication_factor=1, assignments=(), configs=pairs)
    answer = await client.request(CreateTopicsRequest(topics=[topic]), 7)
    assert answer.topics[0].error_code == 0, answer


async def member_with(client: Client, *values: bytes, partitions: int = 1, partition: int = 0) -> Member:
    """A member of group g, whose dead letters go to ``LETTERS``; t has these values."""
    await client.create_topic("t", partitions)
    await client.produce("t", *values, partition=partition, keys=[b"k" + value for value in values])
    await begin_early(client)
    await set_config(client, TOPIC, LETTERS)
    member = Member(client)
    await member.join()
    return member


async def letters(client: Client, partition: int = 0) -> list[DecodedRecord]:
    data = await client.fetch(LETTERS, 0, partition=partition)
    assert data.error_code == 0
    return list(iter_records(bytes(data.records)))


def said(letter: DecodedRecord) -> dict[str, str]:
    return {name.removeprefix("__dlq.errors."): (value or b"").decode() for name, value in letter.headers}


@with_broker()
async def test_letters_are_written_while_the_configs_of_their_topic_change(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    await create_letters(client)
    member = await member_with(client, b"0", b"1")
    await client.produce("t", b"2")
    await set_config(client, COPY, "true")
    await member.acquire()
    read, node = letter_writer._read, client.broker.node

    async def read_and_change(*arguments: Any) -> Any:
        configs = {**node.topics.find(LETTERS).configs, "retention.ms": "1000000"}
        node.topics.set_configs(LETTERS, configs, validate_only=False)
        return await read(*arguments)

    monkeypatch.setattr(letter_writer, "_read", read_and_change)
    assert await member.acknowledge(0, 2, REJECT, REJECT, REJECT) == (0, 0)
    assert [letter.value for letter in await letters(client)] == [b"0", b"1", b"2"]


@with_broker()
async def test_a_rejected_record_gets_a_dead_letter_before_it_is_answered(client: Client) -> None:
    await create_letters(client)
    member = await member_with(client, b"0", b"1", b"2")
    await member.acquire()
    assert await member.acknowledge(0, 2, ACCEPT, REJECT, ACCEPT) == (0, 0)
    (letter,) = await letters(client)
    assert (letter.key, letter.value) == (None, None)
    assert said(letter) == {
        "topic": "t",
        "partition": "0",
        "offset": "1",
        "group": "g",
        "delivery.count": "1",
        "message": "Offset rejected by client.",
    }
    assert await member.acquire() == []
    assert await offsets(client) == {("t", 0): (3, 0)}


@with_broker()
async def test_a_record_at_the_limit_of_deliveries_gets_one_with_its_key_and_value(client: Client) -> None:
    await create_letters(client)
    member = await member_with(client, b"0", b"1")
    await set_config(client, "share.delivery.count.limit", "2")
    await set_config(client, COPY, "true")
    assert await member.acquire(max_records=2) == [(0, 1, 1)]
    await member.acknowledge(0, 1, RELEASE)
    assert await member.acquire() == [(0, 1, 2)]
    await member.acknowledge(0, 1, ACCEPT, RELEASE)
    (letter,) = await letters(client)
    assert (letter.key, letter.value) == (b"k1", b"1")
    assert said(letter)["message"] == "Offset delivery count exceeded the threshold."
    assert said(letter)["delivery.count"] == "2"
    assert await offsets(client) == {("t", 0): (2, 0)}


@with_broker()
async def test_letters_keep_the_partition_of_their_records(client: Client) -> None:
    await create_letters(client, partitions=2)
    member = await member_with(client, b"0", partitions=4, partition=3)
    await member.fetch(partitions=(3,))
    assert await member.acknowledge(0, 0, REJECT, partition=3) == (0, 0)
    assert [said(letter)["partition"] for letter in await letters(client, 1)] == ["3"]


@with_broker()
async def test_accepted_records_and_groups_without_a_topic_write_none(client: Client) -> None:
    await create_letters(client)
    member = await member_with(client, b"0", b"1")
    await member.acquire()
    await member.acknowledge(0, 0, ACCEPT)
    await set_config(client, TOPIC, "")
    await member.acknowledge(1, 1, REJECT)
    assert await letters(client) == []


@pytest.mark.parametrize("reason", ["missing", "not allowed", "prefix", "source", "mirror", "no keys"])
def test_a_record_is_given_up_even_if_its_letter_cannot_be_written(reason: str, tmp_path: Path) -> None:
    @with_broker()
    async def scenario(client: Client) -> None:
        if reason == "not allowed":
            await create_letters(client, allowed="false")
        if reason == "mirror":  # it holds what its source holds, and nothing else
            await create_letters(client, mainstem_mirror_of="clusterA/AAAAAAAAAAAAAAAAAAAAAA")
        if reason == "no keys":
            await create_letters(client, cleanup_policy="compact")
        member = await member_with(client, b"0")
        if reason == "prefix":
            await client.create_topic("other")
        if reason in ("prefix", "source"):
            await set_config(client, TOPIC, "other" if reason == "prefix" else "t")
        await member.acquire()
        assert await member.acknowledge(0, 0, REJECT) == (0, 0)
        writer = client.broker.node.share.partitions.letters
        assert (writer.written, writer.failed) == (0, 1)
        assert await member.acquire() == []
        assert await offsets(client) == {("t", 0): (1, 0)}
        if reason in ("mirror", "no keys"):
            assert await letters(client) == []

    scenario(tmp_path=tmp_path)


@with_broker()
async def test_copies_are_held_one_stored_batch_at_a_time(client: Client) -> None:
    """A member may reject thousands of large records at once."""
    await create_letters(client)
    await client.create_topic("t")
    for value in range(4):
        await client.produce("t", b"%d" % value, b"x")
    await begin_early(client)
    await set_config(client, TOPIC, LETTERS)
    await set_config(client, COPY, "true")
    log = client.broker.node.topics.partition("t", 0)
    run, remote = Run(1, 6, RecordState.REJECTED, 1), client.broker.node.remote
    held = [[each.value for each in some] async for some in copied_letters(log, run, remote)]
    assert held == [[b"x"], [b"1", b"x"], [b"2", b"x"], [b"3"]]


@with_broker()
async def test_the_topic_is_created_and_the_prefix_changed_while_the_node_runs(client: Client) -> None:
    changes = {
        "errors.deadletterqueue.auto.create.topics.enable": "true",
        "errors.deadletterqueue.topic.name.prefix": "bad-",
    }
    configs = [AlterableConfig(name=name, config_operation=0, value=value) for name, value in changes.items()]
    resource = AlterConfigsResource(resource_type=4, resource_name="", configs=configs)
    request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)
    assert (await client.request(request, 1)).responses[0].error_code == 0
    member = await member_with(client, b"0")
    await set_config(client, TOPIC, "bad-letters")
    await member.acquire()
    assert await member.acknowledge(0, 0, REJECT) == (0, 0)
    data = await client.fetch("bad-letters", 0)
    assert len(list(iter_records(bytes(data.records)))) == 1


@with_broker()
async def test_names_that_no_topic_for_letters_can_have_are_refused(client: Client) -> None:
    for name in ("__consumer_offsets", "a b"):
        config = AlterableConfig(name=TOPIC, config_operation=0, value=name)
        resource = AlterConfigsResource(resource_type=32, resource_name="g", configs=[config])
        answer = await client.request(IncrementalAlterConfigsRequest(resources=[resource], validate_only=False), 1)
        assert answer.responses[0].error_code == ErrorCode.INVALID_CONFIG


def test_a_record_whose_letter_was_not_written_comes_again_after_a_restart(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path / "data") as client:
            await create_letters(client)
            member = await member_with(client, b"0")
            await member.acquire()
            writer: Any = client.broker.node.share.partitions.letters
            never = asyncio.Event()

            async def write_never(*_: Any) -> None:
                await never.wait()

            writer._write_letters = write_never
            rejected = asyncio.create_task(member.acknowledge(0, 0, REJECT))
            other = await client.another()
            while not writer._jobs:
                await asyncio.sleep(0)
            second = Member(other, "m2")
            second.topic_id = member.topic_id
            assert await second.acquire() == []
            other.close()
            rejected.cancel()
        async with running(tmp_path / "data") as client:
            member = Member(client)
            await member.join()
            assert await member.acquire() == [(0, 0, 2)]
            assert await member.acknowledge(0, 0, REJECT) == (0, 0)
            assert len(await letters(client)) == 1

    asyncio.run(scenario())


async def with_full_disk(disk: FaultyDisk, client: Client) -> SharePartition:
    """A share partition whose two records have durable dead letters, and a disk that became full after them."""
    await create_letters(client)
    member = await member_with(client, b"0", b"1")
    await member.acquire()
    writer: Any = client.broker.node.share.partitions.letters
    write = writer._write_letters

    async def write_and_fill(*arguments: Any) -> None:
        await write(*arguments)
        disk.capacity_bytes = disk.used_bytes()

    writer._write_letters = write_and_fill
    assert await member.acknowledge(0, 1, REJECT) == (0, 0)
    (partition,) = client.broker.node.share.state.all()
    assert [run.state for run in partition.in_flight.runs] == [RecordState.REJECTED]
    return partition


def test_records_with_dead_letters_are_archived_when_a_full_disk_has_room_again(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(share_partition_manager, "_RETRY_S", 0.05)
    disk = FaultyDisk()

    async def fills(client: Client) -> None:
        partition = await with_full_disk(disk, client)
        refused = "released records could not be written"
        await asyncio.to_thread(eventually, lambda: caplog.text.count(refused) > 1, "it is tried again, and refused")
        disk.capacity_bytes = None
        await asyncio.to_thread(eventually, lambda: partition.in_flight.start_offset == 2, "they are archived")
        assert len(await letters(client)) == 2
        assert await offsets(client) == {("t", 0): (2, 0)}

    over_restarts(disk, fills)


def test_records_that_wait_to_be_archived_are_forgotten_with_their_topic() -> None:
    disk = FaultyDisk()

    async def deletes(client: Client) -> None:
        partition = await with_full_disk(disk, client)
        manager = client.broker.node.share.partitions
        manager._archive_timers.stop()  # so that the topic goes first
        disk.capacity_bytes = None
        answer = await client.request(DeleteTopicsRequest(topic_names=["t"], timeout_ms=1000), 5)
        assert answer.responses[0].error_code == 0
        manager._archive_again(partition.key.text)
        assert not manager._unarchived
        assert partition.in_flight.start_offset == 0

    over_restarts(disk, deletes)


def test_batches_fit_the_topic_and_a_large_record_goes_without_its_value() -> None:
    small, large = NewRecord(b"k", b"v" * 100), NewRecord(b"k", b"v" * 5000)
    batches = list(in_batches([small] * 20 + [large], 2000))
    assert sum(map(len, batches)) == 21
    assert len(batches) > 1
    assert batches[-1][-1].value is None
    assert all(sum(len(each.value or b"") for each in batch) <= 2000 for batch in batches)
