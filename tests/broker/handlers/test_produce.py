from __future__ import annotations

import asyncio
import uuid

import pytest

from mainstem.protocol.apis import ApiKey
from mainstem.protocol.errors import ErrorCode
from mainstem.protocol.messages.init_producer_id import InitProducerIdRequest
from mainstem.protocol.messages.metadata import MetadataRequest
from mainstem.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from mainstem.record.constants import Compression
from mainstem.record.writer import ProducerStamp
from tests.broker.harness import Client, produce_request, with_broker


@with_broker()
async def test_records_get_consecutive_offsets_and_come_back_as_they_were(client: Client) -> None:
    await client.create_topic("t")
    first = await client.produce("t", b"a", b"b")
    second = await client.produce("t", b"c", None)
    assert (first.base_offset, second.base_offset) == (0, 2)
    assert await client.values("t") == [b"a", b"b", b"c", None]


@pytest.mark.parametrize("codec", list(Compression), ids=lambda codec: codec.name.lower())
@with_broker()
async def test_every_codec_passes_through(client: Client, codec: Compression) -> None:
    await client.create_topic("t")
    assert (await client.produce("t", b"x" * 1000, compression=codec)).error_code == 0
    assert await client.values("t") == [b"x" * 1000]


@pytest.mark.parametrize("acks", [1, -1])
@with_broker()
async def test_what_was_acknowledged_is_durable(client: Client, acks: int) -> None:
    await client.create_topic("t")
    await client.produce("t", b"a", acks=acks)
    log = client.broker.node.topics.partition("t", 0)
    assert (log.recovery_point, log.high_watermark, log.log_end_offset) == (1, 1, 1)


@with_broker()
async def test_acks_0_is_not_answered_and_the_records_are_there(client: Client) -> None:
    await client.create_topic("t")
    client.send(produce_request("t", b"a", acks=0), 9)
    assert (await client.produce("t", b"b", acks=1)).base_offset == 1
    assert (await client.produce("t", b"c")).base_offset == 2
    assert await client.values("t") == [b"a", b"b", b"c"]


@with_broker()
async def test_an_error_of_acks_0_closes_the_connection(client: Client) -> None:
    client.send(produce_request("unknown", b"a", acks=0), 9)
    assert await client.is_closed()


@with_broker()
async def test_many_requests_sent_at_once_are_answered_in_their_order(client: Client) -> None:
    await client.create_topic("t")
    ids = [client.send(produce_request("t", b"%d" % number), 9) for number in range(250)]
    answers = [await client.receive(ApiKey.PRODUCE, 9) for _ in ids]
    assert [answer.correlation_id for answer in answers] == ids
    offsets = [answer.body.responses[0].partition_responses[0].base_offset for answer in answers]
    assert offsets == list(range(250))


@with_broker()
async def test_each_partition_of_a_request_fails_alone(client: Client) -> None:
    await client.create_topic("t")
    good = produce_request("t", b"a").topic_data[0].partition_data[0].records
    data = [PartitionProduceData(index=number, records=good) for number in (0, 7)]
    request = ProduceRequest(
        acks=-1,
        timeout_ms=1000,
        topic_data=[
            TopicProduceData(name="t", partition_data=data),
            TopicProduceData(name="u", partition_data=data[:1]),
        ],
    )
    response = await client.request(request, 9)
    codes = [item.error_code for topic in response.responses for item in topic.partition_responses]
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert codes == [0, unknown, unknown]


@with_broker(message_max_bytes="1000")
async def test_a_batch_over_the_limit_is_refused_and_nothing_is_lost(client: Client) -> None:
    await client.create_topic("t")
    await client.produce("t", b"before")
    refused = await client.produce("t", b"x" * 2000)
    assert (refused.error_code, refused.base_offset) == (ErrorCode.MESSAGE_TOO_LARGE, -1)
    assert (await client.produce("t", b"after")).base_offset == 1
    assert await client.values("t") == [b"before", b"after"]


@with_broker()
async def test_a_damaged_batch_is_refused(client: Client) -> None:
    await client.create_topic("t")
    request = produce_request("t", b"a" * 100)
    item = request.topic_data[0].partition_data[0]
    item.records = bytes(item.records[:-1]) + b"\xff"
    answer = (await client.request(request, 9)).responses[0].partition_responses[0]
    assert answer.error_code == ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("records", [None, b""])
@with_broker()
async def test_a_request_without_records_is_refused(client: Client, records: bytes | None) -> None:
    await client.create_topic("t")
    request = produce_request("t", b"a")
    request.topic_data[0].partition_data[0].records = records
    answer = (await client.request(request, 9)).responses[0].partition_responses[0]
    assert answer.error_code == ErrorCode.INVALID_RECORD


@with_broker()
async def test_an_acks_that_does_not_exist_is_refused(client: Client) -> None:
    await client.create_topic("t")
    assert (await client.produce("t", b"a", acks=2)).error_code == ErrorCode.INVALID_REQUIRED_ACKS


@with_broker()
async def test_topics_are_found_by_id_from_version_13_on(client: Client) -> None:
    await client.create_topic("t")
    topic = (await client.request(MetadataRequest(topics=None), 12)).topics[0]
    request = produce_request("", b"a")
    request.topic_data[0].topic_id = topic.topic_id
    response = await client.request(request, 13)
    assert response.responses[0].partition_responses[0].error_code == 0
    request.topic_data[0].topic_id = uuid.uuid4()
    response = await client.request(request, 13)
    assert response.responses[0].partition_responses[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID


@with_broker()
async def test_a_batch_that_is_sent_again_is_not_appended_again(client: Client) -> None:
    await client.create_topic("t")
    request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1)
    given = await client.request(request, 4)
    stamp = ProducerStamp(given.producer_id, given.producer_epoch, 0)
    answers = [await client.produce("t", b"a", producer=stamp) for _ in range(2)]
    assert [(answer.error_code, answer.base_offset) for answer in answers] == [(0, 0), (0, 0)]
    assert await client.values("t") == [b"a"]


@with_broker()
async def test_a_gap_in_the_sequence_is_refused(client: Client) -> None:
    await client.create_topic("t")
    await client.produce("t", b"a", producer=ProducerStamp(5, 0, 0))
    answer = await client.produce("t", b"c", producer=ProducerStamp(5, 0, 2))
    assert answer.error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


@with_broker()
async def test_every_producer_gets_an_id_of_its_own(client: Client) -> None:
    request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1)
    ids = [(await client.request(request, 4)).producer_id for _ in range(1500)]
    assert len(set(ids)) == 1500


@with_broker()
async def test_clients_do_not_write_internal_topics(client: Client) -> None:
    await client.create_topic("__consumer_offsets")
    assert (await client.produce("__consumer_offsets", b"a")).error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


@with_broker()
async def test_producers_on_many_connections_lose_nothing(client: Client) -> None:
    await client.create_topic("t")

    async def write(name: int) -> None:
        own = await client.another()
        for number in range(50):
            assert (await own.produce("t", b"%d-%d" % (name, number))).error_code == 0
        own.close()

    await asyncio.gather(*(write(name) for name in range(8)))
    assert set(await client.values("t")) == {b"%d-%d" % (name, n) for name in range(8) for n in range(50)}


@with_broker(log_cleanup_policy="compact")
async def test_records_without_a_key_are_refused_by_name_on_a_compacted_topic(client: Client) -> None:
    await client.create_topic("t")
    refused = await client.produce("t", b"a", b"b", b"c", keys=[b"k", None, None])
    assert refused.error_code == ErrorCode.INVALID_RECORD
    assert [each.batch_index for each in refused.record_errors] == [1, 2]
    assert "without a key" in refused.record_errors[0].batch_index_error_message
    assert "without a key" in refused.error_message
    old = await client.produce("t", b"a", version=7)
    assert old.error_code == ErrorCode.INVALID_RECORD
    assert (await client.produce("t", b"a", keys=[b"k"])).base_offset == 0


@pytest.mark.parametrize(
    ("topic", "code"),
    [("t", ErrorCode.INVALID_REQUIRED_ACKS), ("none", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)],
)
@with_broker()
async def test_a_topic_that_is_not_there_is_said_before_acks_that_there_are_not(
    client: Client, topic: str, code: ErrorCode
) -> None:
    await client.create_topic("t")
    assert (await client.produce(topic, b"v", acks=2)).error_code == code
