from __future__ import annotations

import threading
from typing import Any, cast

import pyarrow as pa
import pytest

from mainstem.errors import LogUnavailableError
from mainstem.model import Position
from mainstem.record.writer import NewRecord, build_batch
from mainstem.views.feed.feed import Feed
from mainstem.views.feed.read_ahead import AHEAD_OFFSETS, ReadAhead
from mainstem.views.stores.store import Bookmark, ReadRecords
from tests.views.fake_log import TOPIC, FakeLog

EACH = 3_000
BATCHES = 6
END = EACH * BATCHES


def batch(first: int, count: int = EACH) -> bytes:
    return build_batch([NewRecord(b"k", b"{}") for _ in range(count)], base_offset=first)


def long_log() -> FakeLog:
    """Six batches, one to a fetch."""
    batches = [batch(number * EACH) for number in range(BATCHES)]
    return FakeLog({0: batches}, fetch_bytes=max(map(len, batches)))


class Reader:
    """Reads as a store does; notes the first offset of each batch, and the thread that read it."""

    def __init__(self, fails: int = 0) -> None:
        self.firsts: list[int] = []
        self.threads: list[threading.Thread] = []
        self.fails = fails

    def __call__(self, arrow_batch: pa.RecordBatch) -> ReadRecords:
        if self.fails:
            self.fails -= 1
            raise MemoryError
        self.firsts.append(arrow_batch.column("offset")[0].as_py())
        self.threads.append(threading.current_thread())
        return ReadRecords(pa.table({"offset": arrow_batch.column("offset")}), [])


def ahead(log: FakeLog, read: Reader) -> ReadAhead:
    return ReadAhead(Feed(cast(Any, log), TOPIC, Bookmark()), read)


def first_of(steps: ReadAhead) -> int | None:
    found = steps.next(0)
    return None if found is None else found.read.table.column("offset")[0].as_py()


def test_every_step_comes_once_in_order_with_its_records_and_its_lag() -> None:
    read = Reader()
    steps = ahead(long_log(), read)
    found = [(first_of(steps), steps.lag) for _ in range(BATCHES)]
    assert found == [(first, END - first - EACH) for first in range(0, END, EACH)]
    assert (steps.next(0), steps.lag) == (None, 0)
    assert read.firsts == list(range(0, END, EACH))
    steps.close()


def test_a_step_is_read_by_another_thread_while_many_offsets_follow() -> None:
    read = Reader()
    steps = ahead(long_log(), read)
    for _ in range(BATCHES):
        steps.next(0)
    by_caller = [thread is threading.current_thread() for thread in read.threads]
    lags = [END - first for first in range(0, END, EACH)]
    assert by_caller == [True, *(lag < AHEAD_OFFSETS for lag in lags[1:])]
    steps.close()


def test_at_the_end_a_step_has_the_newest_records() -> None:
    log = FakeLog({0: [batch(0, 3)]})
    steps = ahead(log, Reader())
    assert first_of(steps) == 0
    log.partitions[0] += [batch(3, 1), batch(4, 1)]
    found = steps.next(0)
    assert found is not None
    assert found.read.table.column("offset").to_pylist() == [3, 4]
    steps.close()


def test_a_replay_is_at_its_end_when_the_last_step_was_given() -> None:
    read = Reader()
    until = Position.of(TOPIC, 0, 2 * EACH)
    with ReadAhead(Feed(cast(Any, long_log()), TOPIC, Bookmark(), until), read) as steps:
        assert (first_of(steps), steps.is_at_end) == (0, False)
        steps._ahead.result()  # type: ignore[union-attr]
        assert not steps.is_at_end, "the second step was read and not given"
        assert first_of(steps) == EACH
        assert (steps.next(0), steps.is_at_end) == (None, True)
    assert read.firsts == [0, EACH]


def test_a_step_is_not_read_ahead_unasked() -> None:
    read = Reader()
    with ReadAhead(Feed(cast(Any, long_log()), TOPIC, Bookmark()), read, ahead_offsets=None) as steps:
        for _ in range(BATCHES):
            steps.next(0)
    assert read.firsts == list(range(0, END, EACH))
    assert set(read.threads) == {threading.current_thread()}


def test_a_log_that_is_away_is_said_by_the_next_call_and_no_step_is_lost() -> None:
    log = long_log()
    steps = ahead(log, Reader())
    log.fails = 1
    with pytest.raises(LogUnavailableError):
        steps.next(0)
    assert first_of(steps) == 0
    steps._ahead.result()  # type: ignore[union-attr] # read before the log is away again
    log.fails = 2
    assert first_of(steps) == EACH
    for _ in range(2):
        with pytest.raises(LogUnavailableError):
            steps.next(0)
    assert first_of(steps) == 2 * EACH
    steps.close()


def test_records_that_could_not_be_read_are_read_again() -> None:
    read = Reader()
    steps = ahead(long_log(), read)
    assert first_of(steps) == 0
    steps._ahead.result()  # type: ignore[union-attr]
    read.fails = 2
    assert first_of(steps) == EACH
    for _ in range(2):
        with pytest.raises(MemoryError):
            steps.next(0)
    assert [first_of(steps) for _ in range(BATCHES - 2)] == list(range(2 * EACH, END, EACH))
    steps.close()


def test_the_lag_grows_with_the_log_while_a_step_is_there() -> None:
    log = long_log()
    steps = ahead(log, Reader())
    steps.next(0)
    steps._ahead.result()  # type: ignore[union-attr]
    log.partitions[0].append(batch(END, 7))
    steps.look_at_end()
    assert steps.lag == END + 7 - EACH
    steps.next(0)
    assert steps.lag == END + 7 - 2 * EACH
    steps.close()


def test_closing_waits_for_the_step_that_is_being_read() -> None:
    begun, may_end = threading.Event(), threading.Event()

    class SlowReader(Reader):
        def __call__(self, arrow_batch: pa.RecordBatch) -> ReadRecords:
            if self.firsts:
                begun.set()
                assert may_end.wait(30)
            return super().__call__(arrow_batch)

    read = SlowReader()
    steps = ahead(long_log(), read)
    steps.next(0)
    assert begun.wait(30)
    closing = threading.Thread(target=steps.close)
    closing.start()
    assert closing.is_alive()
    may_end.set()
    closing.join(30)
    assert read.firsts == [0, EACH]
