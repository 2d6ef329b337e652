"""Metrics over their Unix socket."""

from __future__ import annotations

import asyncio
import socket
import stat
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from mainstem.broker.configs.broker_config import BrokerConfig
from mainstem.broker.metrics.serving import METRICS_SOCKET, MetricsServer
from mainstem.broker.server import Broker
from tests.broker.harness import LogProcess

TIMEOUT_S = 60


@pytest.fixture
def short_path() -> Iterator[Path]:
    """A directory whose name leaves room for a Unix socket's."""
    with TemporaryDirectory(prefix="mm-") as directory:
        yield Path(directory)


@asynccontextmanager
async def serving(data: Path, path: Path) -> AsyncIterator[MetricsServer]:
    broker = Broker(BrokerConfig(data, port=0))
    await broker.start()
    server = MetricsServer(broker, path)
    await server.start()
    try:
        yield server
    finally:
        await server.stop()
        await broker.stop()


async def ask(path: Path, request: bytes) -> bytes:
    async with asyncio.timeout(TIMEOUT_S):
        reader, writer = await asyncio.open_unix_connection(str(path))
        writer.write(request)
        answer = await reader.read(-1)
        writer.close()
    return answer


def test_metrics_are_told_to_this_user_alone(short_path: Path) -> None:
    async def scenario() -> None:
        path = short_path / "m.sock"
        async with serving(short_path / "data", path):
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
            answer = await ask(path, b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
            head, _, body = answer.partition(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4")
            assert b"\nmainstem_connections 0\n" in body
            assert (await ask(path, b"GET / HTTP/1.1\r\n\r\n")).startswith(b"HTTP/1.1 404")
        assert not path.exists()

    asyncio.run(scenario())


def test_what_is_no_request_gets_no_answer(short_path: Path) -> None:
    async def scenario() -> None:
        path = short_path / "m.sock"
        async with serving(short_path / "data", path):
            assert await ask(path, b"x" * 100_000) == b""

    asyncio.run(scenario())


def test_a_socket_that_a_killed_process_left_is_replaced(short_path: Path) -> None:
    async def scenario() -> None:
        path = short_path / "m.sock"
        with socket.socket(socket.AF_UNIX) as left:
            left.bind(str(path))
        async with serving(short_path / "data", path):
            assert (await ask(path, b"GET /metrics HTTP/1.1\r\n\r\n")).startswith(b"HTTP/1.1 200")

    asyncio.run(scenario())


def test_where_no_socket_can_be_the_log_is_served_all_the_same(
    short_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        async with serving(short_path / "data", short_path / "no" / "such" / "m.sock"):
            assert "no metrics" in caplog.text

    asyncio.run(scenario())


def test_the_log_process_has_its_socket_in_the_data_directory(short_path: Path) -> None:
    with LogProcess(short_path):
        answer = asyncio.run(ask(short_path / METRICS_SOCKET, b"GET /metrics HTTP/1.1\r\n\r\n"))
        assert b'mainstem_info{version="' in answer
    assert not (short_path / METRICS_SOCKET).exists()
