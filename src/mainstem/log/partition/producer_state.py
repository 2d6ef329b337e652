"""The log's state of its producers: the next sequence of each, which batches are repeats, which transactions are open.

Per producer id: its epoch and its last five batches. A batch is accepted when it follows the last one without a gap
(sequences wrap from 2**31 - 1 to 0), is recognised as a repeat when it is one of the five, and is refused otherwise; an
older epoch is fenced. An unknown producer may begin with any sequence: its earlier records may have been deleted.

A transaction opens with its producer's first transactional batch; until its marker, the producer's other batches are
refused. A marker with a higher epoch takes the producer there, and its sequences begin at 0 again. Markers of an older
producer epoch, or of an older transaction coordinator, are refused.

Readers see a transaction as open until its marker is below the high watermark (``decide``): until then a power cut may
remove the marker.

Invariant: the state is exactly what replaying the log's batches up to ``end_offset`` gives, producers that have expired
left out. Pure data; owned by one partition log.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Final, NamedTuple

from mainstem.errors import (
    InvalidProducerEpochError,
    InvalidTransactionStateError,
    OutOfOrderSequenceError,
    TransactionCoordinatorFencedError,
)
from mainstem.log.segments.transactions import EndedTransaction, OpenTransactions
from mainstem.record.constants import INT32_MAX, NO_PRODUCER_EPOCH, NO_SEQUENCE, NO_TIMESTAMP
from mainstem.record.header import BatchHeader
from mainstem.record.reader import EndMarker

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
    """One producer. ``transaction_first_offset`` is where its open transaction began, -1 when it has none.

    ``coordinator_epoch`` is the one of the last marker, -1 before the first. ``last_timestamp_ms`` is of its records,
    ``written_ms`` the log's clock at its last append, -1 where that is not known (after a replay).
    """

    __slots__ = (
        "batches",
        "coordinator_epoch",
        "epoch",
        "last_timestamp_ms",
        "producer_id",
        "transaction_first_offset",
        "written_ms",
    )

    def __init__(self, producer_id: int, epoch: int = NO_PRODUCER_EPOCH) -> None:
        self.producer_id = producer_id
        self.epoch = epoch
        self.batches: deque[BatchMetadata] = deque(maxlen=BATCHES_KEPT)
        self.last_timestamp_ms = NO_TIMESTAMP
        self.written_ms = NO_TIMESTAMP
        self.coordinator_epoch = -1
        self.transaction_first_offset = -1

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    def begin_epoch(self, epoch: int) -> None:
        """Go on in ``epoch``: in a new one sequences begin at 0, and no batch of the old one is a repeat any more."""
        if epoch != self.epoch:
            self.epoch = epoch
            self.batches.clear()

    def find(self, header: BatchHeader) -> BatchMetadata | None:
        """The batch among the last ones that ``header`` repeats."""
        if header.producer_epoch != self.epoch:
            return None
        for batch in self.batches:
            if batch.base_sequence == header.base_sequence and batch.last_sequence == header.last_sequence:
                return batch
        return None


class _Expected(NamedTuple):
    """The values that a producer's next batch is checked against."""

    epoch: int
    last_sequence: int
    has_open_transaction: bool


class ProducerState:
    """All producers of one partition, as of ``end_offset``."""

    def __init__(self, entries: Iterable[ProducerEntry] = (), end_offset: int = 0) -> None:
        self._entries = {entry.producer_id: entry for entry in entries}
        self.open_transactions = OpenTransactions(
            (entry.producer_id, entry.transaction_first_offset)
            for entry in self._entries.values()
            if entry.transaction_first_offset >= 0
        )
        self._undecided: deque[EndedTransaction] = deque()
        self.first_unstable_offset = self.open_transactions.first_offset
        self.end_offset = end_offset

    def __len__(self) -> int:
        return len(self._entries)

    def entries(self) -> list[ProducerEntry]:
        """All producers, by id."""
        return [self._entries[producer_id] for producer_id in sorted(self._entries)]

    # Before an append

    def find_duplicate(self, header: BatchHeader) -> BatchMetadata | None:
        """The batch that was already appended, if ``header`` is a repeat of it."""
        entry = self._entries.get(header.producer_id)
        return entry.find(header) if entry is not None else None

    def check(
        self, headers: Iterable[BatchHeader], *, checks_sequence: bool = True, begins_at_zero: bool = False
    ) -> None:
        """Prove that these batches, in this order, may follow what is there.

        With ``begins_at_zero`` a producer of which no batch is known here begins with sequence 0, as Kafka asks of
        producers with transactions of version 2 (KIP-890).

        Raises OutOfOrderSequenceError, InvalidProducerEpochError, InvalidTransactionStateError.
        """
        expected: dict[int, _Expected] = {}
        for header in headers:
            producer_id = header.producer_id
            if producer_id < 0:
                continue
            before = expected.get(producer_id) or self._expected(producer_id)
            _check_epoch(producer_id, header.producer_epoch, before.epoch)
            if checks_sequence:
                _check_sequence(header, before)
                if begins_at_zero and before.last_sequence == NO_SEQUENCE and header.base_sequence != 0:
                    raise OutOfOrderSequenceError(
                        f"producer {producer_id}: sequence {header.base_sequence}, but it is not known here and begins "
                        "with 0"
                    )
            if before.has_open_transaction and not header.is_transactional:
                raise InvalidTransactionStateError(
                    f"producer {producer_id} has a transaction open here: this batch is not part of it"
                )
            expected[producer_id] = _Expected(header.producer_epoch, header.last_sequence, header.is_transactional)

    def check_marker(
        self, producer_id: int, producer_epoch: int, coordinator_epoch: int, *, bumps_epoch: bool = False
    ) -> None:
        """Prove that a marker with these epochs may follow; with ``bumps_epoch``, one whose epoch is its own.

        Such a marker (KIP-890) has a greater epoch than the batches that it ends. One that was sent twice may come
        again, as long as nothing has begun since.
        Raises InvalidProducerEpochError, TransactionCoordinatorFencedError.
        """
        entry = self._entries.get(producer_id)
        if entry is None:
            return
        _check_epoch(producer_id, producer_epoch, entry.epoch)
        if bumps_epoch and producer_epoch == entry.epoch and entry.transaction_first_offset >= 0:
            raise InvalidProducerEpochError(
                f"producer {producer_id}: a marker of epoch {producer_epoch}, in which its transaction is still written"
            )
        if coordinator_epoch < entry.coordinator_epoch:
            raise TransactionCoordinatorFencedError(
                f"producer {producer_id}: coordinator epoch {coordinator_epoch} is fenced, {entry.coordinator_epoch} "
                "has written since"
            )

    def _expected(self, producer_id: int) -> _Expected:
        entry = self._entries.get(producer_id)
        if entry is None:
            return _UNKNOWN
        return _Expected(entry.epoch, entry.last_sequence, entry.transaction_first_offset >= 0)

    # What is in the log

    def update(self, header: BatchHeader, marker: EndMarker | None = None, *, written_ms: int = NO_TIMESTAMP) -> None:
        """Take in a batch that is in the log (header with its final offset), checked or replayed.

        ``marker`` is what a control batch holds; None for one that ends nothing. ``written_ms`` is the time of its
        append, for a batch that is not replayed.
        """
        self.end_offset = header.next_offset
        if header.producer_id < 0 or (header.is_control and marker is None):
            return
        entry = self._entries.get(header.producer_id)
        if entry is None:
            entry = self._entries[header.producer_id] = ProducerEntry(header.producer_id)
        entry.begin_epoch(header.producer_epoch)
        entry.last_timestamp_ms = header.max_timestamp
        entry.written_ms = written_ms
        if marker is None:
            entry.batches.append(
                BatchMetadata(header.last_sequence, header.last_offset, header.last_offset_delta, header.max_timestamp)
            )
        else:
            entry.coordinator_epoch = marker.coordinator_epoch
        if header.is_transactional:
            self._update_transaction(entry, header, marker)

    def replay(self, header: BatchHeader, marker: EndMarker | None) -> None:
        """As ``update``, of a batch that nothing will take back."""
        self.update(header, marker)
        self.decide(self.end_offset)

    def _update_transaction(self, entry: ProducerEntry, header: BatchHeader, marker: EndMarker | None) -> None:
        ended = self.open_transactions.update(header, marker)
        first_offset = self.open_transactions.first_offset_of(entry.producer_id)
        entry.transaction_first_offset = -1 if first_offset is None else first_offset
        if ended is not None:
            self._undecided.append(ended)
        self._find_first_unstable()

    def restore_transactions(self, open_transactions: OpenTransactions) -> None:
        """Let these be the transactions that are open at ``end_offset``: markers before it could not be replayed."""
        self.open_transactions = open_transactions.copy()
        for entry in self._entries.values():
            first_offset = open_transactions.first_offset_of(entry.producer_id)
            entry.transaction_first_offset = -1 if first_offset is None else first_offset
        self._find_first_unstable()

    def decide(self, high_watermark: int) -> None:
        """Markers below the high watermark cannot be truncated: the transactions that they end are stable."""
        if self._undecided and self._undecided[0].last_offset < high_watermark:
            while self._undecided and self._undecided[0].last_offset < high_watermark:
                self._undecided.popleft()
            self._find_first_unstable()

    def _find_first_unstable(self) -> None:
        """The first offset of the oldest transaction that is open, or whose marker may still be truncated."""
        offsets = [ended.first_offset for ended in self._undecided]
        if self.open_transactions.first_offset is not None:
            offsets.append(self.open_transactions.first_offset)
        self.first_unstable_offset = min(offsets, default=None)

    def expire(self, now_ms: int, keep_ms: int) -> None:
        """Forget producers that have written nothing for ``keep_ms``; one with an open transaction stays.

        Deliberate: the log's clock counts, and Kafka goes by the time of the records (``producer.id.expiration.ms``):
        there, a producer of old records loses its state, and with it the recognition of repeats, every ten minutes.
        Where it is not known when a producer wrote, the time begins now.
        """
        for entry in list(self._entries.values()):
            if entry.written_ms < 0:
                entry.written_ms = now_ms
            elif now_ms - entry.written_ms >= keep_ms and entry.transaction_first_offset < 0:
                del self._entries[entry.producer_id]


_UNKNOWN: Final = _Expected(NO_PRODUCER_EPOCH, NO_SEQUENCE, False)


def _check_epoch(producer_id: int, epoch: int, epoch_before: int) -> None:
    if epoch < epoch_before:
        raise InvalidProducerEpochError(
            f"producer {producer_id}: epoch {epoch} is fenced, {epoch_before} has written since"
        )


def _check_sequence(header: BatchHeader, before: _Expected) -> None:
    if before.epoch == NO_PRODUCER_EPOCH:
        return
    next_sequence = 0 if header.producer_epoch > before.epoch else (before.last_sequence + 1) & INT32_MAX
    if header.base_sequence != next_sequence:
        raise OutOfOrderSequenceError(
            f"producer {header.producer_id}, epoch {header.producer_epoch}: sequence {header.base_sequence}, "
            f"but {next_sequence} comes next"
        )
