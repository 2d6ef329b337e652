"""Which transactions are open, and the index of those that were aborted."""

from __future__ import annotations

from mainstem.log.segments.transaction_index import ENTRY_BYTES, TransactionIndex
from mainstem.log.segments.transactions import EndedTransaction, OpenTransactions
from mainstem.record.constants import ControlType
from mainstem.record.header import BatchHeader, read_header
from mainstem.record.reader import AbortedTransaction, EndMarker
from mainstem.record.writer import build_control_batch
from tests.log.support import NOW_MS, in_transaction, sent_by

ABORT = EndMarker(ControlType.ABORT, 0)
COMMIT = EndMarker(ControlType.COMMIT, 0)


def data(producer_id: int, offset: int) -> BatchHeader:
    return read_header(in_transaction(producer_id, 0, b"v"))._replace(base_offset=offset)


def control(producer_id: int, offset: int) -> BatchHeader:
    batch = build_control_batch(ControlType.ABORT, producer_id=producer_id, producer_epoch=0, timestamp_ms=NOW_MS)
    return read_header(batch)._replace(base_offset=offset)


def test_a_transaction_is_open_from_its_first_batch_to_its_marker() -> None:
    transactions = OpenTransactions()
    transactions.update(data(1, 10), None)
    transactions.update(data(1, 11), None)
    assert transactions.first_offset_of(1) == 10
    assert transactions.update(control(1, 12), ABORT) == EndedTransaction(1, 10, 12, is_aborted=True)
    assert transactions.first_offset is None


def test_the_oldest_open_one_is_known_also_when_another_ends() -> None:
    transactions = OpenTransactions([(3, 30), (1, 10), (2, 20)])
    assert transactions.first_offset == 10
    transactions.update(control(1, 40), COMMIT)
    assert transactions.first_offset == 20


def test_batches_outside_a_transaction_open_none() -> None:
    transactions = OpenTransactions()
    transactions.update(read_header(sent_by(1, 0, b"v")), None)
    assert len(transactions) == 0


def test_a_marker_of_a_producer_without_a_transaction_ends_nothing() -> None:
    assert OpenTransactions().update(control(1, 5), ABORT) is None


def test_an_emptied_control_batch_ends_nothing() -> None:
    transactions = OpenTransactions([(1, 10)])
    assert transactions.update(control(1, 12), None) is None
    assert transactions.first_offset == 10


def index_of(*ended: tuple[int, int, int, int]) -> TransactionIndex:
    index = TransactionIndex()
    for producer_id, first, last, last_stable in ended:
        index.append(EndedTransaction(producer_id, first, last, is_aborted=True), last_stable)
    return index


OVERLAPPING = ((1, 10, 20, 15), (2, 15, 25, 26), (1, 30, 40, 41), (3, 50, 60, 61))


def test_an_entry_is_laid_out_as_in_kafka() -> None:
    assert index_of((1, 2, 3, 4)).encode() == bytes(2) + b"".join(n.to_bytes(8, "big") for n in (1, 2, 3, 4))
    assert ENTRY_BYTES == 34


def test_what_was_written_is_read_back() -> None:
    index = index_of(*OVERLAPPING)
    assert TransactionIndex.decode(index.encode()).encode() == index.encode()
    assert index.encode(first_entry=3) == index.encode()[3 * ENTRY_BYTES :]


def test_the_transactions_that_reach_into_a_range_are_found() -> None:
    index = index_of(*OVERLAPPING)
    assert index.find(0, 10) == []
    assert index.find(0, 11) == [AbortedTransaction(1, 10)]
    assert index.find(18, 22) == [AbortedTransaction(1, 10), AbortedTransaction(2, 15)]
    assert index.find(21, 31) == [AbortedTransaction(2, 15), AbortedTransaction(1, 30)]
    assert index.find(61, 100) == []


def test_those_that_ended_behind_an_offset_are_dropped() -> None:
    index = index_of(*OVERLAPPING)
    index.truncate(40)
    assert len(index) == 2
