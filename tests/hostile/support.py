"""What the hostile tests share: the log with bounded memory, raw connections, and a client that keeps asking.

No assertion here goes by a clock. A stall is seen in how often a good client is answered while an attack is worked on,
memory in what the kernel says of the process (``RLIMIT_AS`` makes too much of it the end of the process), and work in
the process's own processor time beside that of a harmless request.
"""

from __future__ import annotations

import os
import resource
import selectors
import socket
import struct
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from mainstem.broker.metrics.serving import METRICS_SOCKET
from mainstem.protocol.apis import ApiKey
from mainstem.protocol.codec import decode_response, encode_request
from mainstem.protocol.messages.api_versions import ApiVersionsRequest
from mainstem.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from mainstem.protocol.schema import Message
from tests.broker.harness import LogProcess

TIMEOUT_S = 60
_PING_VERSION = 3
_TRICKLE_S = 0.5


class Raw:
    """One connection to the log, whose bytes a test writes itself. An answer that does not come fails the test."""

    def __init__(self, address: tuple[str, int], receive_buffer_bytes: int | None = None) -> None:
        self.socket = socket.socket()
        if receive_buffer_bytes is not None:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
        self.socket.settimeout(TIMEOUT_S)
        self.socket.connect(address)

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def request(self, body: Message, version: int) -> Any:
        """The body of the answer."""
        self.send(frame(body, version))
        return self.receive(body.__api_key__, version)

    def receive(self, api_key: int, version: int) -> Any:
        return decode_response(self.receive_frame(), api_key, version).body

    def receive_frame(self) -> bytes:
        (length,) = struct.unpack(">i", self._read(4))
        return self._read(length)

    def ping(self) -> None:
        """Ask for something small and wait for the answer."""
        self.request(PING, _PING_VERSION)

    def _read(self, count: int) -> bytes:
        data = bytearray()
        while len(data) < count:
            chunk = self.socket.recv(min(count - len(data), 1 << 20))
            if not chunk:
                raise ConnectionError("the log closed the connection")
            data += chunk
        return bytes(data)

    def is_closed(self) -> bool:
        """Whether the log closes the connection; waits for it."""
        try:
            while self.socket.recv(1 << 16):
                pass
        except ConnectionError:
            return True
        return True

    def answered_or_closed(self) -> None:
        """Wait for the next answer, or for the end of the connection."""
        try:
            self.receive_frame()
        except ConnectionError:
            return

    def close(self) -> None:
        self.socket.close()

    def __enter__(self) -> Raw:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


PING = ApiVersionsRequest(client_software_name="test", client_software_version="1")


def frame(body: Message, version: int) -> bytes:
    """A whole request with its length in front."""
    return b"".join(encode_request(body, version, correlation_id=1, client_id="test"))


def address_of(log: LogProcess) -> tuple[str, int]:
    host, _, port = log.bootstrap.rpartition(":")
    return host, int(port)


def limited(log: LogProcess, more_bytes: int) -> None:
    """Let the running log map so much more than it has mapped: a request for more ends in MemoryError there."""
    pages = int(Path(f"/proc/{log.pid}/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + more_bytes
    resource.prlimit(log.pid, resource.RLIMIT_AS, (limit, limit))


def resident_bytes(pid: int) -> int:
    """The memory of the process that is really there."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * resource.getpagesize()


def peak_resident_bytes(pid: int) -> int:
    """The most memory that the process ever had."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return 1024 * int(next(line.split()[1] for line in lines if line.startswith("VmHWM")))


def processor_s(pid: int) -> float:
    """Processor time that the process has used, user and system."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def metric(log: LogProcess, name: str) -> float:
    """One number of the log's metrics page, as it is now."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(TIMEOUT_S)
        connection.connect(str(log.data_dir / METRICS_SOCKET))
        connection.sendall(b"GET /metrics HTTP/1.1\r\n\r\n")
        page = bytearray()
        while chunk := connection.recv(1 << 16):
            page += chunk
    return next(float(line.split()[-1]) for line in page.decode().splitlines() if line.startswith(f"{name} "))


class Pinger:
    """A well-behaved client in a thread: it asks, waits for the answer, and asks again. ``count`` is of answers."""

    def __init__(self, address: tuple[str, int]) -> None:
        self._connection = Raw(address)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.count = 0
        self.error: Exception | None = None

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                self._connection.ping()
                self.count += 1
        except (OSError, ConnectionError) as error:
            self.error = error

    def __enter__(self) -> Pinger:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join(TIMEOUT_S)
        self._connection.close()


def answers_meanwhile(log: LogProcess, attack: Callable[[], object]) -> int:
    """How often a good client is answered while ``attack`` runs; fails if it is not served."""
    with Pinger(address_of(log)) as good:
        attack()
        count = good.count
    assert good.error is None, good.error
    return count


@contextmanager
def trickling(connections: Sequence[Raw]) -> Iterator[None]:
    """Send a byte over each connection again and again, until the block ends: none of them ever falls silent."""
    ending = threading.Event()

    def run() -> None:
        while not ending.wait(_TRICKLE_S):
            for connection in connections:
                with suppress(OSError):  # the log has closed it, or does not read from it
                    os.write(connection.socket.fileno(), b"\x00")  # a socket with a time-out does not block

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ending.set()
        thread.join(TIMEOUT_S)


def create_topic(log: LogProcess, name: str, partitions: int = 1) -> None:
    topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1, assignments=(), configs=())
    with Raw(address_of(log)) as client:
        answer = client.request(CreateTopicsRequest(topics=[topic]), 7)
    assert answer.topics[0].error_code == 0, answer


@contextmanager
def open_files(count: int) -> Iterator[None]:
    """Let this process have so many files open."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, count) if hard < 0 else min(max(soft, count), hard), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def closed_among(connections: list[Raw], count: int) -> None:
    """Wait until the log has closed so many of the connections."""
    with selectors.DefaultSelector() as selector:
        for connection in connections:
            selector.register(connection.socket, selectors.EVENT_READ)
        closed = 0
        while closed < count:
            ready = selector.select(TIMEOUT_S)
            assert ready, f"{closed} of {count} connections were closed"
            for key, _ in ready:
                selector.unregister(key.fileobj)
                closed += 1


def api_key_name(key: int) -> str:
    return ApiKey(key).name.lower()
