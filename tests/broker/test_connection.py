"""What a connection does with bytes that are no request, with too many of them, and with a client that does not
read.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Callable
from pathlib import Path

import pytest
import uvloop

from mainstem.broker.configs.broker_config import BrokerConfig
from mainstem.broker.security.listeners import Listener, Protocol
from mainstem.broker.server import Broker
from mainstem.protocol.apis import ApiKey
from mainstem.protocol.codec import encode_request
from mainstem.protocol.messages.metadata import MetadataRequest
from tests.broker.harness import Client, fetch_request, produce_request, running, with_broker

ALL_TOPICS = MetadataRequest(topics=None)

MALFORMED = {
    "a header that is cut off": struct.pack(">ih", 2, 3),
    "a client id that is longer than the frame": struct.pack(">ihhih", 10, 3, 1, 1, 30_000),
    "a client id that is not UTF-8": struct.pack(">ihhih2s", 12, 3, 1, 1, 2, b"\xff\xff"),
    "a body that is cut off": struct.pack(">ihhihh", 12, 3, 1, 1, -1, 0),
    "an array of 2^31-1 elements": struct.pack(">ihhihi", 14, 3, 1, 1, -1, 2**31 - 1),
    "a negative length": struct.pack(">i", -1),
    "a length of 2 GB": struct.pack(">i", 2**31 - 1),
    "HTTP": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "TLS": bytes.fromhex("1603010200010001fc0303") + bytes(500),
}


@pytest.mark.parametrize("case", MALFORMED)
@with_broker()
async def test_what_is_no_request_closes_the_connection_and_no_other(client: Client, case: str) -> None:
    other = await client.another()
    other.writer.write(MALFORMED[case])
    assert await other.is_closed()
    assert (await client.request(ALL_TOPICS, 12)).error_code == 0
    assert client.broker.node.network.request_memory.used_bytes == 0


@with_broker(socket_request_max_bytes="1000")
async def test_a_frame_over_the_limit_closes_the_connection(client: Client) -> None:
    other = await client.another()
    other.writer.write(struct.pack(">i", 1001))
    assert await other.is_closed()
    assert (await client.request(ALL_TOPICS, 12)).error_code == 0


@with_broker()
async def test_a_request_that_comes_byte_by_byte_is_answered(client: Client) -> None:
    frame = struct.pack(">ihhihi", 14, 3, 1, 77, -1, -1)
    for byte in frame:
        client.writer.write(bytes([byte]))
        await client.writer.drain()
    assert (await client.receive(ApiKey.METADATA, 1)).correlation_id == 77


@with_broker()
async def test_requests_sent_without_waiting_are_answered_in_order(client: Client) -> None:
    ids = [client.send(ALL_TOPICS, 12) for _ in range(300)]
    assert [(await client.receive(ApiKey.METADATA, 12)).correlation_id for _ in ids] == ids


@with_broker(max_connections="2")
async def test_one_connection_too_many_is_closed_and_room_is_made_again(client: Client) -> None:
    second = await client.another()
    await second.request(ALL_TOPICS, 12)
    third = await client.another()
    assert await third.is_closed()
    second.close()
    await second.writer.wait_closed()
    while len(client.broker.connections) > 1:
        await asyncio.sleep(0)
    assert (await (await client.another()).request(ALL_TOPICS, 12)).error_code == 0


@with_broker(queued_max_request_bytes="50000")
async def test_more_requests_than_the_memory_holds_are_all_answered(client: Client) -> None:
    await client.create_topic("t")
    clients = [await client.another() for _ in range(5)]
    answers = await asyncio.gather(*(each.produce("t", bytes(40_000)) for each in clients for _ in range(1)))
    assert sorted(answer.base_offset for answer in answers) == list(range(5))
    assert client.broker.node.network.request_memory.used_bytes == 0


@with_broker()
async def test_a_client_that_does_not_read_stops_being_served_and_goes_on_when_it_reads(client: Client) -> None:
    await client.create_topic("t")
    for _ in range(4):
        await client.produce("t", bytes(900_000))
    slow = socket.create_connection(client.address)
    slow.setblocking(False)
    reader, writer = await asyncio.open_connection(sock=slow, limit=1)
    requests = Client(client.address, client.broker)
    requests.reader, requests.writer = reader, writer
    ids = [requests.send(fetch_request("t", 0, max_bytes=1 << 22, partition_max_bytes=1 << 22), 11) for _ in range(30)]
    (connection,) = [each for each in client.broker.connections if not each._can_write] or [None]
    while connection is None:
        await asyncio.sleep(0)
        (connection,) = [each for each in client.broker.connections if not each._can_write] or [None]
    assert connection._transport.get_write_buffer_size() < 20_000_000
    answers = [(await requests.receive(ApiKey.FETCH, 11)).correlation_id for _ in ids]
    assert answers == ids


@with_broker()
async def test_a_connection_that_ends_gives_its_memory_back(client: Client) -> None:
    other = await client.another()
    other.writer.write(struct.pack(">i", 90_000_000) + bytes(100_000))
    await other.writer.drain()
    while not client.broker.node.network.request_memory.coming_bytes:
        await asyncio.sleep(0)
    other.close()
    while client.broker.node.network.request_memory.coming_bytes:
        await asyncio.sleep(0)


def test_two_brokers_live_in_one_process_and_one_loop(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path / "a") as first, running(tmp_path / "b") as second:
            await first.create_topic("t")
            assert (await second.request(ALL_TOPICS, 12)).topics == []

    asyncio.run(scenario())


def test_a_directory_is_opened_again_after_a_stop(tmp_path: Path) -> None:
    async def scenario() -> None:
        for number in range(3):
            async with running(tmp_path / "data") as client:
                if number == 0:
                    await client.create_topic("t")
                assert (await client.produce("t", b"a")).base_offset == number

    asyncio.run(scenario())


@with_broker(mainstem_request_stall_ms="50")
async def test_a_request_that_stands_still_is_closed_and_a_quiet_connection_is_not(client: Client) -> None:
    other = await client.another()
    other.writer.write(struct.pack(">i", 1000) + b"x")
    assert await other.is_closed()
    assert (await client.request(ALL_TOPICS, 12)).error_code == 0


@with_broker(queued_max_request_bytes="100000", mainstem_request_stall_ms="10000")
async def test_a_request_on_a_slow_link_is_not_hurried_by_those_that_wait_for_answers_of_others(client: Client) -> None:
    await client.create_topic("t")
    slow, waiting = await client.another(), await client.another()
    whole = b"".join(encode_request(produce_request("t", bytes(2000)), 9, correlation_id=1, client_id=None))
    slow.writer.write(whole[:1000])
    while not client.broker.node.network.request_memory.coming_bytes:
        await asyncio.sleep(0)
    poll = b"".join(encode_request(fetch_request("t", 0, max_wait_ms=2500), 11, correlation_id=1, client_id=None))
    padded = poll[4:] + bytes(60_000)
    client.writer.write(struct.pack(">i", len(padded)) + padded)
    while not client.broker.node.network.request_memory.used_bytes:
        await asyncio.sleep(0)
    assert (await waiting.request(ALL_TOPICS, 12)).error_code == 0  # when the poll has ended
    slow.writer.write(whole[1000:])
    answer = await slow.receive(ApiKey.PRODUCE, 9)
    assert answer.body.responses[0].partition_responses[0].error_code == 0


@with_broker(connections_max_idle_ms="50")
async def test_a_connection_on_which_nothing_happens_is_closed_but_not_one_that_waits(client: Client) -> None:
    await client.create_topic("t")
    idle = await client.another()
    await idle.request(ALL_TOPICS, 12)
    task = asyncio.create_task(client.request(fetch_request("t", 0, max_wait_ms=15_000), 11))
    assert await idle.is_closed()
    assert not task.done()
    await (await client.another()).produce("t", b"a")
    assert (await task).error_code == 0


@pytest.mark.parametrize("turns", range(6))
@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def test_a_client_that_arrives_while_the_broker_stops_is_let_go(
    tmp_path: Path, new_loop: Callable[[], asyncio.AbstractEventLoop], turns: int
) -> None:
    async def stop_during_the_accept() -> bytes:
        broker = Broker(BrokerConfig(data_dir=tmp_path, listeners=(Listener(Protocol.PLAINTEXT, "127.0.0.1", 0),)))
        address = await broker.start()
        with socket.create_connection(address) as client:
            for _ in range(turns):
                await asyncio.sleep(0)
            await broker.stop()
            client.settimeout(10)
            try:
                return await asyncio.to_thread(client.recv, 1)
            except ConnectionResetError:
                return b""

    with asyncio.Runner(loop_factory=new_loop) as runner:
        assert runner.run(stop_during_the_accept()) == b""
