"""A gateway and a view host, each a process of its own, over the session's log; and a client that must not notice."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

import mainstem as ms
from mainstem.client.log import Log
from mainstem.model import Position
from mainstem.pipelines.deploy import deploy
from tests.support.own_environment import own_environment

APP = """
import mainstem as ms
app = ms.App("hostile")
people = app.topic("hostile-people", schema="id STRING NOT NULL, name STRING", key="id", compacted=True)
app.view("rows", people, ms.KeyValue())
app.view("sheet", people, ms.SQL())
app.view("names", people, ms.Search("name"))
"""


@dataclass
class Process:
    """A process that is ready. ``address``: what its ready line says."""

    child: subprocess.Popen[str]
    address: str

    @property
    def pid(self) -> int:
        """The process id."""
        return self.child.pid

    def memory_peak_mib(self) -> int:
        """The most memory that it has held so far."""
        status = Path(f"/proc/{self.pid}/status").read_text()
        return int(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1]) >> 10


@contextmanager
def running(module: str, *arguments: str, environment: dict[str, str] | None = None) -> Iterator[Process]:
    """A process of ours, from its ready line to the end of the block."""
    argv = [sys.executable, "-m", module, "--stop-with-parent", *arguments]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    child = subprocess.Popen(argv, **pipes, text=True, env=own_environment(environment))
    try:
        assert child.stdout is not None
        yield Process(child, child.stdout.readline().strip().rpartition(" ")[2])
    finally:
        if child.poll() is None:
            child.kill()
        child.communicate(timeout=20)


@contextmanager
def view_host(
    directory: Path, bootstrap: str, environment: dict[str, str] | None = None, app: str = APP
) -> Iterator[Process]:
    """A view host of ``app``; its address is its socket."""
    (directory / "app.py").write_text(app)
    arguments = ["--app", str(directory / "app.py"), "--bootstrap", bootstrap, "--data", str(directory)]
    module = "mainstem.gateway.server.view_host_process"
    with running(module, *arguments, "--socket", str(directory / "s"), environment=environment) as process:
        yield process


@contextmanager
def gateway(bootstrap: str, *options: str, module: str = "mainstem.gateway.server.process") -> Iterator[Process]:
    """A gateway on a free port of loopback; its address is HOST:PORT."""
    with running(module, "--bootstrap", bootstrap, "--http", "127.0.0.1:0", *options) as process:
        yield process


@contextmanager
def client(process: Process, **options: object) -> Iterator[httpx.Client]:
    """A client of a view host or a gateway."""
    if process.address.startswith("/"):
        transport = httpx.HTTPTransport(uds=process.address)
        with httpx.Client(transport=transport, base_url="http://localhost", timeout=60) as opened:
            yield opened
        return
    base_url = f"http://{process.address}"
    with httpx.Client(base_url=base_url, timeout=60, trust_env=False, **options) as opened:  # type: ignore[arg-type]
        yield opened


def filled(log: Log, rows: int = 3) -> Position:
    """Deploy the App and append people."""
    app = ms.App("hostile")
    app.topic("hostile-people", schema="id STRING NOT NULL, name STRING", key="id", compacted=True)
    deploy(app, log)
    return log.append_many("hostile-people", [(f"{n}", {"id": f"{n}", "name": f"name {n}"}) for n in range(rows)])


class WellBehaved:
    """A client with a request every time that the last one was answered; ``answers`` are their statuses."""

    def __init__(self, process: Process, path: str) -> None:
        self.answers: list[int] = []
        self._process = process
        self._path = path
        self._ending = threading.Event()
        self._answered = threading.Semaphore(0)
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> WellBehaved:
        self._thread.start()
        return self

    def __exit__(self, *_exception: object) -> None:
        self._ending.set()
        self._thread.join(60)

    def wait(self) -> None:
        """Wait for one more answer."""
        assert self._answered.acquire(timeout=60)

    def _run(self) -> None:
        with client(self._process) as api:
            while not self._ending.is_set():
                self.answers.append(api.get(self._path).status_code)
                self._answered.release()
                self._ending.wait(0.01)


def connected(address: str) -> socket.socket:
    """A connection to a process: HOST:PORT, or the path of a Unix socket."""
    if address.startswith("/"):
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(address)
        return connection
    host, _, port = address.rpartition(":")
    return socket.create_connection((host, int(port)))


def get(process: Process, target: str, *headers: str) -> bytes:
    """The answer to a GET whose target no client library would send."""
    lines = [f"GET {target} HTTP/1.1", "Host: localhost", "Connection: close", *headers, "", ""]
    return raw(process.address, "\r\n".join(lines).encode())


def raw(address: str, *pieces: bytes, shut: bool = False) -> bytes:
    """What a server answers to bytes that no client would send, until it closes the connection."""
    with connected(address) as connection:
        for piece in pieces:
            connection.sendall(piece)
        if shut:
            connection.shutdown(socket.SHUT_WR)
        connection.settimeout(20)
        return b"".join(_received(connection))


def _received(connection: socket.socket) -> Iterator[bytes]:
    try:
        while data := connection.recv(65_536):
            yield data
    except ConnectionResetError:
        return


def statuses(answer: bytes) -> Sequence[int]:
    """The status of each answer in what a connection received."""
    return [int(line.split()[1]) for line in answer.splitlines() if line.startswith(b"HTTP/1.1 ")]
