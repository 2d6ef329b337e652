"""The check of each record that a producer sends, as Apache Kafka's LogValidator does it.

Contract: records that pass can be read, compacted and compressed again. Every length, every offset delta and the bytes
behind the last record are checked. Two walkers give the same verdict: the native one (``native_walk``), and the plain
reader for few records while the native one is not loaded. Loading takes a second, and on a new machine some seconds
more to compile: ``load_native`` does it, in a thread of the caller's choice. No walker makes an object for each record
of a large batch.

Memory: the native walker adds nothing to the records. Pure functions, but for the loading; safe from any thread.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from mainstem.errors import CorruptBatchError
from mainstem.record.constants import INT64_MAX, INT64_MIN, NO_TIMESTAMP, RECORD_BYTES_MIN, Buffer
from mainstem.record.header import BatchHeader
from mainstem.record.reader import parse_records

PLAIN_RECORDS_MAX: Final = 200
"""How many records of a batch are walked in plain Python, at some microseconds each."""
BROKEN_RECORDS_MAX: Final = 1000
"""How many records that break a rule are named; the count says how many there are."""
_NATIVE: Final = "mainstem.record.native_walk"


class RecordRules(NamedTuple):
    """What a topic asks of each record. Without bounds, timestamps do not count: the log sets its own."""

    needs_key: bool = False
    oldest_ms: int = INT64_MIN
    newest_ms: int = INT64_MAX

    @property
    def bounds_time(self) -> bool:
        """Whether timestamps are looked at."""
        return self.oldest_ms != INT64_MIN or self.newest_ms != INT64_MAX


class BrokenRecord(NamedTuple):
    """A record, by its index in the batch, that has no key where one is needed, or a timestamp out of bounds."""

    at: int
    has_no_key: bool
    timestamp_ms: int


class RecordsChecked(NamedTuple):
    """``max_timestamp`` is -1 where no record's counts. ``broken`` names the first of ``broken_count``."""

    max_timestamp: int
    broken_count: int = 0
    broken: Sequence[BrokenRecord] = ()


def is_native_loaded() -> bool:
    """Whether a check of many records costs nanoseconds for each, and no loading."""
    return getattr(sys.modules.get(_NATIVE), "is_loaded", False)


def load_native() -> None:
    """Load the native walker, if it is not loaded yet. May take seconds: not for an event loop."""
    importlib.import_module(_NATIVE)


def check_records(header: BatchHeader, records: Buffer, rules: RecordRules) -> RecordsChecked:
    """Check the batch's plain (decompressed) records. Loads the native walker where there are many.

    Raises CorruptBatchError: they do not add up, or their offset deltas are not 0, 1, 2 and so on.
    """
    if not 0 <= header.record_count <= len(records) // RECORD_BYTES_MIN:
        raise CorruptBatchError(f"{header.record_count} records in {len(records)} bytes")
    if header.record_count <= PLAIN_RECORDS_MAX and not is_native_loaded():
        return _check_plainly(header, records, rules)
    return _check_natively(header, records, rules)


def _check_plainly(header: BatchHeader, records: Buffer, rules: RecordRules) -> RecordsChecked:
    broken = []
    max_timestamp = NO_TIMESTAMP
    ignores_time = not rules.bounds_time
    for index, record in enumerate(parse_records(header, memoryview(records), ignores_time=ignores_time)):
        if record.offset - header.base_offset != index:
            raise _bad_offset(index)
        time_ms = record.timestamp_ms
        has_no_key = rules.needs_key and record.key is None
        is_outside = False
        if rules.bounds_time:
            max_timestamp = max(max_timestamp, time_ms)
            is_outside = time_ms != NO_TIMESTAMP and not rules.oldest_ms <= time_ms <= rules.newest_ms
        if has_no_key or is_outside:
            broken.append(BrokenRecord(index, has_no_key, time_ms))
    return RecordsChecked(max_timestamp, len(broken), tuple(broken))


def _check_natively(header: BatchHeader, records: Buffer, rules: RecordRules) -> RecordsChecked:
    native: Any = sys.modules[_NATIVE] if is_native_loaded() else importlib.import_module(_NATIVE)
    status, walked, max_timestamp, broken_count, broken = native.check(
        records, (header.record_count, header.base_timestamp, *rules), BROKEN_RECORDS_MAX
    )
    if status == native.SOUND and not broken_count:
        return RecordsChecked(max_timestamp)
    if status == native.BAD_OFFSET:
        raise _bad_offset(walked)
    if status == native.BYTES_LEFT:
        raise CorruptBatchError("bytes are left behind the last record")
    if status == native.BAD_TIME:
        raise CorruptBatchError(f"record {walked}: a timestamp of more than 64 bits")
    if status != native.SOUND:
        raise CorruptBatchError(f"record {walked}: its lengths do not add up")
    named = tuple(BrokenRecord(at, bool(has_no_key), time_ms) for at, has_no_key, time_ms in broken)
    return RecordsChecked(max_timestamp, broken_count, named)


def _bad_offset(index: int) -> CorruptBatchError:
    return CorruptBatchError(f"record {index}: its offset delta is not {index}, which comes next")
