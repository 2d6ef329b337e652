"""What the log knows of its idempotent producers: who may write what next, and which batches are repeats.

Per producer id: its epoch and its last five batches. A batch is accepted when it follows the last one without a gap
(sequences wrap from 2**31 - 1 to 0), is recognised as a repeat when it is one of the five, and is refused otherwise; an
older epoch is fenced. A producer that is not known may begin anywhere: its earlier records may have been deleted.

Invariant: the state is exactly what replaying the log's batch headers up to ``end_offset`` gives, producers that have
expired left out. Pure data; owned by one partition log.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import NamedTuple

from mainstem.errors import InvalidProducerEpochError, OutOfOrderSequenceError
from mainstem.record.constants import INT32_MAX, NO_PRODUCER_EPOCH, NO_SEQUENCE, NO_TIMESTAMP
from mainstem.record.header import BatchHeader

BATCHES_KEPT = 5
"""As many as a producer may have in flight: any of them may be sent again."""


class BatchMetadata(NamedTuple):
    """One batch that a producer has written."""

    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp_ms: int

    @property
    def base_sequence(self) -> int:
        return (self.last_sequence - self.offset_delta) & INT32_MAX

    @property
    def base_offset(self) -> int:
        return self.last_offset - self.offset_delta


class ProducerEntry:
    """One producer. ``transaction_first_offset`` is where its open transaction began, -1 when it has none."""

    __slots__ = (
        "batches",
        "coordinator_epoch",
        "epoch",
        "last_timestamp_ms",
        "producer_id",
        "transaction_first_offset",
    )

    def __init__(self, producer_id: int, epoch: int = NO_PRODUCER_EPOCH) -> None:
        self.producer_id = producer_id
        self.epoch = epoch
        self.batches: deque[BatchMetadata] = deque(maxlen=BATCHES_KEPT)
        self.last_timestamp_ms = NO_TIMESTAMP
        self.coordinator_epoch = -1
        self.transaction_first_offset = -1

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    def find(self, header: BatchHeader) -> BatchMetadata | None:
        """The batch among the last ones that ``header`` repeats."""
        if header.producer_epoch != self.epoch:
            return None
        for batch in self.batches:
            if batch.base_sequence == header.base_sequence and batch.last_sequence == header.last_sequence:
                return batch
        return None


class ProducerState:
    """All producers of one partition, as of ``end_offset``."""

    def __init__(self, entries: Iterable[ProducerEntry] = (), end_offset: int = 0) -> None:
        self._entries = {entry.producer_id: entry for entry in entries}
        self.end_offset = end_offset

    def __len__(self) -> int:
        return len(self._entries)

    def entries(self) -> list[ProducerEntry]:
        """All producers, by id."""
        return [self._entries[producer_id] for producer_id in sorted(self._entries)]

    def find_duplicate(self, header: BatchHeader) -> BatchMetadata | None:
        """The batch that was already appended, if ``header`` is a repeat of it."""
        entry = self._entries.get(header.producer_id)
        return entry.find(header) if entry is not None else None

    def check(self, headers: Iterable[BatchHeader]) -> None:
        """Prove that these batches, in this order, may follow what is there.

        Raises OutOfOrderSequenceError, InvalidProducerEpochError.
        """
        expected: dict[int, tuple[int, int]] = {}
        for header in headers:
            if header.producer_id < 0:
                continue
            epoch, last_sequence = expected.get(header.producer_id) or self._last(header.producer_id)
            _check_one(header, epoch, last_sequence)
            expected[header.producer_id] = (header.producer_epoch, header.last_sequence)

    def _last(self, producer_id: int) -> tuple[int, int]:
        entry = self._entries.get(producer_id)
        return (entry.epoch, entry.last_sequence) if entry is not None else (NO_PRODUCER_EPOCH, NO_SEQUENCE)

    def update(self, header: BatchHeader) -> None:
        """Take in a batch that is in the log (header with its final offset), checked or replayed."""
        self.end_offset = header.next_offset
        if header.producer_id < 0 or header.is_control:
            return
        entry = self._entries.get(header.producer_id)
        if entry is None or entry.epoch != header.producer_epoch:
            entry = self._entries[header.producer_id] = ProducerEntry(header.producer_id, header.producer_epoch)
        entry.batches.append(
            BatchMetadata(header.last_sequence, header.last_offset, header.last_offset_delta, header.max_timestamp)
        )
        entry.last_timestamp_ms = header.max_timestamp

    def expire(self, before_ms: int) -> None:
        """Forget producers whose last record is older than ``before_ms``; one with an open transaction stays."""
        expired = [
            entry.producer_id
            for entry in self._entries.values()
            if entry.last_timestamp_ms < before_ms and entry.transaction_first_offset < 0
        ]
        for producer_id in expired:
            del self._entries[producer_id]


def _check_one(header: BatchHeader, epoch: int, last_sequence: int) -> None:
    if epoch == NO_PRODUCER_EPOCH:
        return
    if header.producer_epoch < epoch:
        raise InvalidProducerEpochError(
            f"producer {header.producer_id}: epoch {header.producer_epoch} is fenced, {epoch} has written since"
        )
    next_sequence = 0 if header.producer_epoch > epoch else (last_sequence + 1) & INT32_MAX
    if header.base_sequence != next_sequence:
        raise OutOfOrderSequenceError(
            f"producer {header.producer_id}, epoch {header.producer_epoch}: sequence {header.base_sequence}, "
            f"but {next_sequence} comes next"
        )
