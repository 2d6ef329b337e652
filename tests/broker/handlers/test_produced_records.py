"""What Produce says of records that do not add up, over the wire: as Apache Kafka 4.3, but for what is named there."""

from __future__ import annotations

import asyncio
import platform
import struct
import sys
import threading
import time
from pathlib import Path
from typing import Any, cast

import pytest

from mainstem.protocol.errors import ErrorCode
from mainstem.protocol.messages.api_versions import ApiVersionsRequest
from mainstem.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from mainstem.protocol.messages.init_producer_id import InitProducerIdRequest
from mainstem.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from mainstem.record.compress import compress
from mainstem.record.constants import HEADER_BYTES, NO_PRODUCER_ID, Compression
from mainstem.record.header import read_header
from mainstem.record.record_check import load_native
from mainstem.record.writer import NewRecord, ProducerStamp, assemble_batch, build_batch
from tests.broker.harness import Client, LogProcess, with_broker
from tests.broker.transactions.producer import Producer

CODECS = [codec for codec in Compression if codec]
NEWEST = 11


@pytest.fixture(scope="module", autouse=True)
def _native_walker() -> None:
    """A machine that has never compiled it takes seconds, which are no part of these tests."""
    load_native()


def good(count: int = 2, *, timestamp_ms: int | None = None, **build: Any) -> bytes:
    now_ms = int(time.time() * 1000) if timestamp_ms is None else timestamp_ms
    return build_batch([NewRecord(b"k", b"v%d" % at, (), now_ms) for at in range(count)], **build)


def changed(batch: bytes, **fields: int) -> bytes:
    """The batch with another header, and the checksum that belongs to it."""
    return assemble_batch(read_header(batch)._replace(**fields), batch[HEADER_BYTES:])


def holding(codec: Compression, plain: bytes, count: int = 2) -> bytes:
    """A batch that says that it holds ``count`` records, and holds these bytes in that codec."""
    header = read_header(good(count))._replace(attributes=codec)
    return assemble_batch(header, bytes(compress(codec, plain)))


def patched(batch: bytes, form: str, at: int, value: int) -> bytes:
    data = bytearray(batch)
    struct.pack_into(form, data, at, value)
    return bytes(data)


def request(topic: str, *batches: bytes, acks: int = -1) -> ProduceRequest:
    """Each batch to a partition of its own."""
    data = [PartitionProduceData(index=at, records=batch) for at, batch in enumerate(batches)]
    return ProduceRequest(acks=acks, timeout_ms=10_000, topic_data=[TopicProduceData(name=topic, partition_data=data)])


async def produce(client: Client, topic: str, batch: bytes, version: int = NEWEST) -> Any:
    response = await client.request(request(topic, batch), version)
    return response.responses[0].partition_responses[0]


async def create(client: Client, name: str, partitions: int = 1, **configs: str) -> None:
    settings = [CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in configs.items()]
    topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1, assignments=(), configs=settings)
    response = await client.request(CreateTopicsRequest(topics=[topic]), 7)
    assert response.topics[0].error_code == 0, response


INVALID, CORRUPT = ErrorCode.INVALID_RECORD, ErrorCode.CORRUPT_MESSAGE
OF_THE_LOG, OF_THE_REQUEST = 0, -1  # the log start offset that a refusal has
REFUSED = {
    "a base offset": (lambda: good(base_offset=5), INVALID, OF_THE_LOG),
    "two batches": (lambda: good() + good(), INVALID, OF_THE_REQUEST),
    "a cut batch": (lambda: good()[:-3], INVALID, OF_THE_REQUEST),
    "a cut header": (lambda: good()[:30], INVALID, OF_THE_REQUEST),
    "a wrong checksum": (lambda: good()[:-1] + b"\x7f", CORRUPT, OF_THE_REQUEST),
    "magic 1": (lambda: patched(good(), ">b", 16, 1), INVALID, OF_THE_REQUEST),
    "magic 3": (lambda: patched(good(), ">b", 16, 3), CORRUPT, OF_THE_REQUEST),
    "length 40": (lambda: patched(good(), ">i", 8, 40), CORRUPT, OF_THE_REQUEST),
    "length -1": (lambda: patched(good(), ">i", 8, -1), CORRUPT, OF_THE_REQUEST),
    "more records than offsets": (lambda: changed(good(), record_count=3), INVALID, OF_THE_LOG),
    "a record too few": (lambda: changed(good(), record_count=3, last_offset_delta=2), INVALID, OF_THE_LOG),
    "a record too many": (lambda: changed(good(), record_count=1, last_offset_delta=0), INVALID, OF_THE_LOG),
    "no records": (lambda: changed(good(), record_count=0, last_offset_delta=-1), INVALID, OF_THE_LOG),
    "codec 5": (lambda: changed(good(), attributes=5), INVALID, OF_THE_LOG),
    "garbage": (lambda: assemble_batch(read_header(good()), b"\xff" * 40), INVALID, OF_THE_LOG),
    "zeros": (lambda: assemble_batch(read_header(good()), bytes(40)), INVALID, OF_THE_LOG),
    "an offset delta twice": (
        lambda: assemble_batch(read_header(good()), good(1)[HEADER_BYTES:] * 2),
        INVALID,
        OF_THE_LOG,
    ),
    "control records": (lambda: changed(good(), attributes=0x20), INVALID, OF_THE_LOG),
    "a producer without a sequence": (lambda: good(producer=ProducerStamp(1, 0, -1)), INVALID, OF_THE_LOG),
    "LogAppendTime": (lambda: good(log_append_time_ms=5), ErrorCode.INVALID_TIMESTAMP, OF_THE_LOG),
}
for _codec in CODECS:
    _name = _codec.name.lower()
    REFUSED |= {
        f"garbage as {_name}": (
            lambda codec=_codec: assemble_batch(read_header(good())._replace(attributes=codec), b"\x12" * 40),
            INVALID,
            OF_THE_LOG,
        ),
        f"{_name} of garbage": (lambda codec=_codec: holding(codec, b"\xff" * 40), INVALID, OF_THE_LOG),
        f"{_name} of one more": (lambda codec=_codec: holding(codec, good(3)[HEADER_BYTES:]), INVALID, OF_THE_LOG),
        f"{_name} of one less": (lambda codec=_codec: holding(codec, good(1)[HEADER_BYTES:]), INVALID, OF_THE_LOG),
        f"{_name} cut off": (
            lambda codec=_codec: changed(good(50, compression=codec)[:-6]),
            INVALID,
            OF_THE_LOG,
        ),
    }


@with_broker()
async def test_each_refusal_has_its_code_and_leaves_nothing(client: Client) -> None:
    await create(client, "t")
    for name, (build, code, log_start_offset) in REFUSED.items():
        answer = await produce(client, "t", build())
        said = (ErrorCode(answer.error_code), answer.base_offset, answer.log_start_offset)
        assert said == (code, -1, log_start_offset), f"{name}: {answer}"
        assert answer.error_message, name
    assert (await produce(client, "t", good())).base_offset == 0
    assert await client.values("t") == [b"v0", b"v1"]


@with_broker()
async def test_what_is_behind_the_batch_and_no_whole_batch_is_passed_over(client: Client) -> None:
    await create(client, "t")
    for tail in (b"12345", good()[:-3]):
        assert (await produce(client, "t", good(1) + tail)).error_code == ErrorCode.NONE
    assert await client.values("t") == [b"v0", b"v0"]


@with_broker()
async def test_zstd_needs_version_7(client: Client) -> None:
    await create(client, "t")
    batch = good(compression=Compression.ZSTD)
    assert (await produce(client, "t", batch, version=6)).error_code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert (await produce(client, "t", batch, version=7)).error_code == ErrorCode.NONE


@with_broker()
async def test_a_batch_that_no_segment_holds_is_a_list_that_is_too_large(client: Client) -> None:
    await create(client, "t", segment_bytes="1048576", max_message_bytes="3000000")
    answer = await produce(client, "t", build_batch([NewRecord(b"k", bytes(1_500_000), (), -1)]))
    assert (answer.error_code, answer.log_start_offset) == (ErrorCode.RECORD_LIST_TOO_LARGE, -1)


@pytest.mark.parametrize("codec", [Compression.NONE, Compression.LZ4])
@with_broker()
async def test_records_are_named_whose_key_or_time_the_topic_does_not_take(client: Client, codec: Compression) -> None:
    await create(client, "t", cleanup_policy="compact", message_timestamp_before_max_ms="3600000")
    now_ms = int(time.time() * 1000)
    rows = [(b"a", now_ms), (None, now_ms), (b"b", now_ms - 4_000_000), (b"c", -1), (b"d", now_ms + 4_000_000)]
    batch = build_batch([NewRecord(key, b"v", (), time_ms) for key, time_ms in rows], compression=codec)
    answer = await produce(client, "t", batch)
    assert (answer.error_code, answer.log_start_offset) == (ErrorCode.INVALID_TIMESTAMP, 0)
    assert [each.batch_index for each in answer.record_errors] == [1, 2, 4]
    first, before, after = (each.batch_index_error_message for each in answer.record_errors)
    assert "without a key" in first
    assert "message.timestamp.before.max.ms=3600000" in before
    assert "message.timestamp.after.max.ms=3600000" in after


@pytest.mark.parametrize("codec", [Compression.NONE, Compression.ZSTD])
@with_broker()
async def test_a_header_that_lies_about_its_greatest_timestamp_is_mended(client: Client, codec: Compression) -> None:
    await create(client, "t")
    then_ms = int(time.time() * 1000) - 100_000
    for lie in (then_ms + 10**12, 5, -1):
        batch = changed(good(3, timestamp_ms=then_ms, compression=codec), max_timestamp=lie)
        assert (await produce(client, "t", batch)).error_code == ErrorCode.NONE
    data = bytes((await client.fetch("t", 0)).records)
    assert read_header(data).max_timestamp == then_ms
    assert await client.values("t") == [b"v0", b"v1", b"v2"] * 3


@with_broker()
async def test_a_repeat_is_answered_with_the_time_of_the_first(client: Client) -> None:
    await create(client, "appended", message_timestamp_type="LogAppendTime")
    await create(client, "created")
    init = await client.request(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000), 4)
    then_ms = int(time.time() * 1000) - 50_000
    batch = good(timestamp_ms=then_ms, producer=ProducerStamp(init.producer_id, init.producer_epoch, 0))
    first, again = await produce(client, "appended", batch), await produce(client, "appended", batch)
    assert first.log_append_time_ms > then_ms
    assert (again.base_offset, again.log_append_time_ms) == (first.base_offset, first.log_append_time_ms)
    assert (await produce(client, "created", batch)).log_append_time_ms == -1
    assert (await produce(client, "created", batch)).log_append_time_ms == then_ms


@with_broker()
async def test_a_transactional_producer_begins_in_a_partition_with_sequence_0(client: Client) -> None:
    await create(client, "t")
    producer = await Producer(client).ready()
    producer.sequences["t", 0] = 1
    assert (await producer.produce("t", b"a")).error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    producer.sequences.clear()
    assert (await producer.produce("t", b"a")).error_code == ErrorCode.NONE


@pytest.mark.parametrize("named", [False, True])
@with_broker()
async def test_an_init_over_an_open_transaction_raises_the_epoch_as_kafka_does(client: Client, named: bool) -> None:
    await create(client, "t")
    producer = await Producer(client).ready()
    await producer.send("t", b"a")
    before = producer.epoch
    more = {"producer_id": producer.producer_id, "producer_epoch": before} if named else {}
    await producer.ready(**more)
    assert producer.epoch - before == (1 if named else 2)
    await producer.send("t", b"b")


@pytest.mark.parametrize(("producer_id", "epoch"), [(5, -1), (NO_PRODUCER_ID, 5)])
@with_broker()
async def test_a_producer_id_and_its_epoch_are_given_together(client: Client, producer_id: int, epoch: int) -> None:
    request = InitProducerIdRequest(
        transactional_id=None, transaction_timeout_ms=1000, producer_id=producer_id, producer_epoch=epoch
    )
    answer = await client.request(request, 4)
    assert (answer.error_code, answer.producer_id) == (ErrorCode.INVALID_REQUEST, -1)


# What takes long


def bomb(mebibytes: int, codec: Compression = Compression.ZSTD) -> bytes:
    """A small batch of as many empty records as that many bytes hold."""
    count = (mebibytes << 20) // 7
    header = read_header(good(1))._replace(attributes=codec, record_count=count, last_offset_delta=count - 1)
    return assemble_batch(header, bytes(compress(codec, b"\x0c\x00\x00\x00\x01\x01\x00" * count)))


@pytest.mark.parametrize("policy", ["compact", "delete"])
@with_broker()
async def test_bombs_do_not_hold_up_other_clients(client: Client, policy: str) -> None:
    await create(client, "t", 4, cleanup_policy=policy)
    batch = bomb(20)
    assert len(batch) < 20_000
    other = await client.another()
    await other.request(ApiVersionsRequest(), 0)
    client.send(request("t", *[batch] * 4), NEWEST)
    await client.writer.drain()
    answer = asyncio.create_task(client.receive(0, NEWEST))
    answered = 0
    while not answer.done():
        await other.request(ApiVersionsRequest(), 0)
        answered += 1
    assert answered >= 4, "the loop was held by each of the batches"
    partitions = answer.result().body.responses[0].partition_responses
    assert {partition.error_code for partition in partitions} == {
        ErrorCode.INVALID_RECORD
    }  # the offset deltas are all 0
    other.close()


@pytest.mark.parametrize("codec", CODECS)
@with_broker()
async def test_what_comes_to_more_than_the_limit_is_too_large(client: Client, codec: Compression) -> None:
    await create(client, "t", mainstem_max_decompressed_bytes="1000000", max_message_bytes="10000000")
    answer = await produce(client, "t", bomb(2, codec))
    assert answer.error_code == ErrorCode.MESSAGE_TOO_LARGE
    assert "mainstem.max.decompressed.bytes=1000000" in answer.error_message
    assert (await produce(client, "t", good(compression=codec))).error_code == ErrorCode.NONE


class Held:
    """The threads that check records are busy until the end of the block."""

    def __init__(self, client: Client) -> None:
        self._threads = client.broker.node.append_checks._threads
        self._end = threading.Event()

    def __enter__(self) -> None:
        for _ in range(self._threads._max_workers):
            self._threads.submit(self._end.wait)

    def __exit__(self, *_: object) -> None:
        self._end.set()


LARGE = 30_000
"""Records of a batch that is checked in a thread, compressed."""


@with_broker()
async def test_requests_behind_one_that_is_checked_in_a_thread_keep_their_order(client: Client) -> None:
    await create(client, "t")
    other = await client.another()
    with Held(client):
        client.send(request("t", good(LARGE, compression=Compression.ZSTD)), NEWEST)
        client.send(request("t", good(1)), NEWEST)
        client.send(ApiVersionsRequest(), 0)
        await client.writer.drain()
        await other.request(ApiVersionsRequest(), 0)
        assert (await produce(other, "t", good(1))).base_offset == 0
    first = (await client.receive(0, NEWEST)).body.responses[0].partition_responses[0]
    second = (await client.receive(0, NEWEST)).body.responses[0].partition_responses[0]
    assert (first.base_offset, second.base_offset) == (1, 1 + LARGE)
    assert (await client.receive(18, 0)).body.error_code == ErrorCode.NONE
    other.close()


@with_broker()
async def test_records_without_acknowledgement_are_appended_although_their_sender_has_gone(client: Client) -> None:
    await create(client, "t")
    log = client.broker.node.topics.partition("t", 0)
    other = await client.another()
    with Held(client):
        other.send(request("t", good(LARGE, compression=Compression.ZSTD), acks=0), NEWEST)
        await other.writer.drain()
        other.close()
        await other.writer.wait_closed()
        await client.request(ApiVersionsRequest(), 0)
    while log.log_end_offset < LARGE:
        await client.request(ApiVersionsRequest(), 0)
    assert log.log_end_offset == LARGE


@with_broker()
async def test_configs_that_change_while_records_are_checked_hold(client: Client) -> None:
    await create(client, "t")
    log = client.broker.node.topics.partition("t", 0)
    with Held(client):
        keyless = build_batch(
            [NewRecord(None, b"v%d" % at, (), -1) for at in range(LARGE)], compression=Compression.LZ4
        )
        client.send(request("t", keyless), NEWEST)
        await client.writer.drain()
        other = await client.another()
        await other.request(ApiVersionsRequest(), 0)
        log.update_config(type(log.config).of({"cleanup.policy": "compact"}))
    answer = (await client.receive(0, NEWEST)).body.responses[0].partition_responses[0]
    assert (answer.error_code, len(answer.record_errors)) == (ErrorCode.INVALID_RECORD, 1000)
    other.close()


@pytest.mark.skipif(sys.platform != "linux" or platform.machine() != "x86_64", reason="where code is kept")
def test_a_log_checks_large_batches_without_loading_numba(tmp_path: Path) -> None:
    """Numba would take some 100 MB, and hold up all clients while it is loaded."""
    process = LogProcess(tmp_path / "data").start()

    async def produce_many() -> None:
        host, _, port = process.bootstrap.rpartition(":")
        client = await Client((host, int(port)), cast(Any, None)).connect()
        await create(client, "t")
        for codec in Compression:
            answer = await produce(client, "t", good(LARGE, compression=codec))
            assert answer.error_code == ErrorCode.NONE
        client.close()

    asyncio.run(produce_many())
    maps = Path(f"/proc/{process.pid}/maps").read_text()
    assert process.stop() == 0
    assert not [name for name in ("llvmlite", "numba", "numpy") if name in maps]
