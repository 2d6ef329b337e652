"""Many partitions: a start opens none of them, and what is asked of a few costs what a few cost."""

from __future__ import annotations

import asyncio
import resource
from pathlib import Path

import pytest

from mainstem.broker import slices
from mainstem.broker.slices import AT_ONCE_ITEMS
from mainstem.log.node.metadata import METADATA_PARTITION
from mainstem.model import TopicPartition
from mainstem.open_files import SEGMENT_FILES_MAX, raise_open_files_limit
from mainstem.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from mainstem.protocol.messages.list_groups import ListGroupsRequest
from mainstem.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.broker.harness import LogProcess, running

PARTITIONS = 700
"""More than a log keeps open."""


def open_files(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


def test_only_what_is_asked_for_is_opened(tmp_path: Path) -> None:
    asyncio.run(only_what_is_asked_for(tmp_path))


async def only_what_is_asked_for(tmp_path: Path) -> None:
    async with running(tmp_path / "data") as client:
        await client.create_topic("many", PARTITIONS)
        await client.create_topic("other", 3)
        await client.produce("many", b"v", partition=7)
    async with running(tmp_path / "data") as client:
        directory = client.broker.node.log.directory
        assert set(directory.partitions) == {METADATA_PARTITION}
        answer = await client.request(MetadataRequest(topics=None), 12)
        sizes = {topic.name: len(topic.partitions) for topic in answer.topics}
        assert sizes == {"many": PARTITIONS, "other": 3}
        described = await client.request(DescribeLogDirsRequest(topics=None), 4)
        held = {topic.name: topic.partitions for topic in described.results[0].topics}
        assert [part.partition_index for part in held["many"] if part.partition_size] == [7]
        assert set(directory.partitions) == {METADATA_PARTITION}
        assert await client.values("many", partition=7) == [b"v"]
        await client.produce("other", b"w", partition=1)
        asked = [TopicPartition("many", 7), TopicPartition("other", 1)]
        assert set(directory.partitions) == {METADATA_PARTITION, *asked}


def test_others_are_served_while_all_topics_are_described(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slices, "_QUICK_S", 0.0)  # each item gives way to others
    asyncio.run(all_topics_are_described(tmp_path))


async def all_topics_are_described(tmp_path: Path) -> None:
    async with running(tmp_path / "data") as client:
        for number in range(AT_ONCE_ITEMS + 1):
            await client.create_topic(f"many-{number}")
        other = await client.another()
        for request, version in ((DescribeLogDirsRequest(topics=None), 4), (MetadataRequest(topics=None), 12)):
            ended: list[str] = []
            long, short = (
                asyncio.ensure_future(each.request(body, number))
                for each, body, number in ((client, request, version), (other, ListGroupsRequest(), 4))
            )
            long.add_done_callback(lambda _, ended=ended: ended.append("long"))
            short.add_done_callback(lambda _, ended=ended: ended.append("short"))
            await asyncio.gather(long, short)
            assert ended == ["short", "long"]
        other.close()


def test_the_leader_epoch_of_a_partition_is_the_same_before_and_after_it_is_opened(tmp_path: Path) -> None:
    asyncio.run(the_leader_epoch_stays(tmp_path))


async def the_leader_epoch_stays(tmp_path: Path) -> None:
    for _ in range(2):
        async with running(tmp_path / "data") as client:
            if client.broker.node.topics.get("t") is None:
                await client.create_topic("t", 2)
            asked = MetadataRequest(topics=[MetadataRequestTopic(name="t")])
            before = (await client.request(asked, 12)).topics[0].partitions
            await client.produce("t", b"v")
            assert (await client.request(asked, 12)).topics[0].partitions == before


def test_open_files_stay_few_when_all_partitions_are_used_and_the_process_is_killed(tmp_path: Path) -> None:
    from confluent_kafka import Producer

    process = LogProcess(tmp_path / "data", num_partitions=str(PARTITIONS)).start()
    try:
        failed: list[object] = []
        for _ in range(2):
            producer = Producer({"bootstrap.servers": process.bootstrap, "linger.ms": 20, "log_level": 0})
            for partition in range(PARTITIONS):
                producer.produce("t", b"v", partition=partition, on_delivery=lambda error, _: failed.append(error))
                producer.poll(0)
            assert producer.flush(90) == 0
            assert open_files(process.pid) < SEGMENT_FILES_MAX + 100
            process.kill()
            process.start()
            assert open_files(process.pid) < 100
        assert failed == [None] * 2 * PARTITIONS
    finally:
        process.kill()


def test_the_limit_of_open_files_is_raised_as_far_as_it_may_be() -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(256, before[1]), before[1]))
        raise_open_files_limit()
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (before[1], before[1])
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
