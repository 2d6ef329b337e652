from __future__ import annotations

import pytest

from mainstem.errors import (
    CorruptBatchError,
    InvalidRecordError,
    InvalidTimestampError,
    RecordTooLargeError,
)
from mainstem.log.partition.batch_validation import check_batches, stamp_batches
from mainstem.log.partition.config import LogConfig
from mainstem.record.constants import ControlType
from mainstem.record.header import read_header, verify
from mainstem.record.reader import read_records
from mainstem.record.writer import NewRecord, ProducerStamp, build_batch, build_control_batch
from tests.log.support import NOW_MS, batch

CONFIG = LogConfig.of({})


def check(data: bytes, **configs: str) -> int:
    """How many batches pass."""
    config = LogConfig.of({name.replace("_", "."): value for name, value in configs.items()})
    return len(check_batches(memoryview(data), config))


def test_several_batches_pass() -> None:
    assert check(batch(b"a") + batch(b"b", b"c")) == 2


@pytest.mark.parametrize("cut", [1, 5, 61])
def test_a_batch_that_is_cut_off_is_corrupt(cut: int) -> None:
    with pytest.raises(CorruptBatchError):
        check(batch(b"a") + batch(b"b")[:-cut])


def test_any_flipped_bit_behind_the_stamp_is_corrupt() -> None:
    data = batch(b"abc")
    for at in range(16 * 8, len(data) * 8):
        rotten = bytearray(data)
        rotten[at // 8] ^= 1 << at % 8
        with pytest.raises(CorruptBatchError):
            check(bytes(rotten))


def test_nothing_to_append_is_invalid() -> None:
    with pytest.raises(InvalidRecordError):
        check(b"")


def test_a_batch_over_the_limit_is_too_large() -> None:
    with pytest.raises(RecordTooLargeError, match=r"max\.message\.bytes=100"):
        check(batch(b"a" * 100), max_message_bytes="100")


def test_an_append_that_no_segment_holds_is_too_large() -> None:
    with pytest.raises(RecordTooLargeError, match=r"segment\.bytes=100"):
        check(batch(b"a") + batch(b"b"), segment_bytes="100")


def test_a_transactional_batch_passes() -> None:
    producer = ProducerStamp(1, 0, 0, is_transactional=True)
    assert check(build_batch([NewRecord(None, b"a")], producer=producer)) == 1


def test_a_transactional_batch_without_a_producer_is_refused() -> None:
    producer = ProducerStamp(-1, -1, -1, is_transactional=True)
    with pytest.raises(InvalidRecordError, match="without a producer id"):
        check(build_batch([NewRecord(None, b"a")], producer=producer))


def test_control_batches_are_refused() -> None:
    with pytest.raises(InvalidRecordError, match="control records"):
        check(build_control_batch(ControlType.COMMIT, producer_id=1, producer_epoch=0, timestamp_ms=NOW_MS))


def test_a_producer_without_a_sequence_is_refused() -> None:
    with pytest.raises(InvalidRecordError, match="producer 1"):
        check(batch(b"a", producer=ProducerStamp(1, 0, -1)))


def test_records_without_a_timestamp_pass() -> None:
    assert check(build_batch([NewRecord(None, b"a")])) == 1


def test_log_append_time_is_not_the_producers_to_set() -> None:
    data = build_batch([NewRecord(None, b"a", (), NOW_MS)], log_append_time_ms=NOW_MS)
    with pytest.raises(InvalidTimestampError):
        check(data)


def stamp(data: bytes, log_append_time_ms: int | None = None) -> bytes:
    batches = check_batches(memoryview(data), CONFIG)
    _, buffers = stamp_batches(memoryview(data), batches, 1000, 7, log_append_time_ms)
    return b"".join(buffers)


def test_stamping_changes_offset_and_epoch_only() -> None:
    data = batch(b"a", b"b")
    stamped = stamp(data)
    header = read_header(stamped)
    assert (header.base_offset, header.leader_epoch, stamped[16:]) == (1000, 7, data[16:])
    verify(stamped, 0, header)


def test_batches_are_stamped_one_behind_the_other() -> None:
    first = batch(b"a", b"b")
    assert read_header(stamp(first + batch(b"c")), len(first)).base_offset == 1002


def test_log_append_time_is_set_for_all_records_with_a_new_checksum() -> None:
    stamped = stamp(batch(b"a", b"b"), log_append_time_ms=NOW_MS + 99)
    header = read_header(stamped)
    verify(stamped, 0, header)
    assert header.has_log_append_time
    assert {record.timestamp_ms for record in read_records(stamped)} == {NOW_MS + 99}
