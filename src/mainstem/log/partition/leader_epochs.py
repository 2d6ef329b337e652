"""Which leader epoch began at which offset: Kafka's ``leader-epoch-checkpoint``.

A reader that comes back with an older epoch asks where that one ended, and learns what it must forget. Epochs and start
offsets both rise strictly. Owned by one partition log. ``rebuild_epochs`` is for its recovery.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from mainstem.log.segments.segment import Segment

UNKNOWN = -1


class EpochEntry(NamedTuple):
    """``epoch`` wrote from ``start_offset`` on."""

    epoch: int
    start_offset: int


class EpochEndOffset(NamedTuple):
    """The end of the greatest epoch at or before the one asked for; (-1, -1) when there is none."""

    leader_epoch: int
    end_offset: int


class LeaderEpochs:
    """The entries of one partition, oldest first."""

    def __init__(self, entries: Iterable[EpochEntry] = ()) -> None:
        self._entries: list[EpochEntry] = []
        for entry in entries:
            self.assign(entry.epoch, entry.start_offset)

    @property
    def entries(self) -> tuple[EpochEntry, ...]:
        return tuple(self._entries)

    @property
    def latest(self) -> int:
        """The newest epoch that has written; -1 when none has."""
        return self._entries[-1].epoch if self._entries else UNKNOWN

    def assign(self, epoch: int, start_offset: int) -> bool:
        """Note that a batch of ``epoch`` starts at ``start_offset``; whether that is news."""
        if epoch <= self.latest:
            return False
        while self._entries and self._entries[-1].start_offset >= start_offset:
            self._entries.pop()
        self._entries.append(EpochEntry(epoch, start_offset))
        return True

    def end_offset_for(self, epoch: int, log_end_offset: int, current_epoch: int) -> EpochEndOffset:
        """The end of ``epoch``, or of the greatest earlier one that has written; before the first one, its begin.

        The rule is that of Kafka's OffsetForLeaderEpoch.
        """
        if epoch == current_epoch:
            return EpochEndOffset(epoch, log_end_offset)
        if epoch > current_epoch or epoch == UNKNOWN:
            return EpochEndOffset(UNKNOWN, UNKNOWN)
        slot = bisect_right(self._entries, epoch, key=lambda entry: entry.epoch)
        end = self._entries[slot].start_offset if slot < len(self._entries) else log_end_offset
        return EpochEndOffset(self._entries[slot - 1].epoch if slot else epoch, end)

    def truncate_end(self, offset: int) -> None:
        """Forget epochs that began at or after ``offset``."""
        while self._entries and self._entries[-1].start_offset >= offset:
            self._entries.pop()

    def truncate_start(self, offset: int) -> None:
        """The log begins at ``offset`` now: the epoch that wrote there begins there, older ones are forgotten."""
        slot = bisect_right(self._entries, offset, key=lambda entry: entry.start_offset)
        if slot > 0:
            self._entries[:slot] = [EpochEntry(self._entries[slot - 1].epoch, offset)]


def rebuild_epochs(
    entries: Sequence[EpochEntry] | None, segments: Sequence[Segment], offsets: tuple[int, int, int], epoch_max: int
) -> LeaderEpochs:
    """The epochs from the file's ``entries`` (None: it is damaged), and from the batches of the local ``segments``.

    The batches count where the entries do not reach from the first batch to the last. ``offsets`` are the log start,
    where the local segments begin if remote ones come before them (else 0), and the end of what is kept. A batch's
    epoch lies outside its checksum: one over ``epoch_max``, with which no node can have led, is ignored.
    """
    log_start, local_start, kept_end = offsets
    epochs = LeaderEpochs(entries or ())
    epochs.truncate_end(kept_end)
    last = next((segment for segment in reversed(segments) if segment.size_bytes), None)
    last_epoch = last.last_leader_epoch() if last is not None else epochs.latest
    is_behind = epochs.latest < last_epoch <= epoch_max
    is_wrong = entries is None or epochs.latest > epoch_max or _lacks_first_epoch(epochs, segments, log_start)
    if is_wrong:
        known = (entry for entry in entries or () if entry.start_offset < local_start and entry.epoch <= epoch_max)
        epochs = LeaderEpochs(known)
    if is_wrong or is_behind:
        for segment in segments:
            for epoch, start_offset in segment.leader_epochs(epoch_max):
                epochs.assign(epoch, start_offset)
    return epochs


def _lacks_first_epoch(epochs: LeaderEpochs, segments: Sequence[Segment], log_start: int) -> bool:
    """Whether the file has forgotten an epoch that the log holds again.

    It forgets with a delete-records, and the log start is durable a little later: a kill in between restores it.
    """
    if not epochs.entries or epochs.entries[0].start_offset <= log_start:
        return False
    start = max(log_start, segments[0].base_offset)
    places = (place for segment in segments for place in segment.walk_from(start))
    first = next(places, None)
    return first is not None and first.header.leader_epoch < epochs.entries[0].epoch
