"""Compaction in a running broker, by a worker process that may be killed."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from pathlib import Path

import pytest

from mainstem.broker.storage.compaction import Compaction
from mainstem.broker.storage.topics import OFFSETS_TOPIC
from mainstem.errors import StorageError
from mainstem.log.cleaning.swap import Swap
from mainstem.log.partition.checkpoints import decode_offsets, encode_offsets
from mainstem.log.partition.partition_log import PartitionLog
from mainstem.log.segments.segment import Segment
from mainstem.model import TopicPartition
from mainstem.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from mainstem.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from mainstem.record.reader import iter_records
from tests.broker.harness import Client, running, until, with_broker

SETTINGS = {
    "log_cleanup_policy": "compact",
    "log_segment_bytes": "2000",
    "log_cleaner_backoff_ms": "20",
    "log_cleaner_min_cleanable_ratio": "0.1",
}


async def fill(client: Client, topic: str = "t") -> PartitionLog:
    await client.create_topic(topic)
    for number in range(100):
        await client.produce(topic, b"%d" % number * 30, keys=[b"k%d" % (number % 5)])
    return client.broker.node.topics.partition(topic, 0)


def offsets(log: PartitionLog) -> list[int]:
    buffers = log.read(log.log_start_offset, 1 << 20).buffers
    return [record.offset for buffer in buffers for record in iter_records(buffer)]


@with_broker(**SETTINGS)
async def test_a_worker_process_compacts_while_the_broker_serves(client: Client) -> None:
    log = await fill(client)
    compaction = client.broker.node.compaction
    await until(lambda: compaction.statistics().runs > 0 and len(offsets(log)) < 40)
    assert compaction.worker.pid is not None
    assert offsets(log)[-5:] == [95, 96, 97, 98, 99]
    assert (await client.values("t", 99))[-1] == b"99" * 30
    statistics = compaction.statistics()
    assert statistics.records_after < statistics.records_before
    path = log.directory.parent / "cleaner-offset-checkpoint"
    with open(path, "rb") as file:  # noqa: PTH123
        assert (decode_offsets(file.read()) or {})[TopicPartition("t", 0)] > 0


@with_broker(**SETTINGS)
async def test_a_worker_that_is_killed_is_started_again(client: Client) -> None:
    compaction = client.broker.node.compaction
    await client.create_topic("t")
    log = client.broker.node.topics.partition("t", 0)
    killed = 0
    for number in range(300):
        await client.produce("t", b"%d" % number * 30, keys=[b"k%d" % (number % 5)])
        if killed < 3 and compaction.worker.pid is not None:
            with contextlib.suppress(ProcessLookupError):  # killed already, and not yet noticed by the broker
                os.kill(compaction.worker.pid, signal.SIGKILL)
                killed += 1
    await until(lambda: compaction.statistics().runs > 0 and len(offsets(log)) < 40)
    assert killed > 0
    assert offsets(log)[-5:] == [295, 296, 297, 298, 299]
    assert compaction.statistics().uncleanable == {}


@with_broker(**{**SETTINGS, "log_cleaner_backoff_ms": "3600000"})
async def test_a_damaged_partition_is_called_uncleanable_and_the_others_are_compacted(client: Client) -> None:
    damaged, whole = await fill(client, "damaged"), await fill(client, "whole")
    with open(damaged.directory / f"{0:020d}.log", "r+b") as file:  # noqa: PTH123
        file.seek(100)
        byte = file.read(1)[0]
        file.seek(100)
        file.write(bytes([byte ^ 1]))
    node = client.broker.node
    compaction = Compaction(node.config, node.clock, node.log)
    compaction._backoff_s = 0.02
    task = asyncio.create_task(compaction.run())
    await until(lambda: bool(compaction.statistics().uncleanable) and len(offsets(whole)) < 40)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    (name, reason), *others = (compaction.statistics().uncleanable or {}).items()
    assert (name.topic, others) == ("damaged", [])
    assert "damaged-0" in reason


@with_broker(**{**SETTINGS, "log_cleaner_backoff_ms": "3600000"})
async def test_a_stop_between_two_steps_of_a_swap_leaves_no_file_of_it(client: Client) -> None:
    log, node = await fill(client), client.broker.node
    compaction = Compaction(node.config, node.clock, node.log)
    compaction._backoff_s = 0.02
    task = asyncio.create_task(compaction.run())
    begin_swap = log.cleaning.begin_swap

    def begin_and_stop(swap: Swap) -> Segment | None:
        task.cancel()
        return begin_swap(swap)

    log.cleaning.begin_swap = begin_and_stop  # type: ignore[method-assign]
    [stopped] = await asyncio.gather(task, return_exceptions=True)
    assert isinstance(stopped, asyncio.CancelledError)
    assert not list(log.directory.glob("*.swap"))
    assert offsets(log)[-5:] == [95, 96, 97, 98, 99]
    assert len(offsets(log)) < 100


@with_broker(**SETTINGS)
async def test_a_swap_that_cannot_be_made_durable_leaves_no_file_and_is_tried_again(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare, sync = Swap.prepare, Swap.sync
    found: list[list[str]] = []

    def looks(swap: Swap) -> None:
        found.append([name for name in swap._disk.list(swap._directory) if name.endswith(".swap")])
        prepare(swap)

    def fails_once(swap: Swap) -> None:
        if len(found) == 1:
            raise StorageError("the disk is broken")
        sync(swap)

    monkeypatch.setattr(Swap, "prepare", looks)
    monkeypatch.setattr(Swap, "sync", fails_once)
    log = await fill(client)
    compaction = client.broker.node.compaction
    await until(lambda: compaction.statistics().runs > 0 and len(offsets(log)) < 40)
    assert compaction.statistics().failures == 1
    assert len(found) > 1
    assert not any(found)


@with_broker(**{**SETTINGS, "log_cleaner_backoff_ms": "3600000"})
async def test_a_recreated_topic_is_compacted_from_its_beginning(client: Client) -> None:
    log, node = await fill(client), client.broker.node
    path = log.directory.parent / "cleaner-offset-checkpoint"
    path.write_bytes(encode_offsets({TopicPartition("t", 0): 50}))
    compaction = Compaction(node.config, node.clock, node.log)
    compaction._backoff_s = 3_600.0
    task = asyncio.create_task(compaction.run())
    await until(lambda: compaction._cleaned_offset(log) == 50)
    await node.delete_topic(node.topics.find("t"))
    assert compaction._cleaned_offset(await fill(client)) == 0
    await compaction._forget_recreated()
    assert decode_offsets(path.read_bytes()) == {}
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


@with_broker(**SETTINGS, log_cleaner_enable="false")
async def test_compaction_can_be_switched_off(client: Client) -> None:
    log = await fill(client)
    assert client.broker.node.compaction.worker.pid is None
    assert len(offsets(log)) == 100


def test_a_start_replays_what_is_left_of_the_logs_of_groups_and_of_the_node(tmp_path: Path) -> None:
    asyncio.run(commit_often_and_start_again(tmp_path))


async def commit_often_and_start_again(tmp_path: Path) -> None:
    settings = {
        "offsets.topic.segment.bytes": "2000",
        "log.cleaner.backoff.ms": "20",
        "log.cleaner.min.cleanable.ratio": "0.1",
    }
    async with running(tmp_path / "data", settings) as client:
        await client.create_topic("t")
        for offset in range(200):
            partition = OffsetCommitRequestPartition(
                partition_index=0, committed_offset=offset, committed_metadata="m" * 20
            )
            topics = [OffsetCommitRequestTopic(name="t", partitions=[partition])]
            body = OffsetCommitRequest(group_id=f"g{offset % 3}", member_id="", topics=topics)
            answer = await client.request(body, 8)
            assert answer.topics[0].partitions[0].error_code == 0
        log = client.broker.node.topics.partition(OFFSETS_TOPIC, 0)
        await until(lambda: len(offsets(log)) < 60)
    async with running(tmp_path / "data", settings) as client:
        for group, expected in (("g0", 198), ("g1", 199), ("g2", 197)):
            body = OffsetFetchRequest(group_id=group, topics=[OffsetFetchRequestTopic(name="t", partition_indexes=[0])])
            answer = await client.request(body, 5)
            assert answer.topics[0].partitions[0].committed_offset == expected
