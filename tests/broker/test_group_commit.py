"""Group commit over partition logs that flush when the test lets them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from mainstem.broker.storage.group_commit import GroupCommit
from mainstem.errors import MainstemError, PartitionOfflineError, StorageError
from mainstem.model import TopicPartition


class SlowFlush:
    """A flush that ends when ``gate`` opens, with ``error`` if there is one."""

    def __init__(self, end_offset: int, gate: threading.Event, error: Exception | None, is_small: bool) -> None:
        self.end_offset = end_offset
        self._gate = gate
        self._error = error
        self.is_small = is_small
        self.ran_in = ""

    def run(self) -> None:
        self.ran_in = threading.current_thread().name
        assert self._gate.wait(10)
        if self._error is not None:
            raise self._error


class SlowLog:
    """As much of a partition log as group commit sees."""

    def __init__(self, name: str = "t") -> None:
        self.topic_partition = TopicPartition(name, 0)
        self.high_watermark = self.log_end_offset = 0
        self.offline_reason: str | None = None
        self.gate = threading.Event()
        self.gate.set()
        self.error: Exception | None = None
        self.is_flushing = False
        self.flushes = 0
        self.is_small = False
        self.last_flush: SlowFlush | None = None

    def append(self, count: int = 1) -> int:
        self.log_end_offset += count
        return self.log_end_offset

    def start_flush(self) -> SlowFlush | None:
        if self.is_flushing or self.offline_reason or self.log_end_offset == self.high_watermark:
            return None
        self.flushes += 1
        self.last_flush = SlowFlush(self.log_end_offset, self.gate, self.error, self.is_small)
        return self.last_flush

    def finish_flush(self, flush: SlowFlush, error: StorageError | None) -> None:
        if error is not None:
            self.offline_reason = str(error)
        else:
            self.high_watermark = flush.end_offset


def scenario(main: Callable[[Any, list[Any]], Awaitable[None]]) -> Callable[[], None]:
    """Runs ``main(commit, advanced)``, where ``advanced`` notes the partitions that moved."""

    def test() -> None:
        async def run() -> None:
            advanced: list[Any] = []
            commit = GroupCommit(advanced.append)
            try:
                async with asyncio.timeout(10):
                    await main(commit, advanced)
            finally:
                await commit.stop()

        asyncio.run(run())

    test.__name__ = main.__name__
    return test


@scenario
async def test_an_append_is_durable_after_its_flush(commit: Any, advanced: list[Any]) -> None:
    log = SlowLog()
    log.append()
    commit.appended(log)
    await commit.durable(log, 1)
    assert (log.flushes, advanced) == (1, [log])


@scenario
async def test_consumers_that_wait_come_before_the_producer(commit: Any, advanced: list[Any]) -> None:
    log = SlowLog()
    log.append()
    commit.appended(log)
    ended = asyncio.Event()

    def done(_: MainstemError | None) -> None:
        advanced.append("producer")
        ended.set()

    commit.when_durable(log, 1, done)
    await ended.wait()
    assert advanced == [log, "producer"]


@scenario
async def test_what_comes_in_one_turn_shares_one_flush(commit: Any, advanced: list[Any]) -> None:
    log = SlowLog()
    ends = []
    for _ in range(10):
        ends.append(log.append())
        commit.appended(log)
    await asyncio.gather(*(commit.durable(log, end) for end in ends))
    assert log.flushes == 1


@scenario
async def test_what_comes_during_a_flush_shares_the_next_one(commit: Any, advanced: list[Any]) -> None:
    log = SlowLog()
    log.gate.clear()
    log.append()
    commit.appended(log)
    while not log.flushes:
        await asyncio.sleep(0)
    for _ in range(10):
        log.append()
        commit.appended(log)
    first, last = (asyncio.create_task(commit.durable(log, offset)) for offset in (1, 11))
    log.gate.set()
    await first
    await last
    assert log.flushes == 2


@scenario
async def test_a_partition_that_is_slow_does_not_hold_up_another(commit: Any, advanced: list[Any]) -> None:
    slow, quick = SlowLog("slow"), SlowLog("quick")
    slow.gate.clear()
    for log in (slow, quick):
        log.append()
        commit.appended(log)
    await commit.durable(quick, 1)
    assert slow.high_watermark == 0
    slow.gate.set()


@scenario
async def test_who_waits_is_told_in_the_order_of_the_offsets(commit: Any, advanced: list[Any]) -> None:
    log, told = SlowLog(), []
    for _ in range(5):
        end = log.append()
        commit.appended(log)
        commit.when_durable(log, end, lambda error, end=end: told.append((end, error)))
    await commit.durable(log, 5)
    assert told == [(offset, None) for offset in range(1, 6)]


@scenario
async def test_a_flush_that_fails_is_told_to_everyone_and_never_tried_again(commit: Any, advanced: list[Any]) -> None:
    log = SlowLog()
    log.error = StorageError("input/output error")
    told: list[MainstemError | None] = []
    for _ in range(3):
        end = log.append()
        commit.appended(log)
        commit.when_durable(log, end, told.append)
    with pytest.raises(PartitionOfflineError, match="input/output"):
        await commit.durable(log, 3)
    commit.appended(log)
    with pytest.raises(PartitionOfflineError):
        await commit.durable(log, 4)
    assert log.flushes == 1
    assert len(told) == 3
    assert all(isinstance(error, PartitionOfflineError) for error in told)


@scenario
async def test_what_counts_as_committed_at_the_append_is_not_flushed(commit: Any, advanced: list[Any]) -> None:
    log = SlowLog()
    log.high_watermark = log.append()
    commit.appended(log)
    await commit.durable(log, 1)
    assert (log.flushes, advanced) == (0, [log])


@scenario
async def test_a_writer_that_waits_for_a_deleted_partition_gets_an_error(commit: Any, advanced: list[Any]) -> None:
    log = SlowLog()
    log.gate.clear()
    log.append()
    commit.appended(log)
    waiting = asyncio.create_task(commit.durable(log, 1))
    while not log.flushes:
        await asyncio.sleep(0)
    commit.forget(log)
    with pytest.raises(PartitionOfflineError, match="deleted"):
        await waiting
    log.offline_reason = "it is deleted"
    with pytest.raises(PartitionOfflineError, match="takes no writes: it is deleted"):
        await commit.durable(log, 1)
    log.gate.set()


@scenario
async def test_a_flush_that_another_has_begun_is_waited_for(commit: Any, advanced: list[Any]) -> None:
    log = SlowLog()
    log.is_flushing = True
    log.append()
    commit.appended(log)
    told: list[MainstemError | None] = []
    commit.when_durable(log, 1, told.append)
    for _ in range(20):
        await asyncio.sleep(0)
    assert told == []
    log.is_flushing = False
    await commit.durable(log, 1)
    assert (log.flushes, told) == (1, [None])


@scenario
async def test_a_stop_does_not_wait_for_a_flush_that_another_has_begun(commit: Any, advanced: list[Any]) -> None:
    log = SlowLog()
    log.is_flushing = True
    log.append()
    commit.appended(log)
    told: list[MainstemError | None] = []
    commit.when_durable(log, 1, told.append)
    await commit.stop()
    assert isinstance(told[0], PartitionOfflineError)


@scenario
async def test_a_stop_waits_for_what_is_under_way(commit: Any, advanced: list[Any]) -> None:
    log = SlowLog()
    log.append()
    commit.appended(log)
    await commit.stop()
    assert log.high_watermark == 1


@scenario
async def test_a_small_flush_of_the_only_partition_that_waits_runs_on_the_loop(
    commit: Any, advanced: list[Any]
) -> None:
    log = SlowLog()
    log.is_small = True
    log.append()
    commit.appended(log)
    await commit.durable(log, 1)
    assert log.last_flush is not None
    assert log.last_flush.ran_in == threading.current_thread().name
    assert advanced == [log]


@scenario
async def test_small_flushes_of_two_partitions_run_in_threads(commit: Any, advanced: list[Any]) -> None:
    logs = SlowLog("a"), SlowLog("b")
    for log in logs:
        log.is_small = True
        log.gate.clear()
        log.append()
        commit.appended(log)
    while not all(log.flushes for log in logs):
        await asyncio.sleep(0)
    for log in logs:
        log.gate.set()
        await commit.durable(log, 1)
    assert threading.current_thread().name not in {log.last_flush.ran_in for log in logs if log.last_flush}


@scenario
async def test_a_small_flush_that_fails_on_the_loop_is_told_and_never_tried_again(
    commit: Any, advanced: list[Any]
) -> None:
    log = SlowLog()
    log.is_small, log.error = True, StorageError("input/output error")
    log.append()
    commit.appended(log)
    with pytest.raises(PartitionOfflineError, match="input/output"):
        await commit.durable(log, 1)
    assert log.flushes == 1


@pytest.mark.parametrize("is_small", [False, True], ids=["in a thread", "on the loop"])
def test_a_flush_that_fails_in_an_unexpected_way_lets_nobody_wait(is_small: bool) -> None:
    @scenario
    async def case(commit: Any, advanced: list[Any]) -> None:
        log, other = SlowLog(), SlowLog("other")
        log.is_small, log.error = is_small, ValueError("what nobody expected")
        log.append()
        commit.appended(log)
        with pytest.raises(PartitionOfflineError):
            await commit.durable(log, 1)
        other.append()
        commit.appended(other)
        await commit.durable(other, 1)
        assert "what nobody expected" in str(log.offline_reason)

    case()
