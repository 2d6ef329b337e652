from __future__ import annotations

from mainstem.protocol.errors import ErrorCode
from mainstem.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from mainstem.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from mainstem.record.writer import NewRecord, build_batch
from tests.broker.harness import Client, with_broker

_CONFIGS = {
    "mainstem.key.index": "true",
    "mainstem.conditional.append": "true",
    "mainstem.idempotency.window.ms": "60000",
}


async def create(client: Client, name: str = "t") -> None:
    configs = [CreatableTopicConfig(name=key, value=value) for key, value in _CONFIGS.items()]
    topic = CreatableTopic(name=name, num_partitions=1, replication_factor=1, assignments=(), configs=configs)
    response = await client.request(CreateTopicsRequest(topics=[topic]), 7)
    assert response.topics[0].error_code == 0, response


def request(*records: NewRecord) -> ProduceRequest:
    data = PartitionProduceData(index=0, records=build_batch(list(records)))
    return ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=[TopicProduceData(name="t", partition_data=[data])])


def record(value: bytes, **headers: str) -> NewRecord:
    named = tuple((f"mainstem-{name.replace('_', '-')}", text.encode()) for name, text in headers.items())
    return NewRecord(b"k", value, named, 1_700_000_000_000)


@with_broker()
async def test_a_condition_that_does_not_hold_names_the_record_and_the_actual_offset(client: Client) -> None:
    await create(client)
    await client.request(request(record(b"a")), 9)
    response = await client.request(request(record(b"b"), record(b"c", expect_key_offset="7")), 9)
    answer = response.responses[0].partition_responses[0]
    assert answer.error_code == ErrorCode.INVALID_RECORD
    [error] = answer.record_errors
    assert error.batch_index == 1
    assert error.batch_index_error_message == "mainstem-expect-key-offset: expected 7, actual 1"
    assert await client.values("t") == [b"a"]


@with_broker()
async def test_of_two_that_come_in_one_turn_of_the_loop_one_is_taken(client: Client) -> None:
    await create(client)
    others = [await client.another() for _ in range(4)]
    for other in others:
        other.send(request(record(b"x", expect_key_offset="-1")), 9)
        other.send(request(record(b"y", expect_end="0")), 9)
    codes = []
    for other in others:
        for _ in range(2):
            answer = (await other.receive(0, 9)).body.responses[0].partition_responses[0]
            codes.append(answer.error_code)
        other.close()
    assert sorted(codes) == [ErrorCode.NONE] + [ErrorCode.INVALID_RECORD] * 7
    assert len(await client.values("t")) == 1


@with_broker()
async def test_an_idempotency_key_is_answered_with_the_first_offset(client: Client) -> None:
    await create(client)
    await client.request(request(record(b"before")), 9)
    for value in (b"first", b"second"):
        response = await client.request(request(record(value, idempotency_key="x")), 9)
        answer = response.responses[0].partition_responses[0]
        assert (answer.error_code, answer.base_offset) == (0, 1)
    assert await client.values("t") == [b"before", b"first"]
