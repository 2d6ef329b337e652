"""Background flushes of partitions with ``flush=os``, whose appends do not wait for a sync.

The operating system writes their records some time later. But a start after a crash has to verify and rewrite unsynced
records, and they hold files open. So they are synced when they are old, or many bytes, or hold too many files.

Concurrency: ``start`` and ``finish`` belong to the owner of the partitions; ``run`` may be called in any thread. The
kernel reports a failed write to one sync only, so each flush runs only once.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable

from mainstem.errors import StorageError
from mainstem.log.partition.flush import Flush
from mainstem.log.partition.partition_log import PartitionLog


class BackgroundFlush:
    """One flush of one partition on its way through the three steps."""

    __slots__ = ("_error", "_flush", "_is_done", "_lock", "_partition", "has_begun")

    def __init__(self, partition: PartitionLog, flush: Flush) -> None:
        self._partition = partition
        self._flush = flush
        self._error: StorageError | None = None
        self._is_done = False
        self._lock = threading.Lock()
        self.has_begun = False

    def run(self) -> None:
        """The second step, once; returns when it has ended, also in another thread."""
        with self._lock:
            if self._is_done:
                return
            self.has_begun = True
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
        """Begin to flush the partitions that are due, or ``everything``; returns the flushes to ``run``.

        This includes earlier ones that no thread has begun: the checkpoint that should have run them may have failed.
        """
        for partition in partitions:
            if partition.config.flushes_before_commit or not (everything or partition.wants_flush):
                continue
            flush = partition.start_flush()
            if flush is not None:
                self._under_way.append(BackgroundFlush(partition, flush))
        return [each for each in self._under_way if not each.has_begun]

    def finish(self) -> None:
        """Take note of those that have run."""
        self._under_way = [each for each in self._under_way if not each.maybe_finish()]

    def end(self) -> None:
        """Run and finish all that are left."""
        for each in self._under_way:
            each.run()
        self.finish()
