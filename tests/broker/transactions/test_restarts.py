"""A log that ends at each step of a transaction, and starts again: the transaction is whole, one way or the other.

What lies in the files when a step is reached is copied, as a SIGKILL would leave it, and a second broker starts there.
"""

from __future__ import annotations

import asyncio
import itertools
import shutil
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from mainstem.broker.transactions import coordinator
from mainstem.broker.transactions.markers import Marker, Markers
from mainstem.errors import MainstemError
from mainstem.model import TopicPartition
from mainstem.protocol.errors import ErrorCode
from mainstem.protocol.messages.delete_groups import DeleteGroupsRequest
from mainstem.protocol.messages.delete_topics import DeleteTopicsRequest
from mainstem.protocol.messages.describe_transactions import DescribeTransactionsRequest
from mainstem.protocol.messages.list_transactions import ListTransactionsRequest
from mainstem.testing.clock import ManualClock
from tests.broker.handlers.test_groups import commit_request
from tests.broker.harness import Client, running
from tests.broker.transactions.producer import V1, V2, Producer, committed_offset, visible

TIMEOUT_S = 60


async def state(client: Client, transactional_id: str = "tx") -> str:
    answer = await client.request(DescribeTransactionsRequest(transactional_ids=[transactional_id]), 0)
    name: str = answer.transaction_states[0].transaction_state
    return name


async def until(client: Client, wanted: str) -> None:
    async with asyncio.timeout(TIMEOUT_S):
        while await state(client) != wanted:
            continue


class StoppingMarkers(Markers):
    """Writes ``left`` markers durably and then no more, as if the log ended there; says so in ``stopped``."""

    def __init__(self, client: Client, left: int) -> None:
        node = client.broker.node
        super().__init__(node.topics, node.commit, node.clock, node.groups.transactional)
        self._left = left
        self.stopped = asyncio.Event()

    async def write(self, partitions: Iterable[TopicPartition], marker: Marker) -> dict[TopicPartition, MainstemError]:
        await super().write(sorted(partitions)[: self._left], marker)
        self.stopped.set()
        await asyncio.Event().wait()
        raise AssertionError


@asynccontextmanager
async def restarted(data_dir: Path, clock: ManualClock | None = None) -> AsyncIterator[Client]:
    """A broker over what a SIGKILL now would leave of ``data_dir``."""
    copies = (data_dir.with_name(f"{data_dir.name}-{number}") for number in itertools.count(1))
    copy = next(path for path in copies if not path.exists())
    shutil.copytree(data_dir, copy, ignore=shutil.ignore_patterns("*.tmp"))  # a checkpoint may rename one meanwhile
    async with running(copy, clock=clock) as client:
        yield client


@pytest.mark.parametrize("markers", [0, 1, 2, 3])
@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize("version", [V1, V2])
def test_a_decision_is_carried_out_by_the_next_start(tmp_path: Path, version: int, commit: bool, markers: int) -> None:
    async def main() -> None:
        async with running(tmp_path / "data") as client:
            await client.create_topic("t", 2)
            producer = await Producer(client, version=version).ready()
            stopping = StoppingMarkers(client, markers)
            client.broker.node.transactions._markers = stopping
            await producer.send("t", b"a")
            await producer.send("t", b"b", partition=1)
            if version == V1:
                assert await producer.add_group("g") == ErrorCode.NONE
            assert await producer.offset("g", "t", 7) == ErrorCode.NONE
            client.send(producer.end_request(commit=commit), 5 if version == V2 else 3)
            async with asyncio.timeout(TIMEOUT_S):
                await stopping.stopped.wait()
            async with restarted(tmp_path / "data") as after:
                await until(after, "CompleteCommit" if commit else "CompleteAbort")
                assert await visible(after, "t") == ([b"a"] if commit else [])
                assert await visible(after, "t", partition=1) == ([b"b"] if commit else [])
                assert await committed_offset(after, "g", "t", stable=True) == (7 if commit else -1, ErrorCode.NONE)
                await _goes_on(after, producer, commit=commit)

    asyncio.run(main())


async def _goes_on(client: Client, producer: Producer, *, commit: bool) -> None:
    """The producer asks again, is told the same, and its next transaction is one of its own."""
    producer.client = client
    answer = await producer.end(commit=commit)
    assert answer.error_code == ErrorCode.NONE
    opposite = await client.request(producer.end_request(commit=not commit), 3)
    assert opposite.error_code == ErrorCode.INVALID_TXN_STATE
    await producer.send("t", b"next")
    await producer.commit()
    assert await visible(client, "t") == ([b"a", b"next"] if commit else [b"next"])


@pytest.mark.parametrize("version", [V1, V2])
def test_an_open_transaction_goes_on_after_a_restart(tmp_path: Path, version: int) -> None:
    async def main() -> None:
        async with running(tmp_path / "data") as client:
            await client.create_topic("t", 2)
            producer = await Producer(client, version=version).ready()
            await producer.send("t", b"a")
            if version == V1:
                await producer.add_group("g")
            await producer.offset("g", "t", 7)
            async with restarted(tmp_path / "data") as after:
                assert await state(after) == "Ongoing"
                assert await visible(after, "t") == []
                assert (await committed_offset(after, "g", "t", stable=True))[1] == ErrorCode.UNSTABLE_OFFSET_COMMIT
                producer.client = after
                await producer.send("t", b"b", partition=1)
                await producer.commit()
                assert await visible(after, "t") == [b"a"]
                assert await visible(after, "t", partition=1) == [b"b"]
                assert await committed_offset(after, "g", "t", stable=True) == (7, ErrorCode.NONE)

    asyncio.run(main())


def test_a_restart_keeps_who_is_fenced(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path / "data") as client:
            await client.create_topic("t")
            older = await Producer(client).ready()
            newer = await Producer(client).ready()
            async with restarted(tmp_path / "data") as after:
                older.client = newer.client = after
                assert (await older.produce("t", b"v")).error_code == ErrorCode.INVALID_PRODUCER_EPOCH
                await newer.send("t", b"newer")
                await newer.commit()
                assert await visible(after, "t") == [b"newer"]

    asyncio.run(main())


def test_the_time_that_a_transaction_has_left_outlasts_a_restart(tmp_path: Path) -> None:
    async def main() -> None:
        clock = ManualClock(int(time.time() * 1000))
        async with running(tmp_path / "data", clock=clock) as client:
            await client.create_topic("t")
            producer = await Producer(client).ready(timeout_ms=10_000)
            prepared = await Producer(client, "prepared").ready(version=6, enable2_pc=True)
            await producer.send("t", b"v")
            await prepared.send("t", b"prepared")
            clock.advance(9)
            async with restarted(tmp_path / "data", clock) as after:
                after.broker.node.transactions.expire()
                assert await state(after) == "Ongoing"
                clock.advance(1.1)
                after.broker.node.transactions.expire()
                await until(after, "CompleteAbort")
                assert await state(after, "prepared") == "Ongoing"

    asyncio.run(main())


def test_a_forgotten_transactional_id_stays_forgotten(tmp_path: Path) -> None:
    async def main() -> None:
        clock = ManualClock(int(time.time() * 1000))
        async with running(tmp_path / "data", clock=clock) as client:
            await Producer(client).ready()
            clock.advance(8 * 86_400)
            client.broker.node.transactions.expire_ids()
            await client.create_topic("flushes")
            async with restarted(tmp_path / "data", clock) as after:
                request = DescribeTransactionsRequest(transactional_ids=["tx"])
                described = (await after.request(request, 0)).transaction_states[0]
                assert described.error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND

    asyncio.run(main())


def test_more_transactional_ids_than_one_round_forgets_are_forgotten_in_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(coordinator, "_TOMBSTONES_MAX", 2)
    monkeypatch.setattr(coordinator, "_NEXT_TOMBSTONES_S", 0.001)

    async def main() -> None:
        clock = ManualClock(int(time.time() * 1000))
        async with running(tmp_path / "data", clock=clock) as client:
            for number in range(5):
                await Producer(client, f"tx{number}").ready()
            clock.advance(8 * 86_400)
            client.broker.node.transactions.expire_ids()
            async with asyncio.timeout(20):
                while (await client.request(ListTransactionsRequest.of_defaults(), 0)).transaction_states:
                    await asyncio.sleep(0)

    asyncio.run(main())


def test_a_decision_is_carried_out_after_an_error_that_nobody_expected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(coordinator, "_RETRY_S", 0.001)

    async def main() -> None:
        async with running(tmp_path / "data") as client:
            await client.create_topic("t")
            producer = await Producer(client).ready()
            await producer.send("t", b"v")
            markers, failures = client.broker.node.markers, iter([ValueError("what nobody expected")])
            write = markers.write

            async def failing(*arguments: Any) -> Any:
                for error in failures:
                    raise error
                return await write(*arguments)

            monkeypatch.setattr(markers, "write", failing)
            await producer.commit()
            await until(client, "CompleteCommit")
            assert await visible(client, "t") == [b"v"]

    asyncio.run(main())
    assert ["cannot be ended yet" in record.getMessage() for record in caplog.records if record.exc_info] == [True]


def test_damage_in_the_state_keeps_transactions_from_being_answered(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path / "data") as client:
            await client.create_topic("t")
            await Producer(client).ready()
        (segment,) = (tmp_path / "data" / "__transaction_state-0").glob("*.log")
        damaged = bytearray(segment.read_bytes())
        damaged[70] ^= 0xFF
        segment.write_bytes(damaged)
        async with running(tmp_path / "data") as client:
            producer = Producer(client)
            assert (await producer.init()).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
            assert (await client.produce("t", b"plain")).error_code == ErrorCode.NONE

    asyncio.run(main())


@pytest.mark.parametrize("what", ["topic", "group"])
def test_an_open_transaction_brings_no_offset_of_what_was_deleted_back_after_a_restart(
    tmp_path: Path, what: str
) -> None:
    async def main() -> None:
        async with running(tmp_path / "data") as client:
            await client.create_topic("t")
            await client.create_topic("u")
            producer = await Producer(client).ready()
            await client.request(commit_request(1, topic="u"), 8)
            assert await producer.offset("g", "t", 5) == ErrorCode.NONE
            if what == "topic":
                deleted = await client.request(DeleteTopicsRequest(topic_names=["t"], timeout_ms=1000), 5)
                assert deleted.responses[0].error_code == ErrorCode.NONE
                await client.create_topic("t")
            else:
                answer = await client.request(DeleteGroupsRequest(groups_names=["g"]), 2)
                assert answer.results[0].error_code == ErrorCode.NONE
        async with running(tmp_path / "data") as client:
            producer.client = client
            await producer.commit()
            assert await committed_offset(client, "g", "t", stable=True) == (-1, ErrorCode.NONE)

    asyncio.run(main())
