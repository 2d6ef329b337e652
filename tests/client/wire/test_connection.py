from __future__ import annotations

import socket
import struct

import pytest

from mainstem.addresses import Address
from mainstem.client.wire.connection.connection import BrokerConnection, ConnectionOptions
from mainstem.client.wire.connection.deadline import Deadline
from mainstem.clock import SystemClock
from mainstem.errors import FrameError, LogUnavailableError, RemoteError
from mainstem.protocol.apis import ApiKey
from mainstem.protocol.codec import Request
from mainstem.protocol.messages.fetch import FetchRequest
from mainstem.protocol.messages.metadata import MetadataRequest
from tests.client.scripted_broker import FALL_BACK, Answer, ScriptedBroker


def deadline(timeout_s: float = 5.0) -> Deadline:
    return Deadline(SystemClock(), timeout_s)


def open_to(broker: ScriptedBroker, **options: int) -> BrokerConnection:
    return BrokerConnection.open(Address("127.0.0.1", broker.port), ConnectionOptions(**options), deadline())


def test_the_highest_version_that_both_sides_know_is_taken() -> None:
    with ScriptedBroker(lambda request: FALL_BACK) as broker:
        connection = open_to(broker)
        assert connection.version_of(FetchRequest) == 12
        assert connection.version_of(FetchRequest, version_max=7) == 7
        connection.exchange(MetadataRequest(topics=None), deadline())
        assert broker.asked[-1] == (ApiKey.METADATA, 12)
        connection.close()


def test_a_broker_that_does_not_know_our_api_versions_is_asked_in_its_own() -> None:
    def answer(request: Request) -> Answer:
        listed = broker.versions((ApiKey.API_VERSIONS, 0, 2), (ApiKey.METADATA, 0, 5))
        if request.api_version > 2:
            listed.error_code = 35
            return b"".join(_version_0(request, listed))
        return listed

    def _version_0(request: Request, listed: object) -> list[bytes]:
        from mainstem.protocol import codec

        return [bytes(chunk) for chunk in codec.encode_response(request, listed, 0)]  # type: ignore[arg-type]

    with ScriptedBroker(answer) as broker:
        connection = open_to(broker)
        assert [version for _, version in broker.asked] == [4, 2]
        assert connection.version_of(MetadataRequest) == 5
        connection.close()


def test_an_api_that_the_broker_does_not_serve_is_refused_before_it_is_sent() -> None:
    with ScriptedBroker(lambda request: broker.versions((ApiKey.METADATA, 0, 12))) as broker:
        connection = open_to(broker)
        with pytest.raises(RemoteError, match="does not serve FetchRequest"):
            connection.send(FetchRequest(max_wait_ms=0, min_bytes=0, topics=[]), deadline())
        assert connection.is_open
        connection.close()


@pytest.mark.parametrize(
    "frame",
    [struct.pack(">i", 2**30), struct.pack(">i", -1), struct.pack(">i", 3), struct.pack(">iihi", 10, 1, 0, 2**30)],
    ids=["huge", "negative", "too short", "hostile count"],
)
def test_an_answer_that_is_no_frame_ends_the_connection(frame: bytes) -> None:
    with ScriptedBroker(lambda request: frame) as broker, pytest.raises(FrameError):
        open_to(broker)


def test_an_answer_to_another_request_ends_the_connection() -> None:
    with ScriptedBroker(lambda request: struct.pack(">iihii", 14, 99, 0, 0, 0)) as broker:
        with pytest.raises(FrameError, match="answered request 99"):
            open_to(broker)


def test_an_answer_over_the_limit_is_refused_unread() -> None:
    with ScriptedBroker(lambda request: FALL_BACK) as broker, pytest.raises(FrameError, match="limit of 20 bytes"):
        open_to(broker, response_bytes_max=20)


def test_a_connection_that_the_broker_closes_is_unavailable() -> None:
    with ScriptedBroker(lambda request: None) as broker, pytest.raises(LogUnavailableError, match="closed"):
        open_to(broker)


def test_a_broker_that_never_answers_is_unavailable_in_time() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = Address("127.0.0.1", silent.getsockname()[1])
        with pytest.raises(LogUnavailableError, match=r"did not answer within 0\.1 s"):
            BrokerConnection.open(address, ConnectionOptions(), deadline(0.1))
