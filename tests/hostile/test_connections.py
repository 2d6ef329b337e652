"""Clients that mean no good, or are broken: others are served, and nothing is kept for what was only announced."""

from __future__ import annotations

import resource
import socket
import struct
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from mainstem.protocol.codec import decode_response, encode_request
from mainstem.protocol.messages.api_versions import ApiVersionsRequest
from tests.broker.harness import LogProcess

TIMEOUT_S = 60
IDLE = 5_000
API_VERSIONS = 18


@contextmanager
def connected(log: LogProcess) -> Iterator[socket.socket]:
    host, _, port = log.bootstrap.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=TIMEOUT_S) as connection:
        yield connection


def is_served(log: LogProcess) -> bool:
    """Whether a client that has just come is answered."""
    with connected(log) as connection:
        request = ApiVersionsRequest(client_software_name="test", client_software_version="1")
        connection.sendall(b"".join(encode_request(request, 3, correlation_id=1, client_id="test")))
        (length,) = struct.unpack(">i", _read(connection, 4))
        return bool(decode_response(_read(connection, length), API_VERSIONS, 3).body.api_keys)


def _read(connection: socket.socket, count: int) -> bytes:
    data = bytearray()
    while len(data) < count:
        chunk = connection.recv(count - len(data))
        assert chunk, "the log closed the connection"
        data += chunk
    return bytes(data)


def is_closed(connection: socket.socket) -> bool:
    """Whether the log closes the connection, and says nothing before."""
    try:
        return connection.recv(1) == b""
    except ConnectionError:
        return True


def resident_mb(log: LogProcess) -> float:
    status = Path(f"/proc/{log.pid}/status").read_text()
    return int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmRSS"))) / 1000


@pytest.mark.parametrize("length", [2**31 - 1, 2**30, -1, -(2**31)])
def test_a_length_that_no_request_has_closes_the_connection_and_takes_no_memory(tmp_path: Path, length: int) -> None:
    with LogProcess(tmp_path / "data") as log:
        assert is_served(log)
        before_mb = resident_mb(log)
        for _ in range(20):
            with connected(log) as connection:
                connection.sendall(struct.pack(">i", length) + bytes(1000))
                assert is_closed(connection)
        assert resident_mb(log) < before_mb + 20
        assert is_served(log)


def test_large_requests_that_are_only_announced_take_no_memory_and_hold_nobody_up(tmp_path: Path) -> None:
    with LogProcess(tmp_path / "data") as log, ExitStack() as stack:
        assert is_served(log)
        before_mb = resident_mb(log)
        for _ in range(50):
            connection = stack.enter_context(connected(log))
            connection.sendall(struct.pack(">i", 1 << 20) + b"\x00")
            assert is_served(log)
        assert resident_mb(log) < before_mb + 80


def test_requests_that_trickle_in_are_cut_off_and_others_are_served_meanwhile(tmp_path: Path) -> None:
    with LogProcess(tmp_path / "data", mainstem_request_stall_ms="1000") as log, ExitStack() as stack:
        slow = [stack.enter_context(connected(log)) for _ in range(200)]
        for connection in slow:
            connection.sendall(struct.pack(">i", 1000) + b"\x00")
        assert is_served(log)
        assert all(is_closed(connection) for connection in slow)
        assert is_served(log)


def test_who_says_no_more_but_listens_is_answered_and_then_closed(tmp_path: Path) -> None:
    with LogProcess(tmp_path / "data") as log, connected(log) as connection:
        request = ApiVersionsRequest(client_software_name="test", client_software_version="1")
        connection.sendall(b"".join(encode_request(request, 3, correlation_id=1, client_id="test")))
        (length,) = struct.unpack(">i", _read(connection, 4))
        _read(connection, length)
        connection.shutdown(socket.SHUT_WR)
        assert is_closed(connection)


def test_five_thousand_idle_connections_cost_little_and_hold_nobody_up(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < IDLE + 500:
        pytest.skip(f"this machine lets a process open {hard} files")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, IDLE + 500), hard))
    try:
        with LogProcess(tmp_path / "data") as log, ExitStack() as stack:
            assert is_served(log)
            before_mb = resident_mb(log)
            for _ in range(IDLE):
                stack.enter_context(connected(log))
            assert is_served(log)
            assert resident_mb(log) < before_mb + 100
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
