"""Streams that last: signs of life, readers who do not keep up, a server that stops, and how many there may be."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import httpx
import pytest

from mainstem.addresses import Address
from mainstem.client.log import Log
from mainstem.client.records import NewRecord
from mainstem.gateway.access.limits import GatewayLimits, files_for_streams
from mainstem.gateway.server.app import assemble
from mainstem.gateway.server.serving import listen_tcp
from mainstem.gateway.streams.event_stream import Streams
from mainstem.gateway.streams.stream_routes import stream_router
from mainstem.gateway.streams.topic_stream import TopicStreams
from mainstem.gateway.topics.topic_routes import topic_router
from tests.gateway.served import listening_on, served
from tests.gateway.sse import reading

LARGE = "x" * 100_000


def app_of(log: Log, limits: GatewayLimits | None = None) -> Any:
    """A gateway whose streams beat often and whose rings are small."""
    streams = Streams(stall_s=600)
    topics = TopicStreams(log, beat_s=0.05, ring_bytes=1 << 20)
    routers = (topic_router(log), stream_router(log, streams, topics))
    return assemble("test", routers, limits or GatewayLimits(), streams=streams)


@pytest.fixture(scope="module")
def small(session_log: Log) -> Iterator[httpx.Client]:
    with served(app_of(session_log)) as client:
        yield client


def connected(client: httpx.Client, path: str) -> socket.socket:
    """A connection that takes little at a time, and has asked for a stream."""
    slow = socket.socket()
    slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    slow.settimeout(60)
    slow.connect((client.base_url.host, client.base_url.port))
    slow.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
    return slow


def test_a_stream_gives_signs_of_life_that_carry_its_position(
    small: httpx.Client, session_log: Log, mainstem_topic: str
) -> None:
    with reading(small, f"/topics/{mainstem_topic}/stream", key="wanted") as reader:
        assert reader.begun() == f"{mainstem_topic}/0:0"
        session_log.append(mainstem_topic, 1, key="other")
        reader.wait_for_id(f"{mainstem_topic}/0:1")


def test_a_slow_reader_is_cut_off_says_so_and_can_go_on(
    small: httpx.Client, session_log: Log, mainstem_topic: str
) -> None:
    path = f"/topics/{mainstem_topic}/stream"
    with closing(connected(small, path)) as slow, reading(small, path, route="last") as quick:
        received = slow.recv(1000)
        quick.begun()
        for start in range(0, 300, 50):
            session_log.append_many(mainstem_topic, [NewRecord(LARGE, key=f"{start + n}") for n in range(50)])
        session_log.append(mainstem_topic, 1, key="last")
        assert quick.take(1)[0].data["offset"] == 300
        while piece := slow.recv(1 << 20):
            received += piece
    assert received.count(b"event: problem") == 1
    assert b"too slow" in received[-1000:]
    ids = [line.removeprefix(b"id: ").decode() for line in received.split(b"\n") if line.startswith(b"id: ")]
    with reading(small, path, ids[-1]) as again:
        offset = int(ids[-1].rpartition(":")[2])
        assert [event.data["offset"] for event in again.take(301 - offset)] == list(range(offset, 301))


def test_a_reader_of_a_long_past_is_not_slow(small: httpx.Client, session_log: Log, mainstem_topic: str) -> None:
    for _ in range(6):
        session_log.append_many(mainstem_topic, [NewRecord(LARGE) for _ in range(10)])
    with reading(small, f"/topics/{mainstem_topic}/stream", from_="earliest") as reader:
        assert [event.data["offset"] for event in reader.take(60)] == list(range(60))


def test_a_server_that_stops_ends_its_streams(session_log: Log, mainstem_topic: str) -> None:
    listening = listen_tcp("127.0.0.1:0", insecure=False)
    url = f"http://{Address(*listening.getsockname()[:2])}/topics/{mainstem_topic}/stream"
    with listening_on(app_of(session_log), listening) as server:
        with httpx.stream("GET", url, timeout=30, trust_env=False) as response:
            lines = response.iter_lines()
            next(lines)
            server.should_exit = True
            assert list(lines)[-2:] == [": the server is stopping", ""]


def test_streams_are_bounded_by_the_open_files_that_they_take(session_log: Log, mainstem_topic: str) -> None:
    path = f"/topics/{mainstem_topic}/stream"
    with served(app_of(session_log, GatewayLimits(stream_files_max=2))) as client:
        with reading(client, path):  # one file is left, and a view's stream takes two
            refused = client.get("/views/nothing/stream")
            assert (refused.status_code, refused.json()["detail"]) == (
                503,
                "the limit of streams is reached: 1 are open; try again later",
            )
            with reading(client, path):
                assert client.get(path).status_code == 503
        assert files_for_streams(GatewayLimits(requests_max=500), 20_000) == 19_000
        assert files_for_streams(GatewayLimits(requests_max=500), 1_000) == 500


def test_streams_are_bounded_and_take_no_place_of_requests(session_log: Log, mainstem_topic: str) -> None:
    path = f"/topics/{mainstem_topic}/stream"
    with served(app_of(session_log, GatewayLimits(streams_max=2, requests_max=1))) as client:
        with reading(client, path), reading(client, path) as second:
            refused = client.get(path)
            assert (refused.status_code, refused.json()["type"]) == (503, "/problems/unavailable")
            assert client.get("/topics").status_code == 200
            second.response.close()
            while client.get(path + "?from=nowhere").status_code == 503:
                continue
