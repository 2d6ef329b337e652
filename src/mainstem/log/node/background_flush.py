"""Background flushes of partitions with ``flush=os``, whose appends do not wait for a sync.

The operating system writes their records some time later. But a start after a crash has to verify and rewrite unsynced
records, and they hold files open. So they are synced when they are old, or many bytes, or hold too many files.

Concurrency: ``start`` and ``finish`` belong to the owner of the partitions; ``run`` may be called in any thread, by one
at a time.
"""

from __future__ import annotations

from collections.abc import Iterable

from mainstem.errors import StorageError
from mainstem.log.partition.flush import Flush
from mainstem.log.partition.partition_log import PartitionLog


class BackgroundFlush:
    """One flush of one partition on its way through the three steps."""

    __slots__ = ("_error", "_flush", "_is_done", "_partition")

    def __init__(self, partition: PartitionLog, flush: Flush) -> None:
        self._partition = partition
        self._flush = flush
        self._error: StorageError | None = None
        self._is_done = False

    def run(self) -> None:
        """The second step, once."""
        if self._is_done:
            return
        try:
            self._flush.run()
        except StorageError as error:
            self._error = error
        self._is_done = True

    def maybe_finish(self) -> bool:
        """The third step, if the second has ended; whether it has."""
        if self._is_done:
            self._partition.finish_flush(self._flush, self._error)
        return self._is_done


class BackgroundFlushes:
    """Those that are on their way."""

    def __init__(self) -> None:
        self._under_way: list[BackgroundFlush] = []

    def start(self, partitions: Iterable[PartitionLog], *, everything: bool) -> list[BackgroundFlush]:
        """Begin to flush the partitions that are due, or ``everything``; returns the flushes to ``run``."""
        started = []
        for partition in partitions:
            if partition.config.flushes_before_commit or not (everything or partition.wants_flush):
                continue
            flush = partition.start_flush()
            if flush is not None:
                started.append(BackgroundFlush(partition, flush))
        self._under_way += started
        return started

    def finish(self) -> None:
        """Take note of those that have run."""
        self._under_way = [each for each in self._under_way if not each.maybe_finish()]

    def end(self) -> None:
        """Run and finish all that are left: no thread may be running any."""
        for each in self._under_way:
            each.run()
        self.finish()
