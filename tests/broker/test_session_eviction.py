"""Consumers that evict each other's fetch sessions, and an epoch that wraps: real clients, a real broker."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kafka import KafkaConsumer, TopicPartition
from kafka.consumer.fetcher import FetchMetadata

from mainstem.testing.clock import ManualClock
from tests.broker.harness import Client, running
from tests.support.eventually import eventually

TOPIC = "t"
PARTITIONS = 3
UNUSED_S = 121.0
"""After this time without use a session may be evicted."""
ROUNDS = 12
GREATEST_EPOCH = 2**31 - 1


class Reader:
    """A consumer (kafka-python, which keeps fetch sessions) of all partitions, and what it has read."""

    def __init__(self, bootstrap: str) -> None:
        self.consumer = KafkaConsumer(bootstrap_servers=bootstrap, group_id=None, fetch_max_wait_ms=10)
        self.partitions = [TopicPartition(TOPIC, number) for number in range(PARTITIONS)]
        self.consumer.assign(self.partitions)
        self.consumer.seek_to_beginning(*self.partitions)
        self.values: list[list[bytes]] = [[] for _ in range(PARTITIONS)]

    def read(self, written: Sequence[Sequence[bytes]]) -> None:
        """Poll until everything that is written was read, and a last time without news."""
        for _ in range(1500):
            self.poll()
            if [len(values) for values in self.values] == [len(values) for values in written]:
                break
        self.poll()
        assert self.values == [list(values) for values in written]

    def poll(self) -> None:
        for place, records in self.consumer.poll(timeout_ms=40).items():
            self.values[place.partition] += [record.value for record in records]

    @property
    def session(self) -> Any:
        """What the consumer's next fetch says of its session."""
        (handler,) = self.consumer._fetcher._session_handlers.values()
        return handler


async def write(client: Client, written: list[list[bytes]], round_: int) -> None:
    """One record, in one of the partitions."""
    number = round_ % PARTITIONS
    value = str(round_).encode()
    assert (await client.produce(TOPIC, value, partition=number)).error_code == 0
    written[number].append(value)


def test_consumers_that_evict_each_others_sessions_read_every_record_once(tmp_path: Path) -> None:
    clock = ManualClock(int(time.time() * 1000))

    async def main() -> dict[str, int]:
        settings = {"max.incremental.fetch.session.cache.slots": "2"}
        async with running(tmp_path, settings, clock=clock) as client:
            await client.create_topic(TOPIC, PARTITIONS)
            bootstrap = f"{client.address[0]}:{client.address[1]}"
            readers = [await asyncio.to_thread(Reader, bootstrap) for _ in range(5)]
            written: list[list[bytes]] = [[] for _ in range(PARTITIONS)]
            for round_ in range(ROUNDS):
                await write(client, written, round_)
                for reader in readers:
                    clock.advance(UNUSED_S)
                    await asyncio.to_thread(reader.read, written)
            found = client.broker.node.fetch_sessions.statistics()
            for reader in readers:
                await asyncio.to_thread(reader.consumer.close)
            return found

    found = asyncio.run(main())
    assert found["sessions"] == 2
    assert found["partitions"] == 2 * PARTITIONS
    assert found["evictions"] >= ROUNDS


async def set_epoch(reader: Reader, client: Client, epoch: int) -> None:
    """Let both sides be as if the session had seen that many fetches; no fetch may be on its way meanwhile."""
    sessions = client.broker.node.fetch_sessions

    def is_idle() -> bool:
        ahead = reader.session.next_metadata
        agrees = sessions._kept[ahead.session_id].session.epoch == ahead.epoch
        return agrees and not reader.consumer._fetcher.in_flight_fetches()

    await asyncio.to_thread(eventually, is_idle, "the consumer, which sends only in poll, has its last answer")
    ahead = reader.session.next_metadata
    sessions._kept[ahead.session_id].session.epoch = epoch
    reader.session.next_metadata = FetchMetadata(ahead.session_id, epoch)


def test_a_session_goes_on_over_the_greatest_epoch(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path) as client:
            await client.create_topic(TOPIC, PARTITIONS)
            reader = await asyncio.to_thread(Reader, f"{client.address[0]}:{client.address[1]}")
            written: list[list[bytes]] = [[] for _ in range(PARTITIONS)]
            await write(client, written, 0)
            await asyncio.to_thread(reader.read, written)
            session_id = reader.session.next_metadata.session_id
            assert session_id > 0
            await set_epoch(reader, client, GREATEST_EPOCH)
            for round_ in range(1, 4):
                await write(client, written, round_)
                await asyncio.to_thread(reader.read, written)
            assert reader.session.next_metadata.session_id == session_id
            assert 1 < reader.session.next_metadata.epoch < GREATEST_EPOCH
            await asyncio.to_thread(reader.consumer.close)

    asyncio.run(main())
