"""The peer of ``benchmarks.durable_streams``: NATS JetStream, one stream of files with a subject for each of ours.

Each step is the quickest that NATS documents for it. Records are published without waiting for each of them. A subject
is replayed by one direct get of a batch. Followers are ordered consumers, which miss nothing, over one connection.
JetStream acknowledges before it syncs, which it does every two minutes by default; Mainstem syncs first.
"""

from __future__ import annotations

import asyncio
import json
import random
import re
import subprocess
import time
from pathlib import Path
from typing import Any

import nats
from nats.aio.client import Client
from nats.js.api import ConsumerConfig, DeliverPolicy
from nats.js.errors import BadRequestError

from benchmarks.brokers import resident_mb
from benchmarks.stream_figures import Load, StreamFigures, bytes_in

_STREAM = "SESSIONS"
_WINDOW = 10_000
_READY_S = 30.0
_WAIT_S = 30.0
_END_OF_BATCH = "204"


def measure(server: str, directory: Path, load: Load) -> StreamFigures:
    """Start a server with its files in ``directory``, and measure it under ``load``."""
    argv = [server, "--jetstream", "--store_dir", str(directory), "--addr", "127.0.0.1", "--port", "-1"]
    process = subprocess.Popen(argv, stderr=subprocess.PIPE, text=True)
    try:
        return asyncio.run(_measured(_url_of(process), process.pid, directory, load))
    finally:
        process.terminate()
        process.wait(60)


def _url_of(process: subprocess.Popen[str]) -> str:
    assert process.stderr is not None
    ends_s = time.monotonic() + _READY_S
    for line in process.stderr:
        found = re.search(r"Listening for client connections on (\S+)", line)
        if found:
            return f"nats://{found[1]}"
        assert time.monotonic() < ends_s, line
    raise AssertionError("nats-server ended before it was ready")


async def _measured(url: str, pid: int, directory: Path, load: Load) -> StreamFigures:
    client = await nats.connect(url, max_outstanding_pings=10)
    await client.jetstream().add_stream(name=_STREAM, subjects=["sessions.>"], allow_direct=True, max_consumers=100_000)
    figures = StreamFigures("JetStream")
    began_s = time.monotonic()
    await _write(client, load)
    figures.written_s = time.monotonic() - began_s
    await _replay(client, load, figures)
    figures.memory_before_mb = resident_mb(pid)
    await _follow(client, load, figures)
    figures.memory_mb = resident_mb(pid)
    figures.disk_bytes = bytes_in(directory)
    await client.close()
    return figures


async def _write(client: Client, load: Load) -> None:
    """Publish all records; after each window the stream's own count says that it has them."""
    for number in range(load.streams):
        await client.publish(f"sessions.{number}", load.value)
        if (number + 1) % _WINDOW == 0 or number + 1 == load.streams:
            await client.flush()
            while (await client.jetstream().stream_info(_STREAM)).state.messages < number + 1:
                await asyncio.sleep(0.001)


async def _replay(client: Client, load: Load, figures: StreamFigures) -> None:
    """Read all records of randomly chosen subjects, one subject after the other."""
    inbox = client.new_inbox()
    answers = await client.subscribe(inbox)
    chance = random.Random(1)
    ends_s = time.monotonic() + load.limit_s
    while len(figures.replay_ms) < load.reads and time.monotonic() < ends_s:
        wanted = {"seq": 1, "batch": 1000, "next_by_subj": f"sessions.{chance.randrange(load.streams)}"}
        began_s = time.perf_counter()
        await client.publish(f"$JS.API.DIRECT.GET.{_STREAM}", json.dumps(wanted).encode(), reply=inbox)
        found = []
        while True:
            message = await answers.next_msg(_WAIT_S)
            headers: dict[str, Any] = message.headers or {}
            if headers.get("Status") == _END_OF_BATCH:
                break
            found.append(message.data)
        figures.replay_ms.append((time.perf_counter() - began_s) * 1_000)
        assert found == [load.value], found


async def _follow(client: Client, load: Load, figures: StreamFigures) -> None:
    """Follow subjects at once; then append to some, and wait until each follower has it."""
    chosen = random.Random(2).sample(range(load.streams), min(load.followed, load.streams))
    streams = client.jetstream(timeout=_WAIT_S)
    began_s = time.monotonic()
    followers = {}
    for number in chosen:
        try:
            followers[number] = await streams.subscribe(
                f"sessions.{number}",
                ordered_consumer=True,
                config=ConsumerConfig(deliver_policy=DeliverPolicy.NEW),
                pending_msgs_limit=16,
            )
        except BadRequestError as refused:
            print(f"JetStream follows no more than {len(followers):,}: {refused.description}")
            break
        if time.monotonic() - began_s > load.limit_s:
            break
    figures.followed, figures.opened_s = len(followers), time.monotonic() - began_s
    for number in list(followers)[-load.appended :]:
        append_s = time.perf_counter()
        arrival = asyncio.create_task(followers[number].next_msg(_WAIT_S))
        await streams.publish(f"sessions.{number}", b"again")
        assert (await arrival).data == b"again"
        figures.follow_ms.append((time.perf_counter() - append_s) * 1_000)
