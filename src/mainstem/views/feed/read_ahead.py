"""The steps of a feed with their records read for a store; the next one is read ahead while the view catches up.

A step of a view has two parts that use different things: fetching and reading records (the log, native code without the
interpreter's lock), and writing them (the store). A view that has much to catch up does both at once: a thread reads
the next step while the applier writes the one before. A view at the log's end reads when it is asked, so that a step
has the newest records. Replays read ahead, too, up to the position where their feed ends.

Invariant: ``next`` gives the steps in the feed's order, each once; what failed is tried again by the call after it. At
most one step is read ahead, so a view that catches up holds two steps in memory.

Concurrency: ``next``, ``look_at_end`` and ``close`` for one thread; ``lag`` from any. The feed and ``read`` are used by
one thread at a time, the caller's or the reader's.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from types import TracebackType
from typing import Final

import pyarrow as pa

from mainstem.views.feed.feed import Feed, FeedStep
from mainstem.views.stores.store import ReadRecords

AHEAD_OFFSETS: Final = 5_000
"""The next step is read ahead when this many offsets or more follow; fewer are read in a few milliseconds."""


@dataclass(frozen=True, slots=True)
class ReadStep:
    """A step of a feed, and its records as the store reads them."""

    step: FeedStep
    read: ReadRecords


class ReadAhead:
    """Reads the steps of ``feed`` with ``read``. A context manager."""

    def __init__(
        self,
        feed: Feed,
        read: Callable[[pa.RecordBatch], ReadRecords],
        ahead_offsets: int | None = AHEAD_OFFSETS,
    ) -> None:
        """``ahead_offsets``: how many offsets must follow for a step to be read ahead; None: never."""
        self._feed = feed
        self._read = read
        self._ahead_offsets = ahead_offsets
        self._fetched: FeedStep | None = None
        self._worker: ThreadPoolExecutor | None = None
        self._ahead: Future[ReadStep | None] | None = None
        self._lag_before = 0

    @property
    def lag(self) -> int:
        """The number of offsets between the last step of ``next`` and the log's end, as last known."""
        return self._lag_before if self._ahead is not None else self._feed.lag + self._feed.kept_offsets

    @property
    def is_at_end(self) -> bool:
        """Whether ``next`` has given all steps up to the feed's ``until``."""
        return self._ahead is None and self._fetched is None and self._feed.is_at_end

    def next(self, max_wait_ms: int) -> ReadStep | None:
        """The next step, or None when nothing came in time. Raises as `Feed.step`."""
        ahead, self._ahead = self._ahead, None
        found = self._next(max_wait_ms) if ahead is None else ahead.result()
        if found is not None and self._ahead_offsets is not None and self._feed.lag >= self._ahead_offsets:
            self._worker = self._worker or ThreadPoolExecutor(1, "view-reads-ahead")
            self._lag_before = self._feed.lag
            self._ahead = self._worker.submit(self._next, 0)
        return found

    def look_at_end(self) -> None:
        """Learn where the log ends, without a step, unless a step is being read. Raises LogUnavailableError."""
        if self._ahead is None:
            self._feed.look_at_end()
        elif self._ahead.done():
            before = self._feed.lag
            self._feed.look_at_end()
            self._lag_before += self._feed.lag - before

    def close(self) -> None:
        """Wait until no step is read any more: at once when the feed was closed before. Idempotent."""
        if self._worker is not None:
            self._worker.shutdown()

    def __enter__(self) -> ReadAhead:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _next(self, max_wait_ms: int) -> ReadStep | None:
        self._fetched = step = self._fetched or self._feed.step(max_wait_ms)
        if step is None:
            return None
        found = ReadStep(step, self._read(step.arrow_batch))
        self._fetched = None
        return found
