"""The trees of a running broker: cancelled requests, rights, compaction, and what a request without a tree gets."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from mainstem.log.verifiable import partition_tree
from mainstem.model import TopicPartition
from mainstem.protocol.errors import ErrorCode
from mainstem.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from mainstem.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from mainstem.protocol.messages.read_tree import ReadTreeRequest
from mainstem.protocol.schema import ZERO_UUID
from mainstem.tlog.checkpoints import open_checkpoint
from mainstem.tlog.key_file import create_keys
from mainstem.tlog.tiles import decode_bundle
from tests.broker.harness import Client, running, until


async def make_topic(client: Client, **configs: str) -> None:
    settings = {"mainstem.verifiable": "true", **{name.replace("_", "."): value for name, value in configs.items()}}
    topic = CreatableTopic(
        name="t",
        num_partitions=1,
        replication_factor=1,
        assignments=(),
        configs=[CreatableTopicConfig(name=name, value=value) for name, value in settings.items()],
    )
    response = await client.request(CreateTopicsRequest(topics=[topic]), 7)
    assert response.topics[0].error_code == 0, response


async def read(client: Client, path: str, offset: int = -1) -> Any:
    return await client.request(ReadTreeRequest(topic="t", partition=0, path=path, offset=offset), 0)


def test_a_request_that_is_cancelled_leaves_the_tree_usable(tmp_path: Path) -> None:
    key = create_keys(tmp_path / "keys", "log.example.com").verifier()

    async def scenario() -> None:
        async with running(tmp_path / "data", {"mainstem.signing.keys": str(tmp_path / "keys")}) as client:
            await make_topic(client)
            trees = client.broker.node.trees
            log = client.broker.node.log.get(TopicPartition("t", 0))
            for number in range(20):
                await client.produce("t", b"%d" % number)
                task = asyncio.create_task(trees.checkpoint(log))
                for _ in range(number % 5):
                    await asyncio.sleep(0)
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task
            answer = await read(client, "checkpoint")
            assert answer.error_code == 0, answer.error_message
            assert open_checkpoint(answer.data, [key]).size == 20

    asyncio.run(scenario())


def test_compaction_waits_for_leaves_and_keeps_their_entries(tmp_path: Path) -> None:
    create_keys(tmp_path / "keys", "log.example.com")
    settings = {
        "mainstem.signing.keys": str(tmp_path / "keys"),
        "log.cleaner.backoff.ms": "20",
    }

    async def scenario() -> None:
        async with running(tmp_path / "data", settings) as client:
            await make_topic(client, cleanup_policy="compact", internal_segment_bytes="400")
            for number in range(30):
                await client.produce("t", b"value %d" % number + b"." * 60, keys=[b"one"])
            log = client.broker.node.log.get(TopicPartition("t", 0))
            assert log.cleanable_end == 0
            assert log.cleaning.dirty(client.broker.node.clock.time_ms(), 0) is None
            before = await read(client, "checkpoint")
            assert before.error_code == 0, before.error_message
            await until(lambda: client.broker.node.compaction.statistics().runs > 0)
            assert len(await client.values("t")) < 30
            bundle = await read(client, "tile/entries/000.p/30")
            assert len(decode_bundle(bundle.data)) == 30
            assert (await read(client, "checkpoint")).data.split(b"\n")[2] == before.data.split(b"\n")[2]
            found = await read(client, "", 7)
            assert (found.error_code, found.leaf_index) == (0, 7)

    asyncio.run(scenario())


def test_keys_in_the_data_directory_are_refused(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path / "data", {"mainstem.signing.keys": str(tmp_path / "data" / "keys")}) as client:
            create_keys(tmp_path / "data" / "keys", "log.example.com")
            await make_topic(client)
            answer = await read(client, "checkpoint")
            assert answer.error_code == ErrorCode.INVALID_CONFIG
            assert "in the data directory" in answer.error_message

    asyncio.run(scenario())


def test_what_is_not_there_says_why(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path / "data") as client:
            await client.create_topic("t")
            answer = await read(client, "tile/0/000")
            assert answer.error_code == ErrorCode.INVALID_CONFIG
            assert "mainstem.verifiable=true" in answer.error_message
            answer = await read(client, "checkpoint")
            assert "mainstem keys create" in answer.error_message
            assert (await read(client, "nonsense")).error_code == ErrorCode.INVALID_REQUEST

    asyncio.run(scenario())


def test_a_topic_is_deleted_when_no_thread_writes_the_files_of_its_tree(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such a thread would write into the directory of a new topic of that name."""
    key = create_keys(tmp_path / "keys", "log.example.com").verifier()
    is_reading, goes_on = threading.Event(), threading.Event()
    read_batches = partition_tree.read_batches

    def read_slowly(*arguments: Any) -> Any:
        is_reading.set()
        assert goes_on.wait(60)
        return read_batches(*arguments)

    monkeypatch.setattr(partition_tree, "read_batches", read_slowly)

    async def scenario() -> None:
        async with running(tmp_path / "data", {"mainstem.signing.keys": str(tmp_path / "keys")}) as client:
            await make_topic(client)
            await client.produce("t", b"old")
            await until(is_reading.is_set)
            trees, topics = client.broker.node.trees, client.broker.node.topics
            request = DeleteTopicsRequest(topics=[DeleteTopicState(name="t", topic_id=ZERO_UUID)], timeout_ms=1)
            deleting = asyncio.ensure_future(client.request(request, 6))
            await until(lambda: bool(trees._resting))
            assert topics.get("t") is not None
            goes_on.set()
            assert (await deleting).responses[0].error_code == 0
            await make_topic(client)
            await client.produce("t", b"new")
            answer = await read(client, "checkpoint")
            assert answer.error_code == 0, answer.error_message
            assert open_checkpoint(answer.data, [key]).size == 1

    asyncio.run(scenario())
