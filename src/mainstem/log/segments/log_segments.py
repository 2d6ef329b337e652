"""The segments of one partition, in order: finding the one that holds an offset, and reading across them.

Invariants: there is at least one; base offsets rise strictly; the last is the active one, and only it grows; each knows
the one before it.

Owned by one partition log.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from mainstem.errors import CorruptBatchError, StorageError
from mainstem.log.segments.remote_segment import PiecesMissingError
from mainstem.log.segments.segment import Segment
from mainstem.record.reader import AbortedTransaction

_READ_STARTS_KEPT: Final = 32
"""Recent high watermarks and their places in the files, where readers at the end of the log go on."""


class LogPlace(NamedTuple):
    """A batch end: a file position in a segment."""

    segment: Segment
    file_position: int


class LogSegments(Sequence[Segment]):
    """Oldest first."""

    def __init__(self, segments: Sequence[Segment]) -> None:
        self._segments = list(segments)
        self._base_offsets = [segment.base_offset for segment in segments]
        self._read_starts: dict[int, LogPlace] = {}
        link(self._segments)

    def __getitem__(self, slot: int) -> Segment:  # type: ignore[override]
        return self._segments[slot]

    def __len__(self) -> int:
        return len(self._segments)

    def __iter__(self) -> Iterator[Segment]:
        return iter(self._segments)

    @property
    def active(self) -> Segment:
        """The one that grows."""
        return self._segments[-1]

    @property
    def end(self) -> LogPlace:
        """Where the next batch goes, or the next segment begins."""
        return LogPlace(self._segments[-1], self._segments[-1].size_bytes)

    def append(self, segment: Segment) -> None:
        """The log goes on in a new active segment."""
        assert segment.base_offset > self._base_offsets[-1]
        segment.previous = self._segments[-1]
        self._segments.append(segment)
        self._base_offsets.append(segment.base_offset)

    def drop_before(self, offset: int, may_go: Callable[[Segment], bool]) -> list[Segment]:
        """Take out the segments that lie wholly before ``offset``, as long as they may go; never the active one."""
        dropped = []
        while len(self._segments) > 1 and self._base_offsets[1] <= offset and may_go(self._segments[0]):
            dropped.append(self._segments.pop(0))
            self._base_offsets.pop(0)
            self._read_starts.clear()
            self._segments[0].previous = None
        return dropped

    def replace(self, old: Sequence[Segment], new: Segment) -> None:
        """Replace ``old``, which are neighbors, by ``new``; the active segment is never among them."""
        first = self._base_offsets.index(old[0].base_offset)
        slots = slice(first, first + len(old))
        assert self._segments[slots] == list(old)
        assert first + len(old) < len(self._segments)
        assert new.base_offset == old[0].base_offset
        new.previous, self._segments[slots.stop].previous = old[0].previous, new
        self._segments[slots] = [new]
        self._base_offsets[slots] = [new.base_offset]
        self._read_starts.clear()

    # Reading

    def remember(self, offset: int, place: LogPlace) -> None:
        """Reading ``offset`` will begin at ``place``: readers that are at the end will ask for it next."""
        self._read_starts[offset] = place
        if len(self._read_starts) > _READ_STARTS_KEPT:
            del self._read_starts[next(iter(self._read_starts))]

    def find(self, offset: int) -> LogPlace:
        """The place where reading from ``offset`` begins: its batch or, if it is in a gap, the next batch.

        Raises CorruptBatchError when the place is damaged.
        """
        slot = max(0, bisect_right(self._base_offsets, offset) - 1)
        for segment in self._segments[slot:]:
            place = segment.locate(offset)
            if place is not None:
                return LogPlace(segment, place.file_position)
        return self.end

    def read(
        self, offset: int, max_bytes: int, end: LogPlace, *, minimum_one: bool
    ) -> tuple[list[memoryview], LogPlace]:
        """Whole batches from ``offset`` on, up to ``end``, across segments, as long as there is room and no damage.

        And where they end.
        """
        segment, file_position = self._read_starts.get(offset) or self.find(offset)
        buffers: list[memoryview] = []
        room = max_bytes
        while segment.base_offset <= end.segment.base_offset:
            segment_end = end.file_position if segment is end.segment else segment.size_bytes
            if file_position < segment_end:
                try:
                    data = segment.read(file_position, room, segment_end, minimum_one=minimum_one and not buffers)
                except (PiecesMissingError, StorageError):
                    if buffers:
                        break  # the next read begins there, and asks for them, or reports it
                    raise
                except CorruptBatchError:
                    if buffers:
                        break  # the next read begins there, and reports it
                    place = segment.locate(offset, prove=True)
                    if place is None or not file_position < place.file_position < segment_end:
                        raise
                    file_position = place.file_position  # a rotten header had led to the place before
                    data = segment.read(file_position, room, segment_end, minimum_one=minimum_one)
                if data:
                    buffers.append(data)
                room -= len(data)
                file_position += len(data)
            if file_position < segment_end or segment is end.segment or room <= 0 or not segment.is_whole():
                break
            segment, file_position = self._segments[bisect_right(self._base_offsets, segment.base_offset)], 0
        return buffers, LogPlace(segment, file_position)

    def next_proven(self, offset: int) -> int | None:
        """The base offset of the first proven batch that begins after ``offset``, which is in damage; None without."""
        for segment in self._segments[max(0, bisect_right(self._base_offsets, offset) - 1) :]:
            start = segment.indexes().offsets.lookup(max(offset, segment.base_offset))
            for place in segment.walk_proving(start):
                if place.header.base_offset > offset:
                    return place.header.base_offset
        return None

    def aborted_transactions(self, offset: int, end: LogPlace) -> list[AbortedTransaction]:
        """The aborted transactions that reach into what lies from ``offset`` to ``end``, all of which have ended.

        Their markers may lie in later segments: it looks on as long as a transaction is open that began before the end.
        """
        end_offset = end.segment.indexes().bound_after(end.file_position)
        found: list[AbortedTransaction] = []
        for segment in self._segments[max(0, bisect_right(self._base_offsets, offset) - 1) :]:
            indexes = segment.indexes()
            found += indexes.aborted.find(offset, end_offset)
            first_open = indexes.open_transactions.first_offset
            if segment.base_offset >= end.segment.base_offset and (first_open is None or first_open >= end_offset):
                break
        return sorted(found, key=lambda each: each.first_offset)


def link(segments: Sequence[Segment]) -> None:
    """Let each know the one before it."""
    for previous, segment in pairwise((None, *segments)):
        assert segment is not None
        segment.previous = previous
