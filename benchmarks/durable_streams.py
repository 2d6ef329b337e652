"""One million logs: Durable Streams in one topic, ``python -m benchmarks.durable_streams``.

Writes ``--streams`` streams of one record each, in the form in which ``/streams`` writes them. Then it reads randomly
chosen streams over HTTP, one at a time, and follows ``--followed`` streams at once, each by a connection of its own. It
prints the latency of both, and the memory and disk that it takes. Bounded by the counts and ``_LIMIT_S``.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path

import httpx

from benchmarks.report import load_line, machine_load
from mainstem.client.log import Log
from mainstem.client.records import NewRecord
from mainstem.gateway.access.limits import GatewayLimits, streams_bound
from mainstem.gateway.durable.live_reads import EVENTS_S
from mainstem.gateway.durable.stream_config import StreamConfig
from mainstem.gateway.durable.stream_events import EVENT, STATE, StreamEvent
from mainstem.gateway.durable.stream_state import UNKNOWN, advanced
from mainstem.open_files import raise_open_files_limit
from mainstem.testing.broker_process import BrokerProcess

_TOPIC = "sessions"
_CONFIGS = {"mainstem.key.index": "true", "mainstem.conditional.append": "true"}
_VALUE = b"v" * 100
_LIMIT_S = 900.0
_GOAL_MS = 5.0
_APPENDED = 300
_OPENED_AT_ONCE = 16


def main(argv: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--streams", type=int, default=1_000_000)
    parser.add_argument("--reads", type=int, default=5_000)
    parser.add_argument("--followed", type=int, default=10_000)
    options = parser.parse_args(argv)
    print(load_line(machine_load()))
    bound = streams_bound(GatewayLimits(streams_max=options.followed), raise_open_files_limit())
    if bound < options.followed:
        print(f"{bound:,} streams are followed instead of {options.followed:,}: the open files limit allows no more")
        options.followed = bound
    with tempfile.TemporaryDirectory() as directory, BrokerProcess(Path(directory) / "data") as broker:
        with Log(broker.bootstrap, timeout_s=60) as log:
            log.create_topic(_TOPIC, partitions=4, configs=_CONFIGS)
            began = time.monotonic()
            log.append_many(_TOPIC, _records(options.streams))
            print(f"{options.streams:,} streams written in {time.monotonic() - began:.0f} s")
        with _Gateway(broker.bootstrap, options.followed) as gateway:
            _read(gateway.address, options.streams, options.reads)
            asyncio.run(_follow(gateway.address, options.streams, options.followed))
            memory = [
                f"{name} {_memory_mb(pid):.0f} MB" for name, pid in (("gateway", gateway.pid), ("log", broker.pid))
            ]
            print(f"memory of its own (RssAnon): {', '.join(memory)}")
        size = sum(path.stat().st_size for path in (Path(directory) / "data").rglob("*") if path.is_file())
        print(f"disk: {size / 1e6:.0f} MB, {size / options.streams:.0f} bytes a stream")


def _records(count: int) -> Iterator[NewRecord]:
    """The creation of each stream with its first data, as the gateway appends it."""
    config = StreamConfig("text/plain")
    event = StreamEvent("create", 0, len(_VALUE), config)
    state = advanced(None, event, UNKNOWN, 0)
    assert state is not None
    headers = [(EVENT, event.header), (STATE, state.header)]
    for number in range(count):
        yield NewRecord(_VALUE, key=_key(number), headers=headers)


def _key(number: int) -> str:
    return f"session-{number}"


class _Gateway:
    """A gateway process on a free port."""

    def __init__(self, bootstrap: str, streams: int) -> None:
        argv = [sys.executable, "-m", "mainstem.gateway.server.process", "--bootstrap", bootstrap]
        argv += [
            "--http",
            "127.0.0.1:0",
            "--stop-with-parent",
            "--set",
            f"mainstem.gateway.streams.max={streams + 100}",
        ]
        self._process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        self.address = self._process.stdout.readline().removeprefix("ready: http ").strip()
        self.pid = self._process.pid

    def __enter__(self) -> _Gateway:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait(30)


def _read(address: str, streams: int, reads: int) -> None:
    """Replay randomly chosen streams over HTTP, one after the other."""
    chance, took_ms = random.Random(1), list[float]()
    with closing(HTTPConnection(address, timeout=30)) as client:  # httpx takes longer for a request than the gateway
        ends_s = time.monotonic() + _LIMIT_S
        while len(took_ms) < reads and time.monotonic() < ends_s:
            path = f"/streams/{_TOPIC}/{_key(chance.randrange(streams))}"
            began_s = time.perf_counter()
            client.request("GET", path)
            content = client.getresponse().read()
            took_ms.append((time.perf_counter() - began_s) * 1_000)
            assert content == _VALUE, content
    print(f"{_shown('replay of one stream', took_ms)} ({_verdict(took_ms)})")


async def _follow(address: str, streams: int, followed: int) -> None:
    """Follow streams at once; then append to some, and wait until each follower has it."""
    host, _, port = address.rpartition(":")
    chosen = random.Random(2).sample(range(streams), min(followed, streams))
    readers: dict[int, asyncio.StreamReader] = {}
    opened_s: dict[int, float] = {}
    writers = []
    turn = asyncio.Semaphore(_OPENED_AT_ONCE)

    async def open_stream(number: int) -> None:
        async with turn:
            reader, writer = await asyncio.open_connection(host, int(port), limit=1 << 20)
            path = f"/streams/{_TOPIC}/{_key(number)}?offset=now&live=sse"
            writer.write(f"GET {path} HTTP/1.1\r\nHost: {address}\r\n\r\n".encode())
            readers[number] = reader
            writers.append(writer)
            opened_s[number] = time.monotonic()
            await reader.readuntil(b"streamNextOffset")

    began_s = time.monotonic()
    await asyncio.gather(*map(open_stream, chosen))
    print(f"{len(readers):,} streams are followed after {time.monotonic() - began_s:.0f} s")
    took_ms = list[float]()
    async with httpx.AsyncClient(base_url=f"http://{address}", timeout=30, trust_env=False) as client:
        for number in chosen[-_APPENDED:]:
            began_s = time.perf_counter()
            arrival = asyncio.create_task(readers[number].readuntil(b"data:again"))
            path = f"/streams/{_TOPIC}/{_key(number)}"
            answer = await client.post(path, content=b"again", headers={"Content-Type": "text/plain"})
            assert answer.status_code == 204, answer.text
            await asyncio.wait_for(arrival, 30)
            took_ms.append((time.perf_counter() - began_s) * 1_000)
    live_s = time.monotonic() - 0.9 * EVENTS_S
    live = sum(opened > live_s for opened in opened_s.values())
    print(_shown(f"append to follower, at least {live:,} followed", took_ms))
    for writer in writers:
        writer.close()


def _shown(what: str, took_ms: list[float]) -> str:
    cuts = statistics.quantiles(took_ms, n=100)
    return f"{what}: p50 {cuts[49]:.2f} ms, p99 {cuts[98]:.2f} ms"


def _verdict(took_ms: list[float]) -> str:
    is_met = statistics.quantiles(took_ms, n=100)[98] <= _GOAL_MS
    return f"goal: p99 <= {_GOAL_MS:g} ms, {'met' if is_met else 'not met'}"


def _memory_mb(pid: int) -> float:
    """Memory of a process's own, from Linux's ``/proc``."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("RssAnon:")[2].split()[0]) / 1_000


if __name__ == "__main__":
    main(sys.argv[1:])
