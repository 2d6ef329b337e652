"""Requests that aim at the gateway: it bounds what it holds, cuts off who does not read, and serves the others."""

from __future__ import annotations

import json
import random
import socket
from collections.abc import Iterator

import pytest

from mainstem.client.log import Log
from mainstem.testing.embedded import EmbeddedBroker
from tests.hostile.serving import Process, WellBehaved, client, connected, gateway, raw, statuses

_TOPIC = "hostile-texts"


@pytest.fixture(scope="module")
def served(mainstem_broker: EmbeddedBroker) -> Iterator[Process]:
    with Log(mainstem_broker.bootstrap, timeout_s=10.0) as log:
        log.create_topic(_TOPIC, partitions=1)
        log.append_many(_TOPIC, [(str(n), "x" * 500_000) for n in range(16)])  # 8 MB
    with gateway(mainstem_broker.bootstrap) as process:
        yield process


def append(text: str) -> bytes:
    body = f'{{"records": [{{"value": {text}}}]}}'.encode()
    head = f"POST /topics/{_TOPIC}/records HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
    return f"{head}Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ("[" + "[]," * 1_000_000 + "[]]", 413),
        ("[" + "{}," * 1_000_000 + "1]", 413),
        ("[" + '{"a":1},' * 400_000 + "1]", 413),
        ("[" * 1_000_000 + "]" * 1_000_000, 413),
        ("[" * 100_000 + "]" * 100_000, 413),
        ("[" * 10_000 + "]" * 10_000, 400),
        ('"' + "[,{" * 300_000 + '"', 201),
    ],
    ids=["lists", "objects", "fields", "brackets", "many levels", "nesting", "one text"],
)
def test_a_body_of_very_many_values_is_refused_before_it_is_parsed(served: Process, text: str, status: int) -> None:
    before = served.memory_peak_mib()
    with WellBehaved(served, "/healthz") as neighbor:
        assert statuses(raw(served.address, append(text)))[:1] == [status]
    assert served.memory_peak_mib() - before < 100, "some copies of the body, and no object for each value"
    assert set(neighbor.answers) <= {200}


def test_large_answers_that_are_not_read_hold_a_bounded_amount(served: Process) -> None:
    request = f"GET /topics/{_TOPIC}/records?limit=16 HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
    idle: list[socket.socket] = []
    try:
        for _ in range(80):  # 80 answers of 8 MB
            connection = connected(served.address)
            connection.sendall(request)
            idle.append(connection)
        with WellBehaved(served, "/healthz") as neighbor:
            refused = [connection for connection in idle if _begins_with_503(connection)]
        assert len(refused) >= 8, "256 MiB have room for about 32 answers at once"
        assert len(refused) < 80
        assert set(neighbor.answers) <= {200}
        assert served.memory_peak_mib() < 1_200
    finally:
        for connection in idle:
            connection.close()
    with client(served) as api:
        assert api.get(f"/topics/{_TOPIC}/records?limit=1").status_code == 200


def test_many_streams_that_are_not_read_hold_a_bounded_amount(served: Process) -> None:
    request = f"GET /topics/{_TOPIC}/stream?from=earliest HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
    idle = [connected(served.address) for _ in range(200)]
    before = served.memory_peak_mib()
    try:
        for connection in idle:
            connection.sendall(request)
        for connection in idle:
            connection.settimeout(60)
            assert connection.recv(12) == b"HTTP/1.1 200"
        with WellBehaved(served, f"/topics/{_TOPIC}/records?limit=1") as neighbor:
            with client(served) as api:
                api.post(f"/topics/{_TOPIC}/records", json={"records": [{"value": "one more"}]})
            while len(neighbor.answers) < 5:
                neighbor.wait()
        assert set(neighbor.answers) <= {200}
        assert served.memory_peak_mib() - before < 400, "a piece for each, and not the topic"
    finally:
        for connection in idle:
            connection.close()


def _begins_with_503(connection: socket.socket) -> bool:
    connection.settimeout(120)
    return b" 503 " in connection.recv(64)


@pytest.mark.parametrize(
    ("head", "status"),
    [
        ("GET /healthz HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n", 400),
        ("GET /healthz HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n", 400),
        ("GET /healthz HTTP/1.1\r\n\r\n", 400),
        ("GET /healthz HTTP/1.1\r\nHost: evil.example\r\n\r\n", 421),
        ("POST /topics/t/records HTTP/1.1\r\nHost: localhost\r\nOrigin: http://evil.example\r\n\r\n", 403),
        ("GET /topics HTTP/1.1\r\nHost: localhost\r\nSec-Fetch-Site: cross-site\r\n\r\n", 403),
        ("GET /healthz HTTP/1.1\r\nHost : localhost\r\n\r\n", 400),
        ("GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: a\r\n folded\r\n\r\n", 400),
        (
            "POST /x HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            400,
        ),
        ("POST /x HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n", 400),
        ("POST /x HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", 400),
        ("POST /x HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd", 400),
        ("POST /x HTTP/1.1\r\nHost: localhost\r\nContent-Length: +3\r\n\r\nabc", 400),
        ("POST /x HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n\r\n", 400),
        ("GET /healthz HTTP/1.1\nHost: localhost\n\n", 400),
    ],
)
def test_a_request_that_two_readers_could_read_differently_is_refused(served: Process, head: str, status: int) -> None:
    smuggled = b"GET /config HTTP/1.1\r\nHost: localhost\r\n\r\n"
    answer = raw(served.address, head.encode() + smuggled, shut=True)
    assert statuses(answer)[:1] == [status], answer[:300]
    if status == 400 and "Host" not in head.partition("\r\n")[2][:5]:
        assert len(statuses(answer)) == 1


def test_any_bytes_are_answered_by_http_or_by_a_close(served: Process) -> None:
    chance = random.Random(27)
    whole = append('{"a": [1, "x"]}')
    with WellBehaved(served, "/healthz") as neighbor:
        for _ in range(150):
            mutated = bytearray(whole)
            for _ in range(chance.randrange(1, 6)):
                place = chance.randrange(len(mutated))
                match chance.randrange(3):
                    case 0:
                        mutated[place] = chance.randrange(256)
                    case 1:
                        del mutated[place : place + chance.randrange(1, 9)]
                    case _:
                        mutated[place:place] = chance.randbytes(chance.randrange(1, 9))
            for status in statuses(raw(served.address, bytes(mutated), shut=True)):
                assert status < 500, bytes(mutated)
    assert set(neighbor.answers) <= {200}
    assert served.child.poll() is None


def test_the_limits_that_apply_are_told(served: Process) -> None:
    with client(served) as api:
        assert json.loads(api.get("/config").text)["gateway"]["body_bytes_max"] == 4 << 20
