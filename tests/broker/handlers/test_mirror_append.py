"""MirrorAppend while its topic changes."""

from __future__ import annotations

from typing import Any

import pytest

from mainstem.broker.handlers import mirror_append
from mainstem.protocol.errors import ErrorCode
from mainstem.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from mainstem.protocol.messages.mirror_append import MirrorAppendRequest, MirroredPartition, MirroredTopic
from mainstem.record.writer import NewRecord, build_batch
from tests.broker.harness import Client, with_broker


@with_broker()
async def test_a_start_that_comes_late_removes_nothing_of_a_promoted_topic(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    of = CreatableTopicConfig(name="mainstem.mirror.of", value="clusterA/AAAAAAAAAAAAAAAAAAAAAA")
    topic = CreatableTopic(name="m", num_partitions=2, replication_factor=1, assignments=(), configs=[of])
    assert (await client.request(CreateTopicsRequest(topics=[topic]), 7)).topics[0].error_code == 0
    other = await client.another()
    topics, checked, calls = client.broker.node.topics, mirror_append._checked, iter(range(2))
    batch = build_batch([NewRecord(None, b"mirrored", (), 1)])

    async def checked_late(records: object) -> Any:
        if next(calls) == 1:  # the second partition: the first one has its records
            topics.set_configs("m", {}, validate_only=False)
            assert (await other.produce("m", b"own")).error_code == 0
        return await checked(records)

    monkeypatch.setattr(mirror_append, "_checked", checked_late)
    items = [
        MirroredPartition(index=number, expected_end_offset=0, records=batch, start_offset=5_000) for number in (0, 1)
    ]
    answer = await client.request(MirrorAppendRequest(topics=[MirroredTopic(name="m", partitions=items)]), 0)
    codes = [result.error_code for result in answer.topics[0].partitions]
    assert codes == [ErrorCode.POLICY_VIOLATION] * 2
    assert topics.partition("m", 0).log_start_offset == 0
    assert await other.values("m", 0) == [b"mirrored", b"own"]
    other.close()
