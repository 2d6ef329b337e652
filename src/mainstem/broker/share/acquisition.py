"""The steps of a share partition: acquire, acknowledge, release, and its time-outs.

Each step looks at an ``InFlight`` and says which runs change; the caller writes them and applies them. No I/O and no
clock: the time is given. The rules are Kafka's (KIP-932, KIP-1206 for the modes, KIP-1222 for renewal), down to how
records that fail again and again are taken apart, so that one of them does not spoil its neighbors.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from mainstem.broker.error_codes import refusal
from mainstem.broker.share.in_flight import UNKNOWN_BATCH, InFlight, RecordState, Run
from mainstem.protocol.errors import ErrorCode

_AVAILABLE: Final = RecordState.AVAILABLE
_ACQUIRED: Final = RecordState.ACQUIRED
_ARCHIVED: Final = RecordState.ARCHIVED


class AcquireMode(enum.IntEnum):
    """The meaning of a fetch's limit of records: whole batches, which may be a few more, or never more."""

    BATCH_OPTIMIZED = 0
    RECORD_LIMIT = 1


class AcknowledgeType(enum.IntEnum):
    """A member's acknowledgement of a record that it holds. GAP: the offset has no record."""

    GAP = 0
    ACCEPT = 1
    RELEASE = 2
    REJECT = 3
    RENEW = 4


@dataclass(frozen=True, slots=True)
class AcquisitionLimits:
    """The limits from a group's configs."""

    deliveries_max: int = 5
    lock_duration_s: float = 30.0
    locks_max: int = 2000
    may_renew: bool = True
    reads_committed: bool = False
    has_letters: bool = False


class Extent(NamedTuple):
    """The offsets of a batch that was read. Markers and aborted batches are not ``deliverable``."""

    first: int
    last: int
    deliverable: bool = True


class AcquireParams(NamedTuple):
    """The member that acquires, how much it may acquire, and until when it may hold it."""

    member_id: str
    records_max: int
    batch_size: int
    mode: AcquireMode
    deadline_s: float


class Acknowledgement(NamedTuple):
    """A member's word on offsets ``first`` to ``last``: one type for all of them, or one for each."""

    first: int
    last: int
    types: Sequence[int]


class Acquired(NamedTuple):
    """Offsets that a member was given, all of them for the ``delivery_count``-th time."""

    first: int
    last: int
    delivery_count: int

    @property
    def size(self) -> int:
        return self.last - self.first + 1


# ---- acquire


@dataclass(slots=True)
class _Acquisition:
    """The progress of an acquire."""

    state: InFlight
    params: AcquireParams
    limits: AcquisitionLimits
    changes: list[Run] = field(default_factory=list)
    acquired: list[Acquired] = field(default_factory=list)
    count: int = 0
    end_offset: int = 0
    is_over: bool = False
    batch: int = UNKNOWN_BATCH
    new_from: int = UNKNOWN_BATCH

    @property
    def is_exact(self) -> bool:
        return self.params.mode is AcquireMode.RECORD_LIMIT

    def begin(self, batch: int) -> None:
        """Go on with records of this in-flight batch. One that is begun is taken whole, unless records are counted."""
        if self.is_exact or batch != self.batch or batch == UNKNOWN_BATCH:
            self.is_over = self.is_over or self.count >= self.params.records_max
        self.batch = batch

    def archive(self, run: Run) -> None:
        self.changes.append(run.to(_ARCHIVED))

    def take(self, run: Run) -> None:
        """Acquire these records: with those before them, if they are of one in-flight batch."""
        count = run.delivery_count + 1
        params, before = self.params, self.changes[-1] if self.changes else None
        acquired = Run(run.first, run.last, _ACQUIRED, count, params.member_id, params.deadline_s, run.batch)
        self.changes.append(acquired)
        self.count += run.size
        if before is not None and acquired.follows(before):
            self.acquired[-1] = self.acquired[-1]._replace(last=run.last)
        else:
            self.acquired.append(Acquired(run.first, run.last, count))

    def new_batch(self, first: int) -> int:
        """The in-flight batch of new records: that of the new ones before them until it is as large as asked for."""
        before = self.acquired[-1] if self.acquired else None
        if (
            before is None
            or before.last + 1 != first
            or self.changes[-1].batch != self.new_from
            or (not self.is_exact and before.size >= self.params.batch_size)
        ):
            self.new_from = first
        return self.new_from


def acquire(
    state: InFlight, fetch_offset: int, extents: Sequence[Extent], params: AcquireParams, limits: AcquisitionLimits
) -> tuple[list[Run], list[Acquired]]:
    """Acquire the available records of the batches that were read from ``fetch_offset`` on.

    Offsets between the batches have no records any more. Those that no member holds are archived, like batches that are
    not deliverable.
    """
    work = _Acquisition(state, params, limits, end_offset=state.end_offset)
    position = max(fetch_offset, state.start_offset)
    for extent in extents:
        if extent.last < position:
            continue
        if extent.first > position:
            _pass_over(work, position, extent.first - 1)
        first = max(position, extent.first)
        if extent.deliverable:
            _take_batch(work, first, extent.last)
        else:
            _pass_over(work, first, extent.last)
        if work.is_over:
            break
        position = extent.last + 1
    return work.changes, work.acquired


def _pass_over(work: _Acquisition, first: int, last: int) -> None:
    """Archive offsets without deliverable records."""
    if work.is_over:
        return
    for run in work.state.within(first, last):
        if run.state is _AVAILABLE:
            work.archive(run)
    if last >= work.end_offset:
        work.archive(Run(max(first, work.end_offset), last, _AVAILABLE, 0))
        work.end_offset = last + 1


def _take_batch(work: _Acquisition, first: int, last: int) -> None:
    for run in work.state.within(first, last):
        if run.state is _AVAILABLE:
            work.begin(run.batch)
            if work.is_over:
                return
            _take_again(work, run)
    if last >= work.end_offset:
        work.begin(UNKNOWN_BATCH)
    if not work.is_over and last >= work.end_offset:
        _take_new(work, max(first, work.end_offset), last)


def _take_again(work: _Acquisition, run: Run) -> None:
    """A run that was given back. The more often that happened, the fewer of it are tried at once."""
    limit = work.limits.deliveries_max
    if run.delivery_count >= limit:  # the limit was lowered since, or the process ended before its dead letter
        work.changes.append(run.to(_exhausted(work.limits)))
        return
    size = run.size
    threshold = max(2, (limit + 1) // 2)
    is_suspicious = run.delivery_count >= threshold or (limit > 2 and run.delivery_count == limit - 1)
    if is_suspicious:
        if work.count:
            work.is_over = True
            return
        is_last_try = limit > 2 and run.delivery_count == limit - 1
        size = 1 if is_last_try else max(1, size >> (run.delivery_count - threshold + 1))
    if work.is_exact:
        size = min(size, work.params.records_max - work.count)
    work.take(run.cut(run.first, run.first + size - 1))
    work.is_over = is_suspicious or size < run.size


def _take_new(work: _Acquisition, first: int, last: int) -> None:
    room = work.limits.locks_max - (work.end_offset - work.state.start_offset)
    if room <= 0:
        work.is_over = True
        return
    size = last - first + 1
    taken = min(size, room, work.params.records_max - work.count) if work.is_exact else size
    new = Run(first, last, _AVAILABLE, 0, batch=work.new_batch(first))
    work.take(new.cut(first, first + taken - 1))
    if taken < size:  # the rest of the batch is in flight, and for the next
        work.changes.append(new.cut(first + taken, last))
    work.end_offset = last + 1
    work.is_over = taken < size


# ---- acknowledge


def acknowledge(
    state: InFlight, member_id: str, batches: Sequence[Acknowledgement], limits: AcquisitionLimits, now_s: float
) -> list[Run]:
    """The changes of a member's acknowledgements, all of them or none.

    Acknowledgements of offsets before the start offset come too late and are ignored. Raises RemoteError:
    INVALID_REQUEST for an invalid request, INVALID_RECORD_STATE for a record that this member does not hold.
    """
    changes: list[Run] = []
    next_offset = 0
    for batch in batches:
        if batch.first < next_offset or batch.last < batch.first:
            raise refusal(ErrorCode.INVALID_REQUEST, "acknowledgement batches must be in order and not overlap")
        next_offset = batch.last + 1
        for first, last, type_ in _typed(batch, limits):
            if last < state.start_offset:
                continue
            if last >= state.end_offset:
                nothing_held = state.start_offset == state.end_offset
                code = ErrorCode.INVALID_RECORD_STATE if nothing_held else ErrorCode.INVALID_REQUEST
                raise refusal(code, f"offset {last} was never acquired")
            for run in state.within(first, last):
                if run.state is not _ACQUIRED or run.member_id != member_id:
                    raise refusal(ErrorCode.INVALID_RECORD_STATE, f"offset {run.first} is not held by {member_id[:64]}")
                changes.append(_acknowledged(run, type_, limits, now_s))
    return changes


def _typed(batch: Acknowledgement, limits: AcquisitionLimits) -> Iterator[tuple[int, int, AcknowledgeType]]:
    """The offsets of a batch, those of one type in a row together. Raises RemoteError."""
    types = list(batch.types)
    if not types or (len(types) > 1 and len(types) != batch.last - batch.first + 1):
        raise refusal(ErrorCode.INVALID_REQUEST, "give one acknowledge type, or one for each offset")
    known = [_type(number, limits) for number in types]
    if len(known) == 1:
        yield batch.first, batch.last, known[0]
        return
    begin = 0
    for index in range(1, len(known) + 1):
        if index == len(known) or known[index] is not known[begin]:
            yield batch.first + begin, batch.first + index - 1, known[begin]
            begin = index


def _type(number: int, limits: AcquisitionLimits) -> AcknowledgeType:
    try:
        type_ = AcknowledgeType(number)
    except ValueError:
        raise refusal(ErrorCode.INVALID_REQUEST, f"there is no acknowledge type {number}") from None
    if type_ is AcknowledgeType.RENEW and not limits.may_renew:
        raise refusal(ErrorCode.INVALID_REQUEST, "this group's configs, or this request, do not allow renewal")
    return type_


def _acknowledged(run: Run, type_: AcknowledgeType, limits: AcquisitionLimits, now_s: float) -> Run:
    if type_ is AcknowledgeType.RENEW:
        return run._replace(deadline_s=now_s + limits.lock_duration_s)
    if type_ is AcknowledgeType.ACCEPT:
        return run.to(RecordState.ACKNOWLEDGED)
    if type_ is AcknowledgeType.RELEASE:
        return given_back(run, limits)
    is_rejected = type_ is AcknowledgeType.REJECT and limits.has_letters
    return run.to(RecordState.REJECTED if is_rejected else _ARCHIVED)


# ---- given back


def given_back(run: Run, limits: AcquisitionLimits) -> Run:
    """The run after its holder gave it back: available, or given up if it reached the limit of deliveries."""
    return run.to(_exhausted(limits) if run.delivery_count >= limits.deliveries_max else _AVAILABLE)


def _exhausted(limits: AcquisitionLimits) -> RecordState:
    return RecordState.EXHAUSTED if limits.has_letters else _ARCHIVED


def release_member(state: InFlight, member_id: str, limits: AcquisitionLimits) -> list[Run]:
    """Give back all that a member holds."""
    return [given_back(run, limits) for run in state.runs if run.state is _ACQUIRED and run.member_id == member_id]


def expire(state: InFlight, now_s: float, limits: AcquisitionLimits) -> list[Run]:
    """Give back what was held too long."""
    return [given_back(run, limits) for run in state.runs if run.deadline_s <= now_s]
