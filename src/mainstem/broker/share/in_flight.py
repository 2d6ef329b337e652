"""The in-flight records of one share partition: their states, holders and delivery counts.

    AVAILABLE ──acquire──► ACQUIRED ──accept──────────────────► ACKNOWLEDGED
        ▲                    │  └────reject, gap──────────────► ARCHIVED
        └──release, time-out─┘───────the same, at the limit of deliveries──┘

In a group with dead letters a record is REJECTED or EXHAUSTED before it is archived, until its letter is durable.

Offsets of one state are kept in runs. Invariants, asserted where they could break:

1. The runs lie end to end and cover ``[start_offset, end_offset)``. Offsets before it need no delivery; offsets
   after it were never examined. The first run is not terminal, else the start offset would be past it.
2. The start offset never goes back, and a terminal state is never left.
3. Exactly the acquired runs have a member, and a deadline.

Immutable values without I/O; a change makes a new one.
"""

from __future__ import annotations

import enum
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from mainstem.broker.coordinator.timers import NEVER

UNKNOWN_BATCH: Final = -1
"""The batch of offsets that were acquired before a restart: it is not written."""


class RecordState(enum.IntEnum):
    """The states, by the numbers that Kafka writes. Those in memory alone end with the process.

    REJECTED (by its member) and EXHAUSTED (at the limit of deliveries) wait for their dead letters; Kafka's ARCHIVING.
    """

    AVAILABLE = 0
    ACQUIRED = 1
    ACKNOWLEDGED = 2
    REJECTED = 3
    ARCHIVED = 4
    EXHAUSTED = 5

    @property
    def is_terminal(self) -> bool:
        """Whether a record in this state is never delivered again."""
        return self is RecordState.ACKNOWLEDGED or self is RecordState.ARCHIVED

    @property
    def awaits_letter(self) -> bool:
        """Whether a record in this state is archived when its dead letter is written."""
        return self is RecordState.REJECTED or self is RecordState.EXHAUSTED

    @property
    def written(self) -> RecordState:
        """The state as the log keeps it: AVAILABLE for those in memory alone."""
        return RecordState.AVAILABLE if self is RecordState.ACQUIRED or self.awaits_letter else self


_AVAILABLE: Final = RecordState.AVAILABLE
_ACQUIRED: Final = RecordState.ACQUIRED


class Run(NamedTuple):
    """Offsets ``first`` to ``last``, all in one state. ``deadline_s`` is monotonic seconds, when the lock ends.

    ``batch`` is the offset at which the in-flight batch begins that they belong to, as in Kafka: what one member first
    acquired at once. Such a batch stays a unit when its records are delivered again.
    """

    first: int
    last: int
    state: RecordState
    delivery_count: int
    member_id: str = ""
    deadline_s: float = NEVER
    batch: int = UNKNOWN_BATCH

    @property
    def size(self) -> int:
        return self.last - self.first + 1

    def cut(self, first: int, last: int) -> Run:
        """The part of it that lies in ``first`` to ``last``."""
        return self._replace(first=max(self.first, first), last=min(self.last, last))

    def to(self, state: RecordState) -> Run:
        """The same offsets in another state, without a holder."""
        return Run(self.first, self.last, state, self.delivery_count, batch=self.batch)

    def follows(self, before: Run) -> bool:
        """Whether it goes on where ``before`` ends, and differs in nothing else."""
        return before.last + 1 == self.first and before[2:] == self[2:]


@dataclass(frozen=True, slots=True)
class InFlight:
    """The state of a share partition. ``start_offset`` is Kafka's share-partition start offset (SPSO)."""

    start_offset: int
    runs: tuple[Run, ...] = ()

    @property
    def end_offset(self) -> int:
        """The first offset that was never looked at."""
        return self.runs[-1].last + 1 if self.runs else self.start_offset

    @property
    def size(self) -> int:
        """The number of offsets in flight."""
        return self.end_offset - self.start_offset

    @property
    def delivery_complete_count(self) -> int:
        """The number of offsets from the start offset on that need no further delivery."""
        return sum(run.size for run in self.runs if run.state.is_terminal)

    @property
    def next_fetch_offset(self) -> int:
        """The first offset that may be acquired, now or when there is a record at it."""
        return next((run.first for run in self.runs if run.state is _AVAILABLE), self.end_offset)

    @property
    def next_deadline_s(self) -> float:
        """When the first of the locks ends; infinity when nothing is held."""
        return min((run.deadline_s for run in self.runs if run.state is _ACQUIRED), default=NEVER)

    def within(self, first: int, last: int) -> Iterator[Run]:
        """The runs, or parts of them, that lie in ``first`` to ``last``."""
        for index in range(max(0, self._index(first)), len(self.runs)):
            run = self.runs[index]
            if run.first > last:
                return
            if run.last >= first:
                yield run.cut(first, last)

    def _index(self, offset: int) -> int:
        """The index of the last run that begins at or before ``offset``; -1 when there is none."""
        return bisect_right(self.runs, offset, key=lambda run: run.first) - 1

    def applied(self, changes: Sequence[Run], start_offset: int = -1) -> InFlight:
        """The state after ``changes``, which are ordered and do not overlap, and after a move of the log's start.

        Changes of offsets before the start offset have no effect. Offsets that changes past the end skip become
        available: as far as is known, they were never examined.
        """
        runs: list[Run] = []
        position = 0  # the index of the first run of the old state that is not in ``runs`` yet
        offset = self.start_offset  # how far ``runs`` goes
        for change in changes:
            if change.last < offset:
                continue
            position = self._keep(runs, position, offset, change.first - 1)
            offset = runs[-1].last + 1 if runs else self.start_offset
            if change.first > offset:
                _add(runs, Run(offset, change.first - 1, _AVAILABLE, 0))
            _add(runs, change.cut(max(offset, change.first), change.last))
            offset = change.last + 1
            while position < len(self.runs) and self.runs[position].last < offset:
                position += 1
        self._keep(runs, position, offset, self.end_offset - 1)
        return _trimmed(runs, max(self.start_offset, start_offset))

    def _keep(self, runs: list[Run], position: int, first: int, last: int) -> int:
        """Copy the old state of ``first`` to ``last``. Returns where in the old runs that ends."""
        if last < first:
            return position
        while position < len(self.runs) and self.runs[position].first <= last:
            run = self.runs[position]
            if run.last >= first:
                _add(runs, run.cut(first, last))
            if run.last > last:
                break
            position += 1
        return position

    def written(self) -> InFlight:
        """The state as the log keeps it: what is in memory alone is available, with the delivery counted."""
        runs: list[Run] = []
        for run in self.runs:
            known = run if run.state.written is run.state else run.to(run.state.written)
            _add(runs, known._replace(batch=UNKNOWN_BATCH))
        return InFlight(self.start_offset, tuple(runs))

    def check(self) -> None:
        """Assert the invariants."""
        offset = self.start_offset
        for run in self.runs:
            assert run.first == offset, "the runs lie end to end"
            assert run.last >= run.first
            is_acquired = run.state is _ACQUIRED
            assert is_acquired == bool(run.member_id) == (run.deadline_s != NEVER), "who acquired it holds it"
            offset = run.last + 1
        assert not self.runs or not self.runs[0].state.is_terminal, "the start offset is past what is done"


def _add(runs: list[Run], run: Run) -> None:
    """Append a run, as a part of the one before it if it can be."""
    if runs and run.follows(runs[-1]):
        runs[-1] = runs[-1]._replace(last=run.last)
    else:
        runs.append(run)


def _trimmed(runs: Iterable[Run], start_offset: int) -> InFlight:
    """The runs from the start offset on; the start offset moves past terminal runs at the front."""
    left: list[Run] = []
    for run in runs:
        if not left and (run.last < start_offset or run.state.is_terminal):
            start_offset = max(start_offset, run.last + 1)
        else:
            left.append(run.cut(start_offset, run.last))
    return InFlight(start_offset, tuple(left))
