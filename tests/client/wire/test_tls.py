from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from mainstem.addresses import Address
from mainstem.client.security import Security
from mainstem.client.wire.cluster.cluster import WireClient
from mainstem.client.wire.connection.deadline import Deadline
from mainstem.client.wire.connection.tls import dial_tls
from mainstem.client.wire.connection.transport import NotConnectedError, Stream
from mainstem.clock import SystemClock
from mainstem.errors import ConfigError
from mainstem.testing import EmbeddedBroker
from tests.support.certificates import Authority

RESET = struct.pack("ii", 1, 0)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


def security(authority: Authority) -> Security:
    return Security.of({"security.protocol": "SSL", "ssl.ca.location": str(authority.certificate)})


@contextmanager
def answering(answer: bytes | None = b"") -> Iterator[Address]:
    """A listener that reads each client's first bytes, answers, and closes; with None it resets the connection."""

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return  # the test is over
            with connection:
                connection.recv(16 * 1024)
                if answer is None:
                    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
                else:
                    connection.sendall(answer)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield Address("127.0.0.1", listener.getsockname()[1])
        listener.shutdown(socket.SHUT_RDWR)
        thread.join(10)


@pytest.mark.parametrize("answer", [b"", None], ids=["closed", "reset"])
def test_a_connection_that_ends_in_the_handshake_may_heal(authority: Authority, answer: bytes | None) -> None:
    dial = dial_tls(security(authority).tls_context())
    with answering(answer) as address, pytest.raises(NotConnectedError, match="TLS handshake"):
        dial(address, Deadline(SystemClock(), 30))


def test_an_answer_that_is_no_tls_is_said_at_once(authority: Authority) -> None:
    dial = dial_tls(security(authority).tls_context())
    with (
        answering(b"HTTP/1.1 400 Bad Request\r\n\r\n") as address,
        pytest.raises(ConfigError, match="cannot agree on TLS"),
    ):
        dial(address, Deadline(SystemClock(), 30))


def test_a_log_that_restarts_in_the_handshake_is_tried_again(authority: Authority) -> None:
    settings = {"ssl.keystore.location": str(authority.keystore("localhost")), "super.users": "User:alice"}
    with EmbeddedBroker(settings=settings, users={"alice": "secret"}) as broker, answering() as closing:
        given = Security.of({**broker.security("alice"), "ssl.ca.location": str(authority.certificate)})
        tls, restarting = dial_tls(given.tls_context()), iter([closing, closing])

        def dial(address: Address, deadline: Deadline) -> Stream:
            return tls(next(restarting, address), deadline)

        with WireClient(broker.bootstrap, timeout_s=30, dial=dial, security=given) as client:
            client.metadata()
