"""One open version of a view: its store, its feed, and its current readers.

The applier's thread steps it; readers lease the store. ``close`` waits until the last reader has finished, so readers
do not notice a swap to another version.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Final, TypeAlias

import pyarrow as pa

from mainstem.errors import DamagedRecordsError, LogUnavailableError, UnavailableError, ViewStoppedError
from mainstem.model import Position
from mainstem.tracing.spans import links_to, processing_many
from mainstem.views.feed.feed import Feed, FeedStep
from mainstem.views.feed.read_ahead import ReadAhead, ReadStep
from mainstem.views.past.historical_stores import HistoricalStores
from mainstem.views.status import PastMoment, ViewPast
from mainstem.views.stores.store import Poison, StoreDefinition, StoreUnavailableError, ViewStore
from mainstem.views.stores.store_snapshots import StoreSnapshots
from mainstem.views.versions.versions import made_ms, modified_ms, origin_of

_POSITION_CHARS: Final = 1000
Applied: TypeAlias = "Callable[[pa.RecordBatch, Position], None]"


def _ignore_applied(arrow_batch: pa.RecordBatch, position: Position) -> None:
    """The default: ignore what was applied."""


class SchemaFoundError(UnavailableError):
    """A version without a schema met its first record, and the topic has a schema now: open the view again."""

    retriable = False  # not with this version


class Version:
    """``step`` is for one thread at a time; everything else for any."""

    def __init__(
        self,
        path: Path,
        definition: StoreDefinition,
        store: ViewStore,
        feed: Feed,
        send: Callable[[Version, Sequence[Poison]], None],
        snapshots: StoreSnapshots,
        past: HistoricalStores,
    ) -> None:
        """``send``: where the poison of this version goes."""
        self.path = path
        self.definition = definition
        """The definition that the store was opened with: the topic's schema may have changed since."""
        self.snapshots = snapshots
        self.past = past
        self.records = 0
        """The number of records that were applied since the opening."""
        self.applies = 0
        """The number of batches that were applied, in ``apply_s`` seconds."""
        self.apply_s = 0.0
        self.before_first: Callable[[], None] | None = None
        """Called before the first records are applied; it may raise SchemaFoundError."""
        self.built_from = origin_of(path)
        """Where its records came from."""
        self._store = store
        self._feed = feed
        self._steps = ReadAhead(feed, store.read)
        self._send = send
        self._pending: ReadStep | None = None
        self._readers = 0
        self._is_closed = False
        self._idle = threading.Condition()

    @property
    def position(self) -> Position:
        """How far the store has applied."""
        return self._store.position

    @property
    def is_volatile(self) -> bool:
        """Whether the store, opened after a kill, may be further back than what it has shown."""
        return self._store.is_volatile

    @property
    def dead_letters(self) -> int:
        """The number of records that could not be applied."""
        return self._store.bookmark.dead_letters

    @property
    def damaged_offsets(self) -> int:
        """The number of offsets that could not be read and were skipped."""
        return self._store.bookmark.damaged_offsets

    @property
    def lag(self) -> int:
        """The number of offsets between the store and the log's end, as last known."""
        pending = self._pending
        return self._steps.lag + (0 if pending is None else pending.step.offsets)

    @property
    def location(self) -> str | None:
        """The directory whose files others may read too, if there is one."""
        return self._store.location

    @property
    def table(self) -> str | None:
        """The table of a foreign database that the store keeps, if it is one."""
        return self._store.table

    @property
    def has_met_gap(self) -> bool:
        """Whether records were missing from what this opening has read: compaction had removed them."""
        return self._feed.has_met_gap

    @property
    def topic_ids(self) -> frozenset[str]:
        """The ids of the topics that the store is built from."""
        return frozenset(self._feed.bookmark.topic_ids.values())

    def past_from(self, beginning: Position) -> ViewPast:
        """How far back the store answers, where the log begins at ``beginning``: its snapshots, oldest first."""
        kept = [
            PastMoment("snapshot", each.bookmark.position, time_ms)
            for each in self.snapshots.all
            if (time_ms := modified_ms(each.path)) is not None  # else removed meanwhile
        ]
        built = PastMoment("built", self.built_from.beginning, made_ms(self.path))
        return ViewPast(beginning, not any(beginning.values()), (built, *kept))

    def step(self, max_wait_ms: int, applied: Applied = _ignore_applied) -> bool:
        """Apply what comes next, and tell ``applied``; whether there was anything. What failed is tried again next.

        Before that the store may do some of what it has put off.
        """
        self._store.settle()
        self._pending = pending = self._pending or self._steps.next(max_wait_ms)
        if pending is None:
            return False
        step = pending.step
        if self.before_first is not None and (step.arrow_batch.num_rows or step.damaged):
            self.before_first()
            self.before_first = None
        if step.damaged:
            self._send(self, [_letter(damage) for damage in step.damaged])
        started_s = time.perf_counter()
        try:
            with self._traced(step):
                self._store.write(pending.read, step.bookmark, lambda poisons: self._send(self, poisons))
        except StoreUnavailableError:
            with suppress(LogUnavailableError):  # then the lag stays as last heard of
                self._steps.look_at_end()
            raise
        self._pending = None
        self.records += step.arrow_batch.num_rows
        self.applies += 1
        self.apply_s += time.perf_counter() - started_s
        self.snapshots.applied(self._store, step.arrow_batch.num_rows, step.arrow_batch.nbytes)
        applied(step.arrow_batch, step.bookmark.position)
        return True

    def _traced(self, step: FeedStep) -> AbstractContextManager[object]:
        """A span of the apply, if traces of its records are sampled."""
        links = links_to(step.trace_headers)
        if not links:
            return nullcontext()
        view, count = self.definition.view, step.arrow_batch.num_rows
        attributes = {"mainstem.view": view, "messaging.batch.message_count": count}
        attributes["mainstem.position"] = str(step.bookmark.position)[:_POSITION_CHARS]
        return processing_many(f"apply {view}", attributes, links)

    def serve(self) -> None:
        """This version serves from now on: `ViewStore.serve`."""
        self._store.serve()

    def mark_unverified(self) -> None:
        """A verification has found that the store differs from its log, since an unknown time.

        Snapshots and past states made from it are removed, and none are made of it until the view is rebuilt.
        """
        if self._store.keeps_past:
            self.snapshots.void()
            self.past.forget()

    def interrupt(self) -> None:
        """End a step that waits, with an UnavailableError, and all that come after."""
        self._feed.close()
        self._store.interrupt()

    @contextmanager
    def lease(self) -> Iterator[ViewStore]:
        """The store, open until the lease ends. Raises ViewStoppedError when it is closed already."""
        with self._idle:
            if self._is_closed:
                raise ViewStoppedError("the view was closed")
            self._readers += 1
        try:
            yield self._store
        finally:
            with self._idle:
                self._readers -= 1
                self._idle.notify_all()

    def discard(self) -> None:
        """Close a version that will not be opened again, and delete its store where that lies elsewhere."""
        self.close(self._store.discard)

    def close(self, close_store: Callable[[], None] | None = None) -> None:
        """Close store and feed, when the last reader is done. Idempotent."""
        with self._idle:
            if self._is_closed:
                return
            self._is_closed = True
        self.past.stop()
        with self._idle:
            self._idle.wait_for(lambda: self._readers == 0)
        self.past.close()
        self._feed.close()
        self._steps.close()
        (close_store or self._store.close)()


def _letter(damage: DamagedRecordsError) -> Poison:
    """The dead letter of damaged offsets, at the first of them: its error names them all."""
    said = f"{damage.offsets} cannot be read: {damage.reason}"
    return Poison(damage.topic_partition.partition, damage.first_offset, None, None, said)
