"""A thousand readers of one topic, through a gateway in a process of its own."""

from __future__ import annotations

import asyncio
import os
import re
from pathlib import Path

import pytest

from mainstem.client.log import Log
from mainstem.client.records import NewRecord
from mainstem.open_files import raise_open_files_limit
from mainstem.testing.embedded import EmbeddedBroker
from tests.gateway.test_process import gateway, running

READERS = 1_000
RECORDS = 60
TIMEOUT_S = 120.0
GROWTH_MAX = 200 << 20
_NUMBER = re.compile(rb'"value":"(\d+)"')


def resident_bytes(pid: int) -> int:
    pages = Path(f"/proc/{pid}/statm").read_text().split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


class Readers:
    """Raw connections, each of which reads until it has had every record."""

    def __init__(self, address: str, path: str) -> None:
        self._host, _, port = address.partition(":")
        self._port = int(port)
        self._path = path
        self._begun = asyncio.Semaphore(0)
        self._at_once = asyncio.Semaphore(50)

    async def read(self) -> list[int]:
        async with self._at_once:
            reader, writer = await asyncio.open_connection(self._host, self._port)
            writer.write(f"GET {self._path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
            await reader.readuntil(b": beat\n")
        self._begun.release()
        numbers: list[int] = []
        while len(numbers) < RECORDS:
            numbers += [int(found[1]) for found in _NUMBER.finditer(await reader.readuntil(b"\n\n"))]
        writer.close()
        return numbers

    async def all_begun(self) -> None:
        for _ in range(READERS):
            await self._begun.acquire()


async def scenario(address: str, log: Log, topic: str, pid: int) -> tuple[list[list[int]], int]:
    path = f"/topics/{topic}/stream"
    before = resident_bytes(pid)
    readers = Readers(address, path)
    tasks = [asyncio.create_task(readers.read()) for _ in range(READERS)]
    await readers.all_begun()
    _, stuck = await asyncio.open_connection(*address.split(":"))
    stuck.write(f"GET {path}?from=earliest HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    for start in range(0, RECORDS, 20):
        await asyncio.to_thread(
            log.append_many, topic, [NewRecord(str(n), key=str(n)) for n in range(start, start + 20)]
        )
    numbers = await asyncio.gather(*tasks)
    growth = resident_bytes(pid) - before
    stuck.close()
    return numbers, growth


def test_a_thousand_readers_have_every_record_once(
    mainstem_broker: EmbeddedBroker, session_log: Log, mainstem_topic: str
) -> None:
    if raise_open_files_limit() < 2 * READERS + 1_000:
        pytest.skip("this machine does not allow a process so many open files: ulimit -Hn")
    topic = f"{mainstem_topic}-spread"
    session_log.create_topic(topic, partitions=3)
    with running(gateway("--bootstrap", mainstem_broker.bootstrap, "--http", "127.0.0.1:0")) as (process, line):
        address = line.removeprefix("ready: http ")

        async def bounded() -> tuple[list[list[int]], int]:
            async with asyncio.timeout(TIMEOUT_S):
                return await scenario(address, session_log, topic, process.pid)

        numbers, growth = asyncio.run(bounded())
    assert {tuple(sorted(each)) for each in numbers} == {tuple(range(RECORDS))}
    assert growth < GROWTH_MAX
