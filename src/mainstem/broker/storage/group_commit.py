"""Group commit: appends wait here until they are on disk, and one fdatasync serves many of them.

Each partition is flushed separately. While one flush runs, new appends collect; the next flush covers all of them. The
fdatasync runs in a small pool of threads, or on the event loop when the flush is small and the disk is fast
(``flush_policy``). Everything else runs on the event loop, which owns the partition logs.

One round for one partition: ``start_flush`` (loop) → ``Flush.run`` → ``finish_flush`` (loop), which raises the high
watermark or takes the partition offline → delayed fetches wake → the waiting requests are completed.

A checkpoint may already be flushing the partition: the flush began while its topic had ``flush=os``, and it ends with
the next checkpoint. Then the waiting requests wait for that flush first.

Invariants: a partition has at most one flush in progress; each waiting request is completed exactly once, in the order
of the offsets; a failed flush is never retried.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from queue import SimpleQueue
from typing import Final, NamedTuple, TypeAlias

from mainstem.broker.metrics.meters import Meters
from mainstem.broker.storage.flush_policy import FlushExecutorPolicy
from mainstem.errors import MainstemError, PartitionOfflineError, StorageError
from mainstem.log.partition.flush import Flush
from mainstem.log.partition.partition_log import PartitionLog

_LOG: Final = logging.getLogger("mainstem.broker")

Done: TypeAlias = "Callable[[MainstemError | None], None]"
FLUSH_THREADS: Final = 2
_ANOTHER_FLUSH_CHECK_S: Final = 0.01


class _Queue:
    """The requests that wait for one partition. ``waiting`` is ordered by offset."""

    __slots__ = ("is_scheduled", "log", "waiting")

    def __init__(self, log: PartitionLog) -> None:
        self.log = log
        self.waiting: deque[tuple[int, Done]] = deque()
        self.is_scheduled = False


class _Worker:
    """A thread that runs syncs, with its own queue: one put wakes one thread."""

    __slots__ = ("pending", "thread", "work")

    def __init__(self, run: Callable[[_Worker], None], name: str) -> None:
        self.work: SimpleQueue[tuple[_Queue, Flush] | None] = SimpleQueue()
        self.pending = 0  # counted on the event loop
        self.thread = threading.Thread(target=run, args=(self,), name=name, daemon=True)
        self.thread.start()


class _Finished(NamedTuple):
    """A flush that a thread has run, with its error and its duration."""

    worker: _Worker
    queue: _Queue
    flush: Flush
    error: StorageError | None
    seconds: float


class GroupCommit:
    """Makes appended records durable. All methods and ``advanced`` are called on the event loop."""

    def __init__(self, advanced: Callable[[PartitionLog], None], meters: Meters | None = None) -> None:
        self._loop = asyncio.get_running_loop()
        self._advanced = advanced
        self._meters = meters or Meters()
        self._policy = FlushExecutorPolicy()
        self._scheduled = 0
        self._queues: dict[PartitionLog, _Queue] = {}
        self._finished: deque[_Finished] = deque()
        self._workers = [_Worker(self._run_flushes, f"mainstem-flush-{number}") for number in range(FLUSH_THREADS)]

    def appended(self, log: PartitionLog) -> None:
        """Schedule a flush of the new records of ``log``, unless they already count as committed."""
        if log.high_watermark == log.log_end_offset:
            self._advanced(log)
            return
        queue = self._queues.get(log)
        if queue is None:
            queue = self._queues[log] = _Queue(log)
        if not queue.is_scheduled:
            queue.is_scheduled = True
            self._scheduled += 1
            # At the end of this turn of the loop, so that all requests of the turn share the flush.
            self._loop.call_soon(self._start, queue)

    def when_durable(self, log: PartitionLog, next_offset: int, done: Done) -> None:
        """Call ``done`` once everything before ``next_offset`` is durable (at once, if it already is).

        If it cannot become durable, ``done`` gets the error.
        """
        if log.high_watermark >= next_offset:
            done(None)
            return
        queue = self._queues.get(log)
        if queue is None or not queue.is_scheduled:
            done(
                PartitionOfflineError(f"{log.topic_partition} takes no writes: {log.offline_reason or 'the log stops'}")
            )
            return
        queue.waiting.append((next_offset, done))

    async def durable(self, log: PartitionLog, next_offset: int) -> None:
        """Wait until everything before ``next_offset`` is durable. Raises the error that prevents it."""
        future: asyncio.Future[None] = self._loop.create_future()

        def done(error: MainstemError | None) -> None:
            if future.done():
                return
            if error is None:
                future.set_result(None)
            else:
                future.set_exception(error)

        self.when_durable(log, next_offset, done)
        await future

    def forget(self, log: PartitionLog) -> None:
        """Drop a deleted partition: every request that waits for it gets an error."""
        queue = self._queues.pop(log, None)
        if queue is not None:
            self._fail_all(queue, PartitionOfflineError(f"{log.topic_partition} was deleted"))

    async def stop(self) -> None:
        """Flush what remains, complete all waiting requests, and end the threads."""
        self._is_stopping = True
        while any(queue.is_scheduled for queue in self._queues.values()):
            idle = self._loop.create_future()
            self._idle = idle
            await idle
        for worker in self._workers:
            worker.work.put(None)
        for worker in self._workers:
            worker.thread.join()

    _idle: asyncio.Future[None] | None = None
    _is_stopping = False

    def _start(self, queue: _Queue) -> None:
        if queue.log not in self._queues:
            self._unschedule(queue)
            return
        log = queue.log
        flush = log.start_flush()
        if flush is not None and self._scheduled == 1 and flush.is_small and self._policy.is_quick(time.monotonic()):
            self._run_on_loop(queue, flush)
        elif flush is not None:
            worker = min(self._workers, key=lambda worker: worker.pending)
            worker.pending += 1
            worker.work.put((queue, flush))
        elif log.is_flushing and not self._is_stopping:
            self._loop.call_later(_ANOTHER_FLUSH_CHECK_S, self._start, queue)
        else:
            self._unschedule(queue)
            self._complete_durable(queue)
            self._fail_all(
                queue, PartitionOfflineError(f"{log.topic_partition}: {log.offline_reason or 'the log stops'}")
            )

    def _run_on_loop(self, queue: _Queue, flush: Flush) -> None:
        """Run the flush on the event loop: no other partition waits, and a fast disk takes less time than a thread."""
        began_s = time.monotonic()
        error = _run(queue.log, flush)
        ended_s = time.monotonic()
        self._policy.ran(ended_s - began_s, ended_s)
        self._finish_flush(queue, flush, error, ended_s - began_s)

    def _run_flushes(self, worker: _Worker) -> None:
        """Run one thread: it runs flushes and nothing else."""
        while (work := worker.work.get()) is not None:
            queue, flush = work
            began_s = time.monotonic()
            error = _run(queue.log, flush)
            self._finished.append(_Finished(worker, queue, flush, error, time.monotonic() - began_s))
            self._loop.call_soon_threadsafe(self._finish)

    def _finish(self) -> None:
        while self._finished:
            worker, queue, flush, error, seconds = self._finished.popleft()
            worker.pending -= 1
            self._finish_flush(queue, flush, error, seconds)

    def _finish_flush(self, queue: _Queue, flush: Flush, error: StorageError | None, seconds: float) -> None:
        """Process the end of a flush, wherever it ran."""
        self._meters.flushed(seconds, failed=error is not None)
        log = queue.log
        log.finish_flush(flush, error)
        if log not in self._queues:
            self._unschedule(queue)
        elif error is not None:
            self._unschedule(queue)
            self._fail_all(queue, PartitionOfflineError(f"{log.topic_partition}: {error}"))
        else:
            self._on_durable(queue)

    def _on_durable(self, queue: _Queue) -> None:
        log = queue.log
        # Consumers that wait come first: they are the end of a record's way.
        self._advanced(log)
        self._complete_durable(queue)
        if log.log_end_offset > log.high_watermark:
            self._loop.call_soon(self._start, queue)
        else:
            self._unschedule(queue)

    def _unschedule(self, queue: _Queue) -> None:
        queue.is_scheduled = False
        self._scheduled -= 1
        if self._idle is not None and not self._idle.done():
            self._idle.set_result(None)

    @staticmethod
    def _complete_durable(queue: _Queue) -> None:
        waiting, high_watermark = queue.waiting, queue.log.high_watermark
        while waiting and waiting[0][0] <= high_watermark:
            waiting.popleft()[1](None)

    @staticmethod
    def _fail_all(queue: _Queue, error: MainstemError) -> None:
        waiting, queue.waiting = queue.waiting, deque()
        for _, done in waiting:
            done(error)


def _run(log: PartitionLog, flush: Flush) -> StorageError | None:
    """Run a flush and return any error. An exception that escaped would leave every writer waiting."""
    try:
        flush.run()
    except StorageError as error:
        return error
    except Exception as error:  # noqa: BLE001 - it is logged, and takes the partition offline
        _LOG.error("%s cannot be flushed", log.topic_partition, exc_info=error)
        return StorageError(f"a flush failed unexpectedly ({error!r}); the log of the node says where")
    return None
