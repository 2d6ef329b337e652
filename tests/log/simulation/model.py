"""What a partition must hold and answer, in the simplest words: a list of batches and a few offsets. No I/O.

``keep`` is the contract of a start: which prefix of what was appended it may come back with. All other answers are
worked out anew from the list each time they are asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from mainstem.record.constants import ControlType
from mainstem.record.header import iter_headers
from mainstem.record.reader import read_end_marker, read_records


class Batch(NamedTuple):
    """A record batch, or a transaction's marker, which has no values, and of which alone ``is_commit`` is not None.

    ``timestamp_ms`` is the first record's; each later one is a millisecond after the one before.
    """

    base_offset: int
    values: tuple[bytes, ...]
    timestamp_ms: int
    producer_id: int = -1
    epoch: int = -1
    base_sequence: int = -1
    is_transactional: bool = False
    is_commit: bool | None = None
    coordinator_epoch: int = -1

    @property
    def next_offset(self) -> int:
        return self.base_offset + (len(self.values) if self.is_commit is None else 1)

    @property
    def last_sequence(self) -> int:
        return self.base_sequence + len(self.values) - 1


class Transaction(NamedTuple):
    """``end`` is its marker's offset, None while it is open."""

    producer_id: int
    first_offset: int
    end: int | None
    is_commit: bool | None


class Producer(NamedTuple):
    """What the log knows of a producer: its epoch, its last batches in it, and where its open transaction began."""

    epoch: int
    batches: tuple[Batch, ...]
    open_since: int | None
    coordinator_epoch: int
    last_offset: int

    @property
    def next_sequence(self) -> int:
        return self.batches[-1].last_sequence + 1 if self.batches else 0


def parse(buffers: Iterable[memoryview]) -> list[Batch]:
    """The batches that a read returned."""
    return [batch for buffer in buffers for batch in _parse_one(buffer)]


def _parse_one(buffer: memoryview) -> Iterator[Batch]:
    for at, header in iter_headers(buffer):
        records = read_records(memoryview(buffer)[at : at + header.size_bytes])
        is_commit, coordinator_epoch = None, -1
        values: tuple[bytes, ...] = ()
        if header.is_control:
            marker = read_end_marker(memoryview(buffer)[at : at + header.size_bytes])
            assert marker is not None
            is_commit, coordinator_epoch = marker.control_type is ControlType.COMMIT, marker.coordinator_epoch
        else:
            values = tuple(record.value or b"" for record in records)
        yield Batch(
            header.base_offset,
            values,
            header.base_timestamp,
            header.producer_id,
            header.producer_epoch,
            header.base_sequence,
            header.is_transactional,
            is_commit,
            coordinator_epoch,
        )


class Model:
    """One partition. ``durable`` is what a power cut must leave, ``visible`` the high watermark.

    Up to ``checkpointed`` a start knows it, and takes damage for rot and not for a torn tail.
    """

    def __init__(self) -> None:
        self.batches: list[Batch] = []
        self.log_end = self.visible = self.durable = self.checkpointed = 0
        self.log_start = self.durable_log_start = 0
        self.highest_end = 0
        self.in_flight: Batch | None = None

    def copy(self) -> Model:
        """As it is now; batches are never changed."""
        twin = Model()
        twin.__dict__.update(self.__dict__)
        twin.batches = list(self.batches)
        return twin

    def append(self, batch: Batch) -> None:
        """It was appended at the log end. Until then it is ``in_flight``: a start may come back with it, or not."""
        self.in_flight = None
        assert batch.base_offset == self.log_end, f"appended at {batch.base_offset}, the log ended at {self.log_end}"
        self.batches.append(batch)
        self.log_end = batch.next_offset
        self.highest_end = max(self.highest_end, self.log_end)

    # A start

    def keep(self, found: Sequence[Batch], log_start: int, log_end: int, must_keep: int) -> None:
        """A start has come back with these batches: all up to ``must_keep``, and of the rest the first ones or none."""
        if self.in_flight is not None:
            self.append(self.in_flight)
        low = min(self.durable_log_start, log_end)
        assert low <= log_start <= max(self.log_start, low), f"log start {log_start}"
        kept = [batch for batch in self.batches if batch.next_offset > log_start]
        assert list(found) == kept[: len(found)], "other batches than those that were appended"
        end = found[-1].next_offset if found else log_start
        left = [batch for batch in kept[len(found) :] if batch.next_offset <= must_keep]
        assert left == [], f"lost: {left[0]}"
        assert end <= log_end <= self.highest_end, f"log end {log_end}, behind {end}"
        self.batches = [batch for batch in self.batches if batch.next_offset <= max(end, log_start)]
        self.log_end = self.visible = self.durable = log_end
        self.log_start = self.durable_log_start = log_start
        self.highest_end = log_end

    # Transactions and producers

    def transactions(self, end: int) -> list[Transaction]:
        """All of them, as the batches before ``end`` tell."""
        open_now: dict[int, Transaction] = {}
        done = []
        for batch in self.batches:
            if batch.base_offset >= end or not batch.is_transactional:
                continue
            known = open_now.get(batch.producer_id)
            if batch.is_commit is None:
                first = batch.base_offset if known is None else known.first_offset
                open_now[batch.producer_id] = Transaction(batch.producer_id, first, None, None)
            elif known is not None:
                done.append(known._replace(end=batch.base_offset, is_commit=batch.is_commit))
                del open_now[batch.producer_id]
        return done + list(open_now.values())

    def last_stable_bounds(self) -> tuple[int, int]:
        """The least and the greatest last stable offset that are right.

        They differ only where a transaction began before the log start: a start may then know its first record from
        there on alone, or nothing of it.
        """
        undecided = [each for each in self.transactions(self.visible) if each.end is None]
        low = min((max(each.first_offset, self.log_start) for each in undecided), default=self.visible)
        left = [max(data[0].base_offset, self.log_start) for data in map(self._data_of, undecided) if data]
        return min(low, self.visible), min([*left, self.visible])

    def _data_of(self, transaction: Transaction) -> list[Batch]:
        return [
            batch
            for batch in self.batches
            if batch.producer_id == transaction.producer_id
            and batch.is_commit is None
            and batch.is_transactional
            and batch.base_offset >= transaction.first_offset
            and batch.next_offset > self.log_start
        ]

    def committed_values(self, start: int, end: int) -> list[bytes]:
        """The values that a reader of committed records gets of [start, end): of whole batches."""
        aborted = [each for each in self.transactions(self.visible) if each.is_commit is False]
        found: list[bytes] = []
        for batch in self.batches:
            if batch.next_offset <= start or batch.next_offset > end or batch.is_commit is not None:
                continue
            is_aborted = batch.is_transactional and any(
                each.producer_id == batch.producer_id and each.first_offset <= batch.base_offset < (each.end or 0)
                for each in aborted
            )
            if not is_aborted:
                found += batch.values[max(0, start - batch.base_offset) :]
        return found

    def producer(self, producer_id: int) -> Producer:
        """What the log knows of a producer; more than it knows, where that lies before the log start."""
        batches: list[Batch] = []
        epoch, coordinator_epoch, last_offset = -1, -1, -1
        open_since = None
        for batch in self.batches:
            if batch.producer_id != producer_id:
                continue
            if batch.epoch != epoch:
                epoch, batches = batch.epoch, []
            last_offset = batch.next_offset - 1
            if batch.is_commit is not None:
                open_since, coordinator_epoch = None, batch.coordinator_epoch
                continue
            batches.append(batch)
            if batch.is_transactional and open_since is None:
                open_since = batch.base_offset
        return Producer(epoch, tuple(batches), open_since, coordinator_epoch, last_offset)

    def first_at_or_after(self, timestamp_ms: int) -> int | None:
        """The offset of the first visible record with at least this timestamp."""
        for batch in self.batches:
            for at in range(batch.next_offset - batch.base_offset):
                offset = batch.base_offset + at
                if batch.timestamp_ms + at >= timestamp_ms and self.log_start <= offset < self.visible:
                    return offset
        return None
