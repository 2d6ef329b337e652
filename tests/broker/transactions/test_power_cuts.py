"""The power goes at every storage call of a history of transactions: each is there whole or not at all.

The history runs once; at each of its storage calls the disk is copied as a power cut there may leave it, with what had
been answered by then. A broker starts on each copy, and what it says is compared.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from mainstem.broker.storage.flush_policy import FlushExecutorPolicy
from mainstem.broker.transactions.coordinator import Admission
from mainstem.log.partition.partition_log import PartitionLog
from mainstem.protocol.errors import ErrorCode
from mainstem.testing.disk import CutDisk, FaultyDisk
from tests.broker.harness import Client, running
from tests.broker.transactions.producer import V1, V2, Producer, committed_offset, visible

DATA = Path("/data")
TRANSACTIONS = 4
TIMEOUT_S = 60


class Flushes:
    """Takes the place of the flush threads: one thread, as the disk in memory has one, and any order of the flushes."""

    def __init__(self, client: Client, seed: int) -> None:
        for chore in client.broker._chores.tasks:
            chore.cancel()
        self._commit = client.broker.node.commit
        self._chance = random.Random(seed)
        self._waiting: list[tuple[Any, Any]] = []
        for worker in self._commit._workers:
            worker.work.put(None)
            worker.thread.join()
            worker.work = _Inline(worker, self._waiting.append)  # type: ignore[assignment]
        self._commit._policy = _NeverQuick()
        self._task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(0)
            if self._waiting and self._chance.random() < 0.3:
                worker, work = self._waiting.pop(self._chance.randrange(len(self._waiting)))
                worker.work.items = [work, None]
                self._commit._run_flushes(worker)

    async def stop(self) -> None:
        """When all is flushed: the broker's end needs them no more."""
        while any(queue.is_scheduled for queue in self._commit._queues.values()):
            await asyncio.sleep(0)
        self._task.cancel()


class _NeverQuick(FlushExecutorPolicy):
    """No flush on the loop: it would end before another can begin, and leave no order to choose."""

    def is_quick(self, now_s: float) -> bool:
        return False


class _Inline:
    """What a worker has instead of its queue."""

    def __init__(self, worker: Any, wait: Callable[[tuple[Any, Any]], None]) -> None:
        self.items: list[Any] = []
        self._worker = worker
        self._wait = wait

    def put(self, work: Any) -> None:
        if work is not None:
            self._wait((self._worker, work))

    def get(self) -> Any:
        return self.items.pop(0)


class Cut(NamedTuple):
    """A disk after a power cut; how many transactions had been ended by then, and which had been begun."""

    disk: FaultyDisk
    ended: int
    begun: int


def commits(number: int) -> bool:
    return number % 3 != 2


def spoil_nothing(_: Client) -> None:
    pass


def write_before_the_log_names_the_partition(client: Client) -> None:
    transactions = client.broker.node.transactions
    admit = transactions.admit

    def admit_at_once(*arguments: Any, **options: Any) -> Admission:
        return admit(*arguments, **options)._replace(wait=None)

    transactions.admit = admit_at_once  # type: ignore[method-assign]


def mark_before_the_decision_is_durable(client: Client) -> None:
    class Hasty:
        async def durable(self, log: PartitionLog, next_offset: int) -> None: ...

        def appended(self, log: PartitionLog) -> None:
            client.broker.node.commit.appended(log)

    client.broker.node.transactions._commit = Hasty()  # type: ignore[assignment]


async def history(version: int, seed: int, spoil: Callable[[Client], None] = spoil_nothing) -> list[Cut]:
    disk, cuts = FaultyDisk(seed), []
    ended = begun = 0

    def cut(at: CutDisk) -> None:
        copy = at.copy(seed * 100_000 + len(cuts))
        copy.power_cut()
        cuts.append(Cut(copy, ended, begun))

    async with running(DATA, disk=disk) as client:
        flushes = Flushes(client, seed)
        spoil(client)
        await client.create_topic("t", 2)
        producer = await Producer(client, version=version).ready()
        disk.on_call = cut
        for number in range(TRANSACTIONS):
            begun = number + 1
            await producer.send("t", b"%d" % number)
            await producer.send("t", b"%d" % number, partition=1)
            if version == V1:
                assert await producer.add_group("g") == ErrorCode.NONE
            assert await producer.offset("g", "t", number + 1) == ErrorCode.NONE
            assert (await producer.end(commit=commits(number))).error_code == ErrorCode.NONE
            ended = number + 1
        disk.on_call = None
        await flushes.stop()
    return cuts


async def check(cut: Cut) -> None:
    async with running(DATA, disk=cut.disk) as client:
        flushes = Flushes(client, cut.begun)
        async with asyncio.timeout(TIMEOUT_S):
            while (await Producer(client).init()).error_code == ErrorCode.CONCURRENT_TRANSACTIONS:
                continue
        values = await visible(client, "t")
        told = [b"%d" % number for number in range(cut.ended) if commits(number)]
        may_be = [b"%d" % number for number in range(cut.ended, cut.begun) if commits(number)]
        assert values in (told, told + may_be)
        assert await visible(client, "t", partition=1) == values
        last = int(values[-1] or b"") + 1 if values else -1
        assert await committed_offset(client, "g", "t", stable=True) == (last, ErrorCode.NONE)
        for log in client.broker.node.topics.find("t").logs:
            assert log.last_stable_offset == log.high_watermark, "a transaction hangs"
        await flushes.stop()


async def check_all(cuts: list[Cut]) -> None:
    for cut in cuts:
        await check(cut)


@pytest.mark.parametrize(("version", "seed"), [(V1, 1), (V2, 2)])
def test_a_power_cut_at_any_storage_call_leaves_each_transaction_whole(version: int, seed: int) -> None:
    cuts = asyncio.run(history(version, seed))
    assert len(cuts) > 20 * TRANSACTIONS
    asyncio.run(check_all(cuts))


@pytest.mark.parametrize("spoil", [write_before_the_log_names_the_partition, mark_before_the_decision_is_durable])
def test_the_cuts_find_a_coordinator_that_does_not_wait(spoil: Callable[[Client], None]) -> None:
    cuts = asyncio.run(history(V2, 2, spoil))
    with pytest.raises(AssertionError):
        asyncio.run(check_all(cuts))
