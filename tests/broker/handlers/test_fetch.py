from __future__ import annotations

import asyncio

import pytest

from mainstem.broker.call import Call
from mainstem.broker.handlers.fetch import handle
from mainstem.protocol.apis import ApiKey
from mainstem.protocol.errors import ErrorCode
from mainstem.protocol.messages.delete_topics import DeleteTopicsRequest
from mainstem.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from mainstem.protocol.messages.metadata import MetadataRequest
from mainstem.record.header import iter_headers
from tests.broker.harness import Client, fetch_request, with_broker

LONG_MS = 15_000


async def waiting_fetch(client: Client, topic: str, offset: int, **options: int) -> asyncio.Task[object]:
    """A fetch that the broker has begun, and that waits there."""
    options = {"max_wait_ms": LONG_MS, **options}
    task = asyncio.create_task(client.request(fetch_request(topic, offset, **options), 11))
    while not client.broker.node.fetches.statistics()["waiting"]:
        await asyncio.sleep(0)
    return task


@with_broker()
async def test_a_fetch_at_the_end_waits_and_new_data_wakes_it(client: Client) -> None:
    await client.create_topic("t")
    task = await waiting_fetch(client, "t", 0)
    writer = await client.another()
    await writer.produce("t", b"a")
    response = await task
    assert len(response.responses[0].partitions[0].records) > 0
    assert client.broker.node.fetches.statistics() == {"waiting": 0, "partitions": 0}


@with_broker()
async def test_data_that_comes_before_the_waiting_has_begun_is_not_missed(client: Client) -> None:
    await client.create_topic("t")
    body = fetch_request("t", 0, max_wait_ms=LONG_MS)
    answer = handle(client.broker.node, Call(ApiKey.FETCH, 11, 1, None, "127.0.0.1", body))
    await client.produce("t", b"a")
    async with asyncio.timeout(LONG_MS / 3000):
        response = await answer
    assert len(response.responses[0].partitions[0].records) > 0


@with_broker()
async def test_a_fetch_is_answered_empty_when_its_time_is_over(client: Client) -> None:
    await client.create_topic("t")
    data = await client.fetch("t", 0, max_wait_ms=30)
    assert (data.error_code, bytes(data.records), data.high_watermark) == (0, b"", 0)


@with_broker()
async def test_a_fetch_waits_until_there_are_as_many_bytes_as_it_wants(client: Client) -> None:
    await client.create_topic("t")
    task = await waiting_fetch(client, "t", 0, min_bytes=250)
    writer = await client.another()
    await writer.produce("t", b"x" * 100)
    assert not task.done()
    await writer.produce("t", b"x" * 100)
    response = await task
    assert len(response.responses[0].partitions[0].records) >= 250


@with_broker()
async def test_a_fetch_that_waits_learns_that_its_topic_is_gone(client: Client) -> None:
    await client.create_topic("t")
    task = await waiting_fetch(client, "t", 0)
    other = await client.another()
    await other.request(DeleteTopicsRequest(topic_names=["t"], timeout_ms=1), 5)
    response = await task
    assert response.responses[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@with_broker()
async def test_a_fetch_that_waits_is_forgotten_with_its_connection(client: Client) -> None:
    await client.create_topic("t")
    other = await client.another()
    task = await waiting_fetch(other, "t", 0)
    task.cancel()
    other.close()
    while client.broker.node.fetches.statistics() != {"waiting": 0, "partitions": 0}:
        await asyncio.sleep(0)


@with_broker()
async def test_a_fetch_into_the_middle_of_a_batch_brings_the_whole_batch(client: Client) -> None:
    await client.create_topic("t")
    await client.produce("t", b"a", b"b", b"c")
    data = await client.fetch("t", 1)
    assert next(iter_headers(bytes(data.records)))[1].base_offset == 0
    assert await client.values("t", 1) == [b"b", b"c"]


@with_broker()
async def test_the_first_batch_comes_however_small_the_limits_are(client: Client) -> None:
    await client.create_topic("t")
    for _ in range(3):
        await client.produce("t", b"x" * 5000)
    both_zero = {"max_bytes": 0, "partition_max_bytes": 0}
    for limits in ({"max_bytes": 1}, {"partition_max_bytes": 1}, both_zero, {"max_bytes": -2}):
        data = await client.fetch("t", 0, **limits)
        assert len(list(iter_headers(bytes(data.records)))) == 1


@with_broker()
async def test_max_bytes_bounds_the_answer_over_all_partitions(client: Client) -> None:
    await client.create_topic("t", 3)
    for partition in range(3):
        await client.produce("t", b"x" * 5000, partition=partition)
    asked = [FetchPartition(partition=n, fetch_offset=0, partition_max_bytes=1 << 20) for n in range(3)]
    request = FetchRequest(max_wait_ms=0, min_bytes=1, max_bytes=6000, topics=[FetchTopic(topic="t", partitions=asked)])
    response = await client.request(request, 11)
    sizes = [len(partition.records) for partition in response.responses[0].partitions]
    assert [size > 0 for size in sizes] == [True, False, False]


@pytest.mark.parametrize(("offset", "code"), [(3, 0), (4, 1), (-1, 1)])
@with_broker()
async def test_an_offset_outside_the_log_is_out_of_range_at_once(client: Client, offset: int, code: int) -> None:
    await client.create_topic("t")
    await client.produce("t", b"a", b"b", b"c")
    data = await client.fetch("t", offset, max_wait_ms=0 if code == 0 else LONG_MS)
    assert data.error_code == code


@with_broker()
async def test_a_leader_epoch_that_is_not_ours_is_refused(client: Client) -> None:
    await client.create_topic("t")
    assert (await client.fetch("t", 0, leader_epoch=0)).error_code == 0
    assert (await client.fetch("t", 0, leader_epoch=9)).error_code == ErrorCode.UNKNOWN_LEADER_EPOCH


@pytest.mark.parametrize(
    ("epoch", "offset", "told"),
    [
        (3, 2, (0, -1, -1)),  # it read what is here
        (3, 3, (0, 3, 2)),  # it read on where this log ended
        (2, 2, (0, 1, 1)),  # what it read in epoch 2 is not here
        (0, 1, (0, 0, 0)),  # older than all that is here: that epoch ended where the first of these began
        (4, 1, (ErrorCode.OFFSET_OUT_OF_RANGE, -1, -1)),  # newer
    ],
)
@with_broker()
async def test_a_reader_learns_where_its_log_and_this_one_part(
    client: Client, epoch: int, offset: int, told: tuple[int, int, int]
) -> None:
    await client.create_topic("t")
    for leader_epoch in (1, 3):
        client.broker.node.topics.partition("t", 0).leader_epoch = leader_epoch
        await client.produce("t", b"a")
    request = fetch_request("t", offset, max_wait_ms=0 if epoch == 3 and offset == 2 else LONG_MS)
    request.topics[0].partitions[0].last_fetched_epoch = epoch
    data = (await client.request(request, 12)).responses[0].partitions[0]
    assert (data.error_code, data.diverging_epoch.epoch, data.diverging_epoch.end_offset) == told
    assert len(data.records) == 0


@with_broker()
async def test_a_reader_that_is_behind_a_leader_epoch_is_told_the_leader(client: Client) -> None:
    await client.create_topic("t")
    topic = (await client.request(MetadataRequest(topics=None), 12)).topics[0]
    client.broker.node.topics.partition("t", 0).leader_epoch = 3
    request = fetch_request("", 0, leader_epoch=0)
    request.topics[0].topic_id = topic.topic_id
    response = await client.request(request, 16)
    data = response.responses[0].partitions[0]
    assert data.error_code == ErrorCode.FENCED_LEADER_EPOCH
    assert (data.current_leader.leader_id, data.current_leader.leader_epoch) == (1, 3)
    assert [(each.node_id, each.port) for each in response.node_endpoints] == [(1, client.address[1])]


@with_broker()
async def test_topics_are_found_by_id_from_version_13_on(client: Client) -> None:
    await client.create_topic("t")
    await client.produce("t", b"a")
    topic = (await client.request(MetadataRequest(topics=None), 12)).topics[0]
    request = fetch_request("", 0)
    request.topics[0].topic_id = topic.topic_id
    response = await client.request(request, 17)
    assert len(response.responses[0].partitions[0].records) > 0


@with_broker()
async def test_requests_behind_a_fetch_that_waits_are_answered_after_it(client: Client) -> None:
    await client.create_topic("t")
    first = client.send(fetch_request("t", 0, max_wait_ms=50), 11)
    second = client.send(MetadataRequest(topics=None), 9)
    assert (await client.receive(ApiKey.FETCH, 11)).correlation_id == first
    assert (await client.receive(ApiKey.METADATA, 9)).correlation_id == second
