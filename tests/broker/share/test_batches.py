"""Which batches of a log a share group may have, and which bytes it is given."""

from __future__ import annotations

from mainstem.broker.share.acquisition import Acquired
from mainstem.broker.share.batches import holding, read_batches
from mainstem.record.constants import ControlType
from mainstem.record.reader import AbortedTransaction
from mainstem.record.writer import NewRecord, ProducerStamp, build_batch, build_control_batch


def batch(base: int, count: int, producer: int | None = None) -> bytes:
    stamp = None if producer is None else ProducerStamp(producer, 0, 0, is_transactional=True)
    return build_batch([NewRecord(None, b"v", (), 0)] * count, base_offset=base, producer=stamp)


def marker(base: int, producer: int, control_type: ControlType) -> bytes:
    return build_control_batch(control_type, producer_id=producer, producer_epoch=0, timestamp_ms=0, base_offset=base)


def deliverable(*batches: bytes, aborted: tuple[AbortedTransaction, ...] = ()) -> list[int]:
    """The base offsets of the batches that members may have."""
    found = read_batches([memoryview(b"".join(batches))], aborted)
    return [each.extent.first for each in found if each.extent.deliverable]


def test_markers_are_for_nobody() -> None:
    log = (batch(0, 2, producer=1), marker(2, 1, ControlType.COMMIT), batch(3, 1))
    assert deliverable(*log) == [0, 3]


def test_only_what_was_aborted_is_left_out_of_what_is_committed() -> None:
    log = (
        batch(0, 1, producer=1),
        batch(1, 1, producer=2),
        batch(2, 1),
        marker(3, 1, ControlType.ABORT),
        batch(4, 1, producer=1),
        marker(5, 2, ControlType.COMMIT),
        marker(6, 1, ControlType.COMMIT),
    )
    assert deliverable(*log, aborted=(AbortedTransaction(1, 0),)) == [1, 2, 4]
    assert deliverable(*log) == [0, 1, 2, 4]


def test_a_transaction_that_began_before_the_read_is_left_out_too() -> None:
    log = (batch(10, 1, producer=1), marker(11, 1, ControlType.ABORT), batch(12, 1, producer=1))
    assert deliverable(*log, aborted=(AbortedTransaction(1, 3),)) == [12]


def test_the_bytes_are_those_of_the_batches_that_hold_something() -> None:
    parts = [batch(0, 5), batch(5, 5), batch(10, 5), batch(20, 5)]
    batches = read_batches([memoryview(parts[0] + parts[1]), memoryview(parts[2] + parts[3])])
    acquired = [Acquired(7, 7, 1), Acquired(9, 9, 1), Acquired(22, 30, 1)]
    assert [bytes(data) for data in holding(batches, acquired)] == [parts[1], parts[3]]
    assert holding(batches, [Acquired(15, 19, 1)]) == []
