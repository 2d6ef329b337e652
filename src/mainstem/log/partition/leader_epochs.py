"""Which leader epoch began at which offset: Kafka's ``leader-epoch-checkpoint``.

A reader that comes back with an older epoch asks where that one ended, and learns what it must forget. Epochs and start
offsets both rise strictly. Pure data with its text form; owned by one partition log.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from typing import NamedTuple

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
