"""What the broker's tests share: a broker inside the test's own event loop and a client that speaks raw frames, and the
log process as a child that can be killed.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import itertools
import os
import signal
import struct
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from mainstem.broker.configs.broker_config import BrokerConfig
from mainstem.broker.server import Broker
from mainstem.clock import Clock
from mainstem.log.files.disk import Disk
from mainstem.protocol.apis import ApiKey
from mainstem.protocol.codec import decode_response, encode_request
from mainstem.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from mainstem.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from mainstem.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from mainstem.protocol.schema import Message
from mainstem.record.reader import iter_records
from mainstem.record.writer import NewRecord, build_batch
from tests.support.descriptors import is_readable
from tests.support.ports import free_port

TIMEOUT_S = 20
_START_S = 120
_AT_ONCE_TURNS = 100
_PAUSE_S = 0.002


def child_environment() -> dict[str, str]:
    """The environment for child processes: they may keep compiled modules, as installed ones do."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


class Client:
    """One connection. ``request`` waits for the answer; ``send`` and ``receive`` are its halves."""

    def __init__(self, address: tuple[str, int], broker: Broker) -> None:
        self.address = address
        self.broker = broker
        self._correlation_id = 0
        self.reader: asyncio.StreamReader
        self.writer: asyncio.StreamWriter

    async def connect(self) -> Client:
        self.reader, self.writer = await asyncio.open_connection(*self.address)
        return self

    async def another(self) -> Client:
        """A second connection to the same broker."""
        return await Client(self.address, self.broker).connect()

    def send(self, body: Message, version: int) -> int:
        self._correlation_id += 1
        chunks = encode_request(body, version, correlation_id=self._correlation_id, client_id="test")
        self.writer.writelines(chunks)
        return self._correlation_id

    async def receive_frame(self) -> bytes:
        async with asyncio.timeout(TIMEOUT_S):
            (length,) = struct.unpack(">i", await self.reader.readexactly(4))
            return await self.reader.readexactly(length)

    async def receive(self, api_key: int, version: int) -> Any:
        return decode_response(await self.receive_frame(), api_key, version)

    async def request(self, body: Message, version: int) -> Any:
        correlation_id = self.send(body, version)
        response = await self.receive(body.__api_key__, version)
        assert response.correlation_id == correlation_id
        return response.body

    async def is_closed(self) -> bool:
        """Whether the broker has closed the connection, or does within the time limit."""
        try:
            async with asyncio.timeout(TIMEOUT_S):
                return await self.reader.read(1) == b""
        except ConnectionError:
            return True

    def close(self) -> None:
        self.writer.close()

    # what most tests need

    async def create_topic(self, name: str, partitions: int = 1) -> None:
        topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1, assignments=(), configs=())
        response = await self.request(CreateTopicsRequest(topics=[topic]), 7)
        assert response.topics[0].error_code == 0, response

    async def produce(
        self, topic: str, *values: bytes | None, partition: int = 0, acks: int = -1, version: int = 9, **build: Any
    ) -> Any:
        """Append one batch; the answer for the partition."""
        response = await self.request(produce_request(topic, *values, partition=partition, acks=acks, **build), version)
        return response.responses[0].partition_responses[0]

    async def fetch(self, topic: str, offset: int, *, partition: int = 0, version: int = 11, **options: int) -> Any:
        """Fetch from one partition; the answer for it."""
        response = await self.request(fetch_request(topic, offset, partition=partition, **options), version)
        return response.responses[0].partitions[0]

    async def values(self, topic: str, offset: int = 0, partition: int = 0) -> list[bytes | None]:
        """The values of what one fetch brings, from ``offset`` on."""
        data = await self.fetch(topic, offset, partition=partition)
        assert data.error_code == 0
        return [record.value for record in iter_records(bytes(data.records)) if record.offset >= offset]


def produce_request(
    topic: str, *values: bytes | None, partition: int = 0, acks: int = -1, keys: Any = None, **build: Any
) -> ProduceRequest:
    records = [
        NewRecord(keys[number] if keys else None, value, (), int(time.time() * 1000))
        for number, value in enumerate(values)
    ]
    data = PartitionProduceData(index=partition, records=build_batch(records, **build))
    return ProduceRequest(
        acks=acks, timeout_ms=10_000, topic_data=[TopicProduceData(name=topic, partition_data=[data])]
    )


def fetch_request(
    topic: str,
    offset: int,
    *,
    partition: int = 0,
    max_wait_ms: int = 0,
    min_bytes: int = 1,
    max_bytes: int = 1 << 20,
    partition_max_bytes: int = 1 << 20,
    leader_epoch: int = -1,
) -> FetchRequest:
    asked = FetchPartition(
        partition=partition,
        fetch_offset=offset,
        partition_max_bytes=partition_max_bytes,
        current_leader_epoch=leader_epoch,
    )
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        topics=[FetchTopic(topic=topic, partitions=[asked])],
    )


@asynccontextmanager
async def running(
    data_dir: Path, settings: dict[str, str] | None = None, *, disk: Disk | None = None, clock: Clock | None = None
) -> AsyncIterator[Client]:
    """A broker on a free port in this event loop, and a client that is connected to it."""
    broker = Broker(BrokerConfig(data_dir, port=0, settings=settings or {}), disk, clock)
    address = await broker.start()
    try:
        client = await Client(address, broker).connect()
        yield client
        client.close()
    finally:
        await broker.stop()


def with_broker(**settings: str) -> Callable[[Callable[..., Awaitable[None]]], Callable[..., None]]:
    """Turns ``async def test_…(client, …)`` into a test with a broker of its own; settings with _ for the dots."""
    texts = {name.replace("_", "."): value for name, value in settings.items()}

    def decorate(scenario: Callable[..., Awaitable[None]]) -> Callable[..., None]:
        @functools.wraps(scenario)
        def test(tmp_path: Path, **others: Any) -> None:
            async def main() -> None:
                async with running(tmp_path / "data", texts) as client:
                    await scenario(client, **others)

            asyncio.run(main())

        parameters = [p for name, p in inspect.signature(scenario).parameters.items() if name != "client"]
        place = inspect.Parameter("tmp_path", inspect.Parameter.KEYWORD_ONLY)
        test.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
            [place, *(p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in parameters)]
        )
        del test.__wrapped__  # type: ignore[attr-defined]
        return test

    return decorate


class LogProcess:
    """The log process as a child; ``kill`` is SIGKILL, after which ``start`` runs it again on the same port."""

    def __init__(self, data_dir: Path, **settings: str) -> None:
        self.data_dir = data_dir
        self._settings = {name.replace("_", "."): value for name, value in settings.items()}
        self._process: subprocess.Popen[bytes] | None = None
        self.bootstrap = f"127.0.0.1:{free_port()}"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def argv(self, *more: str) -> list[str]:
        argv = [sys.executable, "-m", "mainstem.broker.process", "--data", str(self.data_dir)]
        argv += ["--listen", self.bootstrap, *more]
        for name, value in self._settings.items():
            argv += ["--set", f"{name}={value}"]
        return argv

    def start(self, *more: str) -> LogProcess:
        self._process = subprocess.Popen(
            self.argv(*more), stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=child_environment()
        )
        assert self._process.stdout is not None
        line = self._process.stdout.readline().decode() if is_readable(self._process.stdout, _START_S) else ""
        if not line.startswith("ready: kafka "):
            self.kill()
            raise RuntimeError(f"the log process did not start: {line!r}")
        self.bootstrap = line.removeprefix("ready: kafka ").strip()
        return self

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def stop(self) -> int:
        return self._end(signal.SIGTERM)

    def _end(self, number: int) -> int:
        if self._process is None:
            return 0
        process, self._process = self._process, None
        if process.poll() is None:
            os.kill(process.pid, number)
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.close()
        code = process.wait(TIMEOUT_S)
        process.stdout.close()
        return code

    def __enter__(self) -> LogProcess:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()


async def until(condition: Callable[[], bool]) -> None:
    """Wait for what the node does on the same event loop; what takes long is often the work of another process."""
    async with asyncio.timeout(5 * TIMEOUT_S):
        for turn in itertools.count():
            if condition():
                return
            await asyncio.sleep(0 if turn < _AT_ONCE_TURNS else _PAUSE_S)


def api_name(key: int) -> str:
    return ApiKey(key).name.lower()
