"""Fetch sessions over the wire: what is asked, what is answered, and what is looked at."""

from __future__ import annotations

import asyncio
from typing import Any
from unittest.mock import patch

import pytest

from mainstem.log.partition.partition_log import PartitionLog
from mainstem.protocol.apis import ApiKey
from mainstem.protocol.errors import ErrorCode
from mainstem.protocol.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from mainstem.protocol.messages.delete_topics import DeleteTopicsRequest
from mainstem.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic
from mainstem.protocol.messages.metadata import MetadataRequest
from mainstem.record.reader import iter_records
from tests.broker.harness import Client, fetch_request, with_broker

LONG_MS = 15_000


class Session:
    """A client's side of one session, by topic name or by id."""

    def __init__(self, client: Client, topic: str = "t", version: int = 12) -> None:
        self.client = client
        self.topic = topic
        self.topic_id: Any = None
        self.version = version
        self.session_id = 0
        self.epoch = 0

    def named(self, offsets: dict[int, int], partition_max_bytes: int) -> list[FetchTopic]:
        if not offsets:
            return []
        partitions = [
            FetchPartition(partition=n, fetch_offset=offset, partition_max_bytes=partition_max_bytes)
            for n, offset in offsets.items()
        ]
        if self.version >= 13:
            return [FetchTopic(topic_id=self.topic_id, partitions=partitions)]
        return [FetchTopic(topic=self.topic, partitions=partitions)]

    def request(
        self, offsets: dict[int, int], forget: tuple[int, ...] = (), partition_max_bytes: int = 1 << 20, **more: Any
    ) -> FetchRequest:
        options = {"max_wait_ms": 0, "min_bytes": 1, "max_bytes": 1 << 20, **more}
        forgotten = [ForgottenTopic(topic=self.topic, partitions=forget)] if forget else []
        return FetchRequest(
            session_id=self.session_id,
            session_epoch=self.epoch,
            topics=self.named(offsets, partition_max_bytes),
            forgotten_topics_data=forgotten,
            **options,
        )

    async def fetch(self, offsets: dict[int, int], forget: tuple[int, ...] = (), **more: Any) -> dict[int, Any]:
        """The partitions that are answered."""
        response = await self.client.request(self.request(offsets, forget, **more), self.version)
        assert response.error_code == 0, response
        self.session_id = response.session_id
        self.epoch = self.epoch + 1 if response.session_id else 0
        return {each.partition_index: each for topic in response.responses for each in topic.partitions}


async def started(client: Client, partitions: int, version: int = 12) -> Session:
    """A topic, and a session of all its partitions from their start."""
    await client.create_topic("t", partitions)
    session = Session(client, version=version)
    topic = (await client.request(MetadataRequest(topics=None), 12)).topics[0]
    session.topic_id = topic.topic_id
    answered = await session.fetch(dict.fromkeys(range(partitions), 0))
    assert sorted(answered) == list(range(partitions))
    assert session.session_id > 0
    return session


@pytest.mark.parametrize("version", [7, 12, 13, 18])
@with_broker()
async def test_only_partitions_with_news_are_answered(client: Client, version: int) -> None:
    session = await started(client, 3, version)
    assert await session.fetch({}) == {}
    await client.produce("t", b"a", partition=1)
    answered = await session.fetch({})
    assert [(n, len(data.records) > 0) for n, data in answered.items()] == [(1, True)]
    # The client did not say that it has read it, so it is there still.
    assert list(await session.fetch({})) == [1]
    assert await session.fetch({1: 1}) == {}


@with_broker()
async def test_versions_before_sessions_get_none(client: Client) -> None:
    await client.create_topic("t")
    await client.produce("t", b"a")
    for version in (4, 5, 6):
        response = await client.request(fetch_request("t", 0), version)
        (data,) = response.responses[0].partitions
        assert (response.session_id, [record.value for record in iter_records(bytes(data.records))]) == (0, [b"a"])
    assert client.broker.node.fetch_sessions.statistics()["sessions"] == 0


@with_broker()
async def test_the_wrong_session_and_the_wrong_epoch_are_refused(client: Client) -> None:
    session = await started(client, 1)
    right = session.session_id, session.epoch
    for session_id, epoch, version, code in [
        (right[0] ^ 1, 1, 12, ErrorCode.FETCH_SESSION_ID_NOT_FOUND),
        (right[0], 2, 12, ErrorCode.INVALID_FETCH_SESSION_EPOCH),
        (right[0], 1, 13, ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR),
    ]:
        session.session_id, session.epoch = session_id, epoch
        response = await client.request(session.request({}), version)
        assert (response.error_code, response.session_id, list(response.responses)) == (code, 0, [])
    session.session_id, session.epoch = right
    assert await session.fetch({}) == {}


@with_broker()
async def test_a_forgotten_partition_is_answered_no_more(client: Client) -> None:
    session = await started(client, 2)
    await session.fetch({}, forget=(0,))
    await client.produce("t", b"a", partition=0)
    await client.produce("t", b"b", partition=1)
    assert list(await session.fetch({})) == [1]


@with_broker()
async def test_a_client_that_forgets_everything_or_says_goodbye_has_no_session(client: Client) -> None:
    session = await started(client, 1)
    await session.fetch({}, forget=(0,), max_wait_ms=LONG_MS)
    assert session.session_id == 0
    await session.fetch({0: 0})
    session.epoch = -1
    await session.fetch({}, max_wait_ms=LONG_MS)
    assert client.broker.node.fetch_sessions.statistics()["sessions"] == 0
    assert client.broker.node.fetches.statistics() == {"waiting": 0, "partitions": 0}


@pytest.mark.parametrize("partition", [0, 5])
@with_broker()
async def test_a_session_that_forgets_all_that_it_names_is_answered_once_more_and_ends(
    client: Client, partition: int
) -> None:
    """As in Kafka: the request is then one without a session, for a partition that exists and for an unknown one."""
    await client.create_topic("t")
    await client.produce("t", b"a")
    session = Session(client)
    await session.fetch({partition: 0})
    answered = await session.fetch({partition: 0}, forget=(partition,))
    assert list(answered) == [partition]
    assert len(answered[partition].records or b"") > 0 or answered[partition].error_code == 3
    assert session.session_id == 0
    assert client.broker.node.fetch_sessions.statistics()["sessions"] == 0


@with_broker()
async def test_a_full_request_replaces_the_session_that_it_names(client: Client) -> None:
    session = await started(client, 1)
    first, session.epoch = session.session_id, 0
    await session.fetch({0: 0})
    assert session.session_id != first
    assert client.broker.node.fetch_sessions.statistics()["sessions"] == 1


@with_broker(max_incremental_fetch_session_cache_slots="1")
async def test_who_finds_the_cache_full_goes_without_a_session(client: Client) -> None:
    await started(client, 1)
    other = Session(client)
    await client.produce("t", b"a")
    assert len((await other.fetch({0: 0}))[0].records) > 0
    assert other.session_id == 0


@with_broker()
async def test_an_error_is_answered_each_time_until_it_is_gone(client: Client) -> None:
    session = Session(client)
    for _ in range(2):
        answered = await session.fetch({0: 0} if session.epoch == 0 else {}, max_wait_ms=LONG_MS)
        assert answered[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    await client.create_topic("t")
    answered = await session.fetch({})
    assert (answered[0].error_code, answered[0].high_watermark) == (0, 0)
    assert await session.fetch({}) == {}


@with_broker()
async def test_a_topic_that_is_deleted_and_made_again_is_found_again(client: Client) -> None:
    session = await started(client, 1)
    await client.request(DeleteTopicsRequest(topic_names=["t"], timeout_ms=1), 5)
    answered = await session.fetch({})
    assert answered[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    await client.create_topic("t")
    await client.produce("t", b"a")
    assert len((await session.fetch({}))[0].records) > 0


@with_broker()
async def test_a_log_start_that_moves_is_news(client: Client) -> None:
    session = await started(client, 2)
    await client.produce("t", b"a", b"b", partition=1)
    await session.fetch({})
    assert await session.fetch({1: 2}) == {}
    deleted = DeleteRecordsTopic(name="t", partitions=[DeleteRecordsPartition(partition_index=1, offset=1)])
    await client.request(DeleteRecordsRequest(topics=[deleted], timeout_ms=1000), 2)
    answered = await session.fetch({})
    assert [(n, data.log_start_offset, len(data.records)) for n, data in answered.items()] == [(1, 1, 0)]
    assert await session.fetch({}) == {}


@with_broker()
async def test_no_partition_starves_under_a_small_limit(client: Client) -> None:
    session = await started(client, 4)
    for partition in range(4):
        for _ in range(6):
            await client.produce("t", b"x" * 1000, partition=partition)
    offsets = dict.fromkeys(range(4), 0)
    seen: list[int] = []
    changed: dict[int, int] = {}
    for _ in range(12):
        answered = await session.fetch(changed, max_bytes=1, partition_max_bytes=1)
        (changed_partition,) = (n for n, data in answered.items() if len(data.records) > 0)
        offsets[changed_partition] += 1
        changed = {changed_partition: offsets[changed_partition]}
        seen.append(changed_partition)
    assert seen == [0, 1, 2, 3] * 3


@with_broker()
async def test_an_idle_poll_of_many_partitions_reads_none_and_an_append_one(client: Client) -> None:
    session = await started(client, 300)
    read: list[int] = []
    real, own = PartitionLog.read, client.broker.node.log

    def counted(log: PartitionLog, *arguments: Any, **options: Any) -> Any:
        tp = log.topic_partition
        if tp.topic == "t" and own.get(tp) is log:  # other brokers of this process read theirs meanwhile
            read.append(tp.partition)
        return real(log, *arguments, **options)

    with patch.object(PartitionLog, "read", counted):
        assert await session.fetch({}, max_wait_ms=20) == {}
        assert read == []
        correlation_id = client.send(session.request({}, max_wait_ms=LONG_MS), session.version)
        while not client.broker.node.fetches.statistics()["waiting"]:
            await asyncio.sleep(0)
        await (await client.another()).produce("t", b"a", partition=200)
        response = await client.receive(ApiKey.FETCH, session.version)
    assert response.correlation_id == correlation_id
    assert [data.partition_index for data in response.body.responses[0].partitions] == [200]
    assert read == [200]


@with_broker()
async def test_a_request_that_waits_is_told_when_another_goes_on_with_its_session(client: Client) -> None:
    session = await started(client, 1)
    client.send(session.request({}, max_wait_ms=LONG_MS), session.version)
    while not client.broker.node.fetches.statistics()["waiting"]:
        await asyncio.sleep(0)
    session.epoch += 1
    session.client = await client.another()
    assert await session.fetch({}) == {}
    response = await client.receive(ApiKey.FETCH, session.version)
    assert response.body.error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH


@with_broker()
async def test_a_session_that_ends_while_its_request_waits_is_answered(client: Client) -> None:
    session = await started(client, 1)
    client.send(session.request({}, max_wait_ms=LONG_MS), session.version)
    while not client.broker.node.fetches.statistics()["waiting"]:
        await asyncio.sleep(0)
    client.broker.node.fetch_sessions.remove(session.session_id)
    response = await client.receive(ApiKey.FETCH, session.version)
    assert (response.body.error_code, response.body.session_id) == (0, 0)


@with_broker()
async def test_a_session_outlives_the_connection_that_made_it(client: Client) -> None:
    session = await started(client, 1)
    session.client = await client.another()
    client.close()
    await session.client.produce("t", b"a")
    assert list(await session.fetch({})) == [0]


@with_broker(max_incremental_fetch_session_cache_slots="1")
async def test_a_replica_takes_the_slot_of_a_consumer(client: Client) -> None:
    session = await started(client, 3)
    request = fetch_request("t", 0)
    request.session_epoch, request.replica_id = 0, 7
    response = await client.request(request, 11)
    assert response.session_id not in (0, session.session_id)
    response = await client.request(session.request({}), session.version)
    assert response.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
