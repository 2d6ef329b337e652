"""Two thousand readers of one stream, and a reader whose past the cleaner takes away, through a gateway of its own."""

from __future__ import annotations

import json
import selectors
import socket
from collections.abc import Iterator

import pytest

from mainstem.client.log import Log
from mainstem.client.records import NewRecord
from mainstem.open_files import raise_open_files_limit
from mainstem.testing import BrokerProcess
from mainstem.testing.embedded import EmbeddedBroker
from tests.hostile.serving import WellBehaved, client, connected, gateway
from tests.hostile.support import processor_s, resident_bytes
from tests.support.eventually import eventually

READERS = 2_000
ROUNDS = 3
RECORDS = 20
REQUESTS = 500
MEMORY_MAX = 400 << 20
TIMEOUT_S = 120


def stream(address: str, path: str) -> socket.socket:
    connection = connected(address)
    connection.settimeout(TIMEOUT_S)
    connection.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    return connection


def read_until_all_have(connections: list[socket.socket], mark: bytes) -> None:
    """Read every stream until its last bytes hold ``mark``."""
    with selectors.DefaultSelector() as selector:
        for connection in connections:
            selector.register(connection, selectors.EVENT_READ, b"")
        while selector.get_map():
            ready = selector.select(TIMEOUT_S)
            assert ready, f"{len(selector.get_map())} readers still wait for {mark!r}"
            for key, _ in ready:
                assert isinstance(key.fileobj, socket.socket)
                data = key.fileobj.recv(1 << 16)
                assert data, "the stream ended"
                if mark in key.data + data:
                    selector.unregister(key.fileobj)
                else:
                    selector.modify(key.fileobj, selectors.EVENT_READ, data[-len(mark) :])


def test_two_thousand_readers_of_a_stream_leave_room_for_a_request(
    mainstem_broker: EmbeddedBroker, mainstem_log: Log, mainstem_topic: str
) -> None:
    if raise_open_files_limit() < 2 * READERS + 1_000:
        pytest.skip("this machine does not allow a process so many open files: ulimit -Hn")
    path = f"/topics/{mainstem_topic}/stream"
    with gateway(mainstem_broker.bootstrap) as process, client(process) as api:
        assert api.get("/healthz").status_code == 200
        before = resident_bytes(process.pid)
        readers = [stream(process.address, path) for _ in range(READERS)]
        try:
            read_until_all_have(readers, b": beat")
            used_s = processor_s(process.pid)
            with WellBehaved(process, "/problems/input") as neighbor:
                for number in range(ROUNDS):
                    answered = len(neighbor.answers)
                    values = [NewRecord(f"{number}.{n}", key=str(n)) for n in range(RECORDS)]
                    position = mainstem_log.append_many(mainstem_topic, values)
                    read_until_all_have(readers, f"id: {position}\n".encode())
                    while len(neighbor.answers) == answered:
                        neighbor.wait()
            all_s = processor_s(process.pid) - used_s
            assert set(neighbor.answers) == {200}
            assert len(neighbor.answers) >= 5 * ROUNDS, "a request is answered between the readers, not after them"
            assert resident_bytes(process.pid) - before < MEMORY_MAX
            used_s = processor_s(process.pid)
            for _ in range(REQUESTS):
                assert api.get("/problems/input").status_code == 200
            request_s = (processor_s(process.pid) - used_s) / REQUESTS
            assert all_s / (READERS * ROUNDS) < 3 * request_s, "what a reader costs is less than a few requests"
        finally:
            for reader in readers:
                reader.close()
        eventually(lambda: api.get(path + "?from=nowhere").status_code == 400, "the places of the readers are free")


@pytest.fixture(scope="module")
def cleaned() -> Iterator[Log]:
    """A log whose cleaner works all the time."""
    settings = {
        "log.cleanup.policy": "compact",
        "log.segment.bytes": "10000",
        "log.cleaner.backoff.ms": "20",
        "log.cleaner.min.cleanable.ratio": "0.01",
    }
    with BrokerProcess(settings=settings) as broker, Log(broker.bootstrap, timeout_s=60) as log:
        yield log


def test_a_reader_behind_the_cleaner_has_the_last_record_of_each_key_and_goes_on(cleaned: Log) -> None:
    cleaned.create_topic("compacted", partitions=1)
    with gateway(cleaned.bootstrap) as process:
        slow = stream(process.address, "/topics/compacted/stream?from=0")
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        appended = 0
        for _ in range(6):
            values = [NewRecord({"n": appended + n, "text": "x" * 100}, key=f"k{n % 7}") for n in range(50)]
            cleaned.append_many("compacted", values)
            appended += 50
        eventually(lambda: sum(1 for _ in cleaned.read("compacted")) < appended // 2, "the cleaner has run")
        late = stream(process.address, "/topics/compacted/stream?from=0")
        last = cleaned.append("compacted", {"n": appended, "text": "the end"}, key="k0")
        for reader in (slow, late):
            seen = events(reader, f"id: {last}\n".encode())
            offsets = [event["offset"] for event in seen]
            assert offsets == sorted(set(offsets)), "in order and once"
            newest = {event["key"]: event["offset"] for event in seen}
            expected = {(record.key or b"").decode(): record.offset for record in cleaned.read("compacted")}
            assert newest == expected
            reader.close()


def events(connection: socket.socket, end: bytes) -> list[dict[str, object]]:
    """The events of a stream, up to the one with the id ``end``. Chunked encoding leaves each event's line whole."""
    received = bytearray()
    while end not in received:
        data = connection.recv(1 << 16)
        assert data, "the stream ended"
        received += data
    text = b"".join(dechunked(bytes(received)))
    return [json.loads(line[6:]) for line in text.split(b"\n") if line.startswith(b"data: ") and line.endswith(b"}")]


def dechunked(answer: bytes) -> Iterator[bytes]:
    """The bodies of the chunks that have come whole."""
    rest = answer.partition(b"\r\n\r\n")[2]
    while rest:
        size, _, rest = rest.partition(b"\r\n")
        length = int(size, 16)
        yield rest[:length]
        rest = rest[length + 2 :]
