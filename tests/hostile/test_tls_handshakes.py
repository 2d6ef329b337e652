"""Sockets on a TLS listener that never finish their handshake: they are counted and ended, and others are served."""

from __future__ import annotations

import socket
import ssl
import struct
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from mainstem.protocol.codec import decode_response, encode_request
from mainstem.protocol.messages.api_versions import ApiVersionsRequest
from tests.broker.harness import LogProcess
from tests.hostile.test_connections import API_VERSIONS, TIMEOUT_S, _read, connected, is_closed
from tests.support.certificates import Authority
from tests.support.eventually import eventually

HELLO = b"\x16\x03\x01\x02\x00"
"""The beginning of a client's first TLS record, of which the rest never comes."""


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@contextmanager
def tls_log(tmp_path: Path, authority: Authority, **settings: str) -> Iterator[LogProcess]:
    """A log process whose only listener speaks TLS."""
    log = LogProcess(tmp_path / "data", ssl_keystore_location=str(authority.keystore("localhost")), **settings)
    log.bootstrap = f"SSL://{log.bootstrap}"
    with log:
        yield log


def ask(log: LogProcess, authority: Authority) -> bytes:
    """The answer to a request that is sent in the same breath as the end of the handshake."""
    context = ssl.create_default_context(cafile=str(authority.certificate))
    with connected(log) as plain, context.wrap_socket(plain, server_hostname="localhost") as connection:
        request = ApiVersionsRequest(client_software_name="test", client_software_version="1")
        connection.sendall(b"".join(encode_request(request, 3, correlation_id=1, client_id="test")))
        (length,) = struct.unpack(">i", _read(connection, 4))
        return _read(connection, length)


def is_served(log: LogProcess, authority: Authority) -> bool:
    """Whether a new client is answered, and not refused."""
    try:
        return bool(decode_response(ask(log, authority), API_VERSIONS, 3).body.api_keys)
    except OSError:
        return False


def test_handshakes_that_are_not_done_count_as_connections_without_a_user(tmp_path: Path, authority: Authority) -> None:
    settings = {"mainstem_unauthenticated_connections_max": "5", "mainstem_authentication_timeout_ms": "600000"}
    with tls_log(tmp_path, authority, **settings) as log, ExitStack() as stack:
        stalled = [stack.enter_context(connected(log)) for _ in range(15)]
        for connection in stalled:
            connection.sendall(HELLO)
        assert all(is_closed(connection) for connection in stalled[:10])
        assert is_served(log, authority)
        assert is_closed(stalled[10])  # the one that was there longest made room for the client that was served
        assert not any(_has_news(connection) for connection in stalled[11:])


def test_handshakes_count_as_connections(tmp_path: Path, authority: Authority) -> None:
    settings = {"max_connections": "5", "mainstem_authentication_timeout_ms": "600000"}
    with tls_log(tmp_path, authority, **settings) as log, ExitStack() as stack:
        stalled = [stack.enter_context(connected(log)) for _ in range(5)]
        one_more = stack.enter_context(connected(log))
        assert is_closed(one_more)
        stalled.pop().shutdown(socket.SHUT_RDWR)
        eventually(lambda: is_served(log, authority), "the log sees that one has gone")


def test_a_handshake_that_stands_still_is_closed_in_time(tmp_path: Path, authority: Authority) -> None:
    with tls_log(tmp_path, authority, mainstem_authentication_timeout_ms="200") as log, ExitStack() as stack:
        silent = stack.enter_context(connected(log))
        halfway = stack.enter_context(connected(log))
        halfway.sendall(HELLO)
        assert is_closed(silent)
        assert is_closed(halfway)
        assert is_served(log, authority)


def _has_news(connection: socket.socket) -> bool:
    """Whether the log has closed the connection."""
    connection.setblocking(False)
    try:
        return connection.recv(1) == b""
    except BlockingIOError:
        return False
    finally:
        connection.settimeout(TIMEOUT_S)
