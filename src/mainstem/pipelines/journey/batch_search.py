"""Finds the micro-batch that read, or wrote, an offset, among the finished micro-batches of one pipeline.

The positions of a pipeline's micro-batches rise, so they are searched by bisection. The search begins at the time of
the record that is asked about, where it usually ends: a pipeline reads a record soon after its append. A record's own
timestamp may be any, and then only the number of steps grows.

Bounded: after ``READ_MAX`` records of the topic the search ends, and says so. Used by one thread.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from mainstem.errors import MainstemError, SchemaError, UnknownTopicError
from mainstem.model import Position, TopicPartition
from mainstem.pipelines.journey.finished_batches import BATCHES_TOPIC, FinishedBatch

if TYPE_CHECKING:
    from mainstem.client.log import Log

READ_MAX: Final = 100_000
_NEARBY: Final = 1_000
"""How many records after the first guess are read in a row before the search bisects."""
_FETCH_BYTES: Final = 256 * 1024
_TIME_MS_MAX: Final = 253_402_300_799_000
_PLACE: Final = TopicPartition(BATCHES_TOPIC, 0)

At = Callable[[Position, Position], bool]
"""Whether a source and a sink position are past what is sought."""


@dataclass(frozen=True, slots=True)
class FoundBatch:
    """A micro-batch, and when it ended. Not ``is_exact``: this one or one before, which has no record.

    ``is_oldest``: it is the oldest that is known of the pipeline.
    """

    batch: FinishedBatch
    ended_ms: int
    is_exact: bool
    is_oldest: bool = False


@dataclass(frozen=True, slots=True)
class _Entry:
    offset: int
    batch: FinishedBatch
    ended_ms: int


class BatchHistory:
    """The finished micro-batches of one pipeline. ``gave_up``: the last search ended at its bound."""

    def __init__(self, log: Log, pipeline: str, *, read_max: int = READ_MAX) -> None:
        self.gave_up = False
        self._log = log
        self._pipeline = pipeline
        self._read_max = self._left = read_max
        self._ends: tuple[int, int] | None = None

    def find(self, is_past: At, near_ms: int | None = None) -> FoundBatch | None:
        """The first micro-batch whose end ``is_past``; None when none is known. ``near_ms``: where to look first.

        Raises LogUnavailableError, AuthorizationError.
        """
        self.gave_up, self._left = False, self._read_max
        try:
            beginning, end = self._bounds()
            found = self._search(is_past, beginning, end, self._guess(near_ms, beginning, end))
        except UnknownTopicError:
            return None
        if found is None:
            return None
        batch = found.batch
        if not is_past(batch.source_from, batch.sink_from):
            return FoundBatch(batch, found.ended_ms, is_exact=True)
        is_oldest = not self.gave_up and next(self._entries(beginning, found.offset), None) is None
        return FoundBatch(batch, found.ended_ms, is_exact=False, is_oldest=is_oldest)

    def _bounds(self) -> tuple[int, int]:
        if self._ends is None:
            beginning, end = self._log.beginning(BATCHES_TOPIC), self._log.end(BATCHES_TOPIC)
            self._ends = beginning.get(_PLACE, 0), end.get(_PLACE, 0)
        return self._ends

    def _guess(self, near_ms: int | None, beginning: int, end: int) -> int:
        if near_ms is None or not 0 < near_ms < _TIME_MS_MAX:
            return (beginning + end) // 2
        at = datetime.datetime.fromtimestamp(near_ms / 1_000, datetime.UTC)
        try:
            guess = self._log.positions_at(BATCHES_TOPIC, at).get(_PLACE, beginning)
        except UnknownTopicError:
            raise
        except MainstemError:  # a damaged record in the way: the time is but a guess
            return (beginning + end) // 2
        return min(max(guess, beginning), end)

    def _search(self, is_past: At, low: int, high: int, guess: int) -> _Entry | None:
        """Every entry before ``low`` is not past; ``best`` is, and it is the first one from ``high`` on."""
        best: _Entry | None = None
        first = next(self._entries(guess, high), None)
        if first is not None and not is_past(first.batch.source_to, first.batch.sink_to):
            low = first.offset + 1
            near = min(high, low + _NEARBY)
            for entry in self._entries(low, near):
                if is_past(entry.batch.source_to, entry.batch.sink_to):
                    return entry
                low = entry.offset + 1
            low = max(low, near)
        else:
            best, high = first, guess
            if first is not None and not is_past(first.batch.source_from, first.batch.sink_from):
                return first
        while low < high and not self.gave_up:
            is_near = high - low <= _NEARBY
            middle = low if is_near else (low + high) // 2
            for entry in self._entries(middle, high):
                if is_past(entry.batch.source_to, entry.batch.sink_to):
                    best, high = entry, middle
                    break
                low = entry.offset + 1
                if not is_near:
                    break
            else:
                high = middle
        return best

    def _entries(self, start: int, end: int) -> Iterator[_Entry]:
        """The pipeline's entries between two offsets. Sets ``gave_up`` when the bound of the search is reached."""
        stop = min(end, start + self._left)
        if start >= stop:
            self.gave_up = self.gave_up or start < end
            return
        reader = self._log.read(
            BATCHES_TOPIC,
            start=Position({_PLACE: start}),
            end=Position({_PLACE: stop}),
            key=self._pipeline,
            every_partition=True,
            fetch_bytes=_FETCH_BYTES,
            on_damaged="skip",
        )
        counted = start
        for record in reader:
            self._left, counted = self._left - (record.offset + 1 - counted), record.offset + 1
            try:
                batch = FinishedBatch.from_record(record)
            except SchemaError:
                continue
            if batch is not None:
                yield _Entry(record.offset, batch, record.timestamp_ms)
        self._left -= stop - counted
        self.gave_up = self.gave_up or stop < end
