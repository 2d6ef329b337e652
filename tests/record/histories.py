"""What a partition may hold after a life of its own: interleaved transactions, markers, gaps, batches that compaction
thinned out or emptied, every codec in the framings of other clients. Drawn by hypothesis, with the truth beside it.

The truth is made by construction (each batch knows the transaction that it was appended in) and by the plain reader,
so that it shares nothing with the native decoder.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from dataclasses import dataclass, field

import cramjam
from hypothesis import strategies as st

from mainstem.record.constants import Compression, ControlType
from mainstem.record.header import iter_headers, read_header
from mainstem.record.reader import DecodedRecord, read_records
from mainstem.record.writer import NewRecord, ProducerStamp, build_batch, build_control_batch, rebuild_batch
from tests.record.batches import CODECS, new_records, with_payload

PRODUCERS = (7, 8, 9)


@dataclass(slots=True)
class Transaction:
    """One of a producer's transactions; ``end`` is its marker's offset."""

    producer: int
    first_offset: int
    end: int = -1
    is_aborted: bool = False


@dataclass(slots=True)
class History:
    """The batches of a partition in order, each with its transaction if it was appended in one."""

    batches: list[tuple[bytes, Transaction | None]] = field(default_factory=list)
    transactions: list[Transaction] = field(default_factory=list)
    next_offset: int = 0

    def log(self, offset: int = 0) -> bytes:
        """What a fetch from ``offset`` gives: from the batch on that holds it, or comes after it."""
        return b"".join(batch for batch, _ in self.batches if read_header(batch).next_offset > offset)

    def aborted(self, offset: int = 0) -> list[tuple[int, int]]:
        """The aborted transactions that such a fetch is told of."""
        return [
            (each.producer, each.first_offset) for each in self.transactions if each.is_aborted and each.end >= offset
        ]

    def records(self, *, committed: bool) -> Iterator[tuple[DecodedRecord, bool]]:
        """The data records, each with whether its time is the log's; only those of no aborted transaction."""
        for batch, transaction in self.batches:
            header = read_header(batch)
            if header.is_control or (committed and transaction is not None and transaction.is_aborted):
                continue
            for record in read_records(batch):
                yield record, header.has_log_append_time


def foreign(codec: Compression, plain: bytes) -> bytes:
    """``plain`` as other clients than ours frame it."""
    if codec is Compression.GZIP:
        middle = len(plain) // 2
        return gzip.compress(plain[:middle]) + gzip.compress(plain[middle:])
    if codec is Compression.SNAPPY:
        return bytes(cramjam.snappy.compress_raw(plain))
    if codec is Compression.LZ4:
        return bytes(cramjam.lz4.compress(plain))
    return bytes(cramjam.zstd.compress(plain, 19))


@st.composite
def histories(draw: st.DrawFn) -> History:
    """Up to a dozen steps of up to three producers, all transactions ended."""
    history = History(next_offset=draw(st.integers(0, 2**40)))
    open_now: dict[int, Transaction] = {}
    for _ in range(draw(st.integers(1, 12))):
        step = draw(st.sampled_from(("data", "data", "transactional", "transactional", "end", "gap")))
        if step == "gap":
            history.next_offset += draw(st.integers(1, 5))
        elif step == "end" and open_now:
            _end(draw, history, open_now.pop(draw(st.sampled_from(sorted(open_now)))))
        else:
            _append(draw, history, open_now if step == "transactional" else None)
    for transaction in open_now.values():
        _end(draw, history, transaction)
    return history


def _append(draw: st.DrawFn, history: History, open_now: dict[int, Transaction] | None) -> None:
    """A batch in a transaction, or (without ``open_now``) outside of any, perhaps by the same producer."""
    transaction, producer = None, None
    if open_now is not None:
        number = draw(st.sampled_from(PRODUCERS))
        if number not in open_now:
            open_now[number] = Transaction(number, history.next_offset)
            history.transactions.append(open_now[number])
        transaction, producer = open_now[number], ProducerStamp(number, 0, 0, is_transactional=True)
    elif draw(st.booleans()):
        producer = ProducerStamp(draw(st.sampled_from(PRODUCERS)), 0, 0)
    rows = draw(st.lists(new_records, min_size=1, max_size=5))
    codec = draw(st.sampled_from(CODECS))
    time = draw(st.one_of(st.none(), st.integers(0, 2**42)))
    settings = {"base_offset": history.next_offset, "producer": producer, "log_append_time_ms": time}
    batch = build_batch(rows, compression=codec, **settings)  # type: ignore[arg-type]
    if codec is not Compression.NONE and draw(st.booleans()):
        plain = build_batch(rows, **settings)[61:]  # type: ignore[arg-type]
        batch = with_payload(batch, foreign(codec, plain))
    if draw(st.integers(0, 3)) == 0:
        batch = _compacted(draw, batch)
    history.batches.append((batch, transaction))
    history.next_offset = read_header(batch).next_offset


def _compacted(draw: st.DrawFn, batch: bytes) -> bytes:
    """The batch with some of its records, or none."""
    rows = [(r.offset, NewRecord(r.key, r.value, r.headers, r.timestamp_ms)) for r in read_records(batch)]
    return rebuild_batch(read_header(batch), [row for row in rows if draw(st.booleans())])


def _end(draw: st.DrawFn, history: History, transaction: Transaction) -> None:
    kind = draw(st.sampled_from(ControlType))
    transaction.end, transaction.is_aborted = history.next_offset, kind is ControlType.ABORT
    marker = build_control_batch(
        kind, producer_id=transaction.producer, producer_epoch=0, timestamp_ms=5, base_offset=history.next_offset
    )
    if kind is ControlType.COMMIT and draw(st.booleans()):
        marker = rebuild_batch(next(header for _, header in iter_headers(marker)), [])
    history.batches.append((marker, None))
    history.next_offset += 1
