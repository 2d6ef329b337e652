"""aiokafka: asyncio's own client, with a protocol stack of its own, against the log process."""

from __future__ import annotations

import asyncio
import functools
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic
from aiokafka.errors import MessageSizeTooLargeError, ProducerFenced, TopicAlreadyExistsError
from aiokafka.structs import OffsetAndMetadata

from tests.broker.harness import LogProcess

TIMEOUT_S = 100
BASE_MS = 1_700_000_000_000


def scenario(main: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """Runs ``async def test_…(log, …)`` on an event loop of its own, with a time limit."""

    @functools.wraps(main)
    def test(**fixtures: Any) -> None:
        async def run() -> None:
            async with asyncio.timeout(TIMEOUT_S):
                await main(**fixtures)

        asyncio.run(run())

    return test


@asynccontextmanager
async def started(client: Any) -> AsyncIterator[Any]:
    await client.start()
    try:
        yield client
    finally:
        await client.stop() if hasattr(client, "stop") else await client.close()


@asynccontextmanager
async def admin_of(log: LogProcess) -> AsyncIterator[Any]:
    client = AIOKafkaAdminClient(bootstrap_servers=log.bootstrap)
    await client.start()
    try:
        yield client
    finally:
        await client.close()


async def new_topic(log: LogProcess, partitions: int = 1, **configs: str) -> str:
    name = f"a-{uuid.uuid4().hex[:12]}"
    settings = {key.replace("_", "."): value for key, value in configs.items()}
    async with admin_of(log) as admin:
        await admin.create_topics([NewTopic(name, partitions, 1, topic_configs=settings)])
    return name


def producer(log: LogProcess, **settings: Any) -> Any:
    return started(AIOKafkaProducer(bootstrap_servers=log.bootstrap, **settings))


def consumer(log: LogProcess, *topics: str, **settings: Any) -> Any:
    defaults = {"auto_offset_reset": "earliest", "enable_auto_commit": False, "fetch_max_wait_ms": 50}
    return started(AIOKafkaConsumer(*topics, bootstrap_servers=log.bootstrap, **(defaults | settings)))


async def read(client: Any, count: int) -> list[Any]:
    return [await client.getone() for _ in range(count)]


async def values(log: LogProcess, topic: str, count: int, **settings: Any) -> list[bytes | None]:
    async with consumer(log, topic, **settings) as client:
        return [record.value for record in await read(client, count)]


@pytest.mark.parametrize("codec", [None, "gzip", "snappy", "lz4", "zstd"])
@scenario
async def test_every_codec_comes_back_in_order(log: LogProcess, codec: str | None) -> None:
    topic = await new_topic(log)
    sent = [b"%d" % number * 20 for number in range(300)]
    async with producer(log, compression_type=codec, linger_ms=20) as client:
        futures = [await client.send(topic, value, partition=0) for value in sent]
        assert [(await future).offset for future in futures] == list(range(300))
    assert await values(log, topic, 300) == sent


@pytest.mark.parametrize("settings", [{"acks": 1}, {"acks": "all"}, {"enable_idempotence": True}], ids=str)
@scenario
async def test_what_is_acknowledged_is_there_once(log: LogProcess, settings: dict[str, Any]) -> None:
    topic = await new_topic(log)
    async with producer(log, **settings) as client:
        for number in range(20):
            await client.send_and_wait(topic, b"%d" % number, partition=0)
    assert await values(log, topic, 20) == [b"%d" % number for number in range(20)]


@scenario
async def test_headers_timestamps_keys_and_tombstones_come_back(log: LogProcess) -> None:
    topic = await new_topic(log)
    async with producer(log) as client:
        await client.send_and_wait(topic, None, key=b"k", headers=[("h", b"1")], timestamp_ms=BASE_MS)
    async with consumer(log, topic) as client:
        (record,) = await read(client, 1)
    assert (record.key, record.value, record.timestamp) == (b"k", None, BASE_MS)
    assert list(record.headers) == [("h", b"1")]


@scenario
async def test_a_group_goes_on_where_it_committed(log: LogProcess) -> None:
    topic, group = await new_topic(log), uuid.uuid4().hex
    async with producer(log) as client:
        for number in range(10):
            await client.send_and_wait(topic, b"%d" % number, partition=0)
    place = TopicPartition(topic, 0)
    async with consumer(log, topic, group_id=group) as client:
        await read(client, 5)
        await client.commit({place: OffsetAndMetadata(4, "why")})
        assert await client.committed(place) == 4
    async with consumer(log, topic, group_id=group) as client:
        assert (await read(client, 6))[0].offset == 4


@scenario
async def test_two_members_share_a_topic_and_one_takes_over_when_the_other_leaves(log: LogProcess) -> None:
    topic, group = await new_topic(log, 2), uuid.uuid4().hex
    settings = {"group_id": group, "heartbeat_interval_ms": 200, "session_timeout_ms": 30_000}
    async with consumer(log, topic, **settings) as first:
        async with consumer(log, topic, **settings) as second:
            while not len(first.assignment()) == len(second.assignment()) == 1:
                await asyncio.gather(first.getmany(timeout_ms=50), second.getmany(timeout_ms=50))
            assert first.assignment() | second.assignment() == {TopicPartition(topic, 0), TopicPartition(topic, 1)}
        while len(first.assignment()) != 2:
            await first.getmany(timeout_ms=50)


@scenario
async def test_a_consumer_seeks_by_time_and_to_the_ends(log: LogProcess) -> None:
    topic = await new_topic(log)
    place = TopicPartition(topic, 0)
    async with producer(log) as client:
        for number in range(5):
            await client.send_and_wait(topic, b"%d" % number, partition=0, timestamp_ms=BASE_MS + number * 1000)
    async with consumer(log) as client:
        client.assign([place])
        assert (await client.offsets_for_times({place: BASE_MS + 2_500}))[place].offset == 3
        assert (await client.beginning_offsets([place]), await client.end_offsets([place])) == ({place: 0}, {place: 5})
        client.seek(place, 3)
        assert [record.value for record in await read(client, 2)] == [b"3", b"4"]


async def _abort(client: Any, step: Awaitable[Any]) -> None:
    """A transaction of one step that comes to nothing."""
    await client.begin_transaction()
    await step
    await client.abort_transaction()


@scenario
async def test_a_transaction_is_seen_whole_or_not_at_all(log: LogProcess) -> None:
    topic = await new_topic(log, 2)
    async with producer(log, transactional_id=uuid.uuid4().hex) as client:
        async with client.transaction():
            for number in range(4):
                await client.send(topic, b"committed", partition=number % 2)
        await _abort(client, client.send_and_wait(topic, b"aborted", partition=0))
        async with client.transaction():
            await client.send_and_wait(topic, b"last", partition=0)
    seen = await values(log, topic, 5, isolation_level="read_committed")
    assert sorted(value or b"" for value in seen) == [b"committed"] * 4 + [b"last"]
    assert b"aborted" in await values(log, topic, 6)


@scenario
async def test_a_second_producer_of_a_transactional_id_fences_the_first(log: LogProcess) -> None:
    topic, name = await new_topic(log), uuid.uuid4().hex
    first = AIOKafkaProducer(bootstrap_servers=log.bootstrap, transactional_id=name)
    await first.start()
    await first.begin_transaction()
    await first.send_and_wait(topic, b"first")
    async with producer(log, transactional_id=name) as second, second.transaction():
        await second.send_and_wait(topic, b"second")
    with pytest.raises(ProducerFenced):
        await first.commit_transaction()
    await first.stop()
    assert await values(log, topic, 1, isolation_level="read_committed") == [b"second"]


@scenario
async def test_offsets_are_committed_with_a_transaction_or_not_at_all(log: LogProcess) -> None:
    topic, group = await new_topic(log), uuid.uuid4().hex
    place = TopicPartition(topic, 0)
    async with producer(log, transactional_id=uuid.uuid4().hex) as client:
        async with client.transaction():
            await client.send_offsets_to_transaction({place: 7}, group)
        await _abort(client, client.send_offsets_to_transaction({place: 9}, group))
    async with consumer(log, group_id=group) as reader:
        assert await reader.committed(place) == 7


@scenario
async def test_a_record_over_the_limit_is_refused(log: LogProcess) -> None:
    topic = await new_topic(log, max_message_bytes="1000")
    async with producer(log) as client:
        with pytest.raises(MessageSizeTooLargeError):
            await client.send_and_wait(topic, b"x" * 2000)


@scenario
async def test_the_admin_client_manages_topics_and_groups(log: LogProcess) -> None:
    topic, group = await new_topic(log, 2), uuid.uuid4().hex
    async with producer(log) as client:
        await client.send_and_wait(topic, b"a", partition=0)
    async with consumer(log, topic, group_id=group) as client, admin_of(log) as admin:
        await read(client, 1)
        await client.commit()
        response = await admin.create_topics([NewTopic(topic, 1, 1)])
        assert response.topic_errors[0][1] == TopicAlreadyExistsError.errno
        await admin.create_partitions({topic: NewPartitions(4)})
        (described,) = await admin.describe_topics([topic])
        assert len(described["partitions"]) == 4
        assert group in str(await admin.list_consumer_groups())
        assert await admin.list_consumer_group_offsets(group) != {}
    async with admin_of(log) as admin:  # a consumer that looks at its topic now would create it again
        await admin.delete_topics([topic])
        assert topic not in await admin.list_topics()
