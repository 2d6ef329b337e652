"""One million logs: Durable Streams in one topic, ``python -m benchmarks.durable_streams``.

Writes ``--streams`` streams of one record each, in the form in which ``/streams`` writes them. Then it reads randomly
chosen streams over HTTP, one at a time, and follows ``--followed`` streams at once, each by a connection of its own. It
prints the latency of both, and the memory and disk that it takes. ``--nats PROGRAM`` measures NATS JetStream first, in
the same run, and prints the ratios. Bounded by the counts and the load's ``limit_s``.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path

import httpx

from benchmarks import jetstream
from benchmarks.brokers import resident_mb
from benchmarks.report import load_line, machine_load
from benchmarks.stream_figures import Load, StreamFigures, bytes_in, ratios
from mainstem.client.log import Log
from mainstem.client.records import NewRecord
from mainstem.gateway.access.limits import GatewayLimits, files_for_streams
from mainstem.gateway.durable.live_reads import EVENTS_S
from mainstem.gateway.durable.stream_config import StreamConfig
from mainstem.gateway.durable.stream_events import EVENT, STATE, StreamEvent
from mainstem.gateway.durable.stream_state import UNKNOWN, advanced
from mainstem.open_files import raise_open_files_limit
from mainstem.testing.broker_process import BrokerProcess

_TOPIC = "sessions"
_CONFIGS = {"mainstem.key.index": "true", "mainstem.conditional.append": "true"}
_OPENED_AT_ONCE = 16


def main(argv: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--streams", type=int, default=1_000_000)
    parser.add_argument("--reads", type=int, default=5_000)
    parser.add_argument("--followed", type=int, default=10_000)
    parser.add_argument("--nats", metavar="PROGRAM", help="nats-server, which is measured beside it")
    options = parser.parse_args(argv)
    print(load_line(machine_load()))
    bound = files_for_streams(GatewayLimits(), raise_open_files_limit())
    if bound < options.followed:
        print(f"{bound:,} streams are followed instead of {options.followed:,}: the open files limit allows no more")
    load = Load(options.streams, options.reads, min(bound, options.followed))
    peer = None
    with tempfile.TemporaryDirectory() as directory:
        if options.nats:
            peer = jetstream.measure(options.nats, Path(directory) / "nats", load)
            print(f"\n{peer.server}", *peer.lines(load), sep="\n")
        ours = measure(Path(directory) / "data", load)
    print(f"\n{ours.server}", *ours.lines(load), sep="\n")
    if peer is not None:
        print("", *ratios(ours, peer), sep="\n")


def measure(directory: Path, load: Load) -> StreamFigures:
    """Start a log and a gateway, and measure them under ``load``."""
    figures = StreamFigures("Mainstem")
    with BrokerProcess(directory) as broker:
        with Log(broker.bootstrap, timeout_s=60) as log:
            log.create_topic(_TOPIC, partitions=4, configs=_CONFIGS)
            began = time.monotonic()
            log.append_many(_TOPIC, _records(load))
            figures.written_s = time.monotonic() - began
        with _Gateway(broker.bootstrap, load.followed) as gateway:
            _read(gateway.address, load, figures)
            figures.memory_before_mb = resident_mb(gateway.pid) + resident_mb(broker.pid)
            asyncio.run(_follow(gateway.address, load, figures))
            figures.memory_mb = resident_mb(gateway.pid) + resident_mb(broker.pid)
        figures.disk_bytes = bytes_in(directory)
    return figures


def _records(load: Load) -> Iterator[NewRecord]:
    """The creation of each stream with its first data, as the gateway appends it."""
    config = StreamConfig("text/plain")
    event = StreamEvent("create", 0, len(load.value), config)
    state = advanced(None, event, UNKNOWN, 0)
    assert state is not None
    headers = [(EVENT, event.header), (STATE, state.header)]
    for number in range(load.streams):
        yield NewRecord(load.value, key=_key(number), headers=headers)


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


def _read(address: str, load: Load, figures: StreamFigures) -> None:
    """Replay randomly chosen streams over HTTP, one after the other."""
    chance = random.Random(1)
    with closing(HTTPConnection(address, timeout=30)) as client:  # httpx takes longer for a request than the gateway
        ends_s = time.monotonic() + load.limit_s
        while len(figures.replay_ms) < load.reads and time.monotonic() < ends_s:
            path = f"/streams/{_TOPIC}/{_key(chance.randrange(load.streams))}"
            began_s = time.perf_counter()
            client.request("GET", path)
            content = client.getresponse().read()
            figures.replay_ms.append((time.perf_counter() - began_s) * 1_000)
            assert content == load.value, content


async def _follow(address: str, load: Load, figures: StreamFigures) -> None:
    """Follow streams at once; then append to some, and wait until each follower has it."""
    host, _, port = address.rpartition(":")
    chosen = random.Random(2).sample(range(load.streams), min(load.followed, load.streams))
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
    figures.followed, figures.opened_s = len(readers), time.monotonic() - began_s
    async with httpx.AsyncClient(base_url=f"http://{address}", timeout=30, trust_env=False) as client:
        for number in chosen[-load.appended :]:
            began_s = time.perf_counter()
            arrival = asyncio.create_task(readers[number].readuntil(b"data:again"))
            path = f"/streams/{_TOPIC}/{_key(number)}"
            answer = await client.post(path, content=b"again", headers={"Content-Type": "text/plain"})
            assert answer.status_code == 204, answer.text
            await asyncio.wait_for(arrival, 30)
            figures.follow_ms.append((time.perf_counter() - began_s) * 1_000)
    live_s = time.monotonic() - 0.9 * EVENTS_S
    live = sum(opened > live_s for opened in opened_s.values())
    print(f"at least {live:,} streams were followed to the end")
    for writer in writers:
        writer.close()


if __name__ == "__main__":
    main(sys.argv[1:])
