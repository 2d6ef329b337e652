"""The check of each record that a producer sends, as Apache Kafka's LogValidator does it.

Contract: records that pass can be read, compacted and compressed again. Every length, every offset delta and the bytes
after the last record are checked. Two walkers give the same verdict: the native one, and the plain reader while the
native one is not loaded. No walker keeps an object for each record.

The native walker is machine code that comes with the package (``kept_code``): ``load_kept`` loads it in a millisecond.
Where there is none for the sources, ``load_native`` compiles it in a process of its own, and on other kinds of machines
with numba in this process: both take seconds, in a thread of the caller's choice. Without numba the plain reader goes
on.

Memory: the native walker adds nothing to records in writable memory, and copies others. Pure functions, but for the
loading; safe from any thread.
"""

from __future__ import annotations

import ctypes
import importlib
import logging
import subprocess
import threading
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from mainstem.errors import CorruptBatchError
from mainstem.record.constants import INT64_MAX, INT64_MIN, NO_TIMESTAMP, RECORD_BYTES_MIN, Buffer
from mainstem.record.header import BatchHeader
from mainstem.record.native.kept_code import NativeCall
from mainstem.record.native.walk_code import ASKED, WALK
from mainstem.record.reader import iter_parsed

PLAIN_RECORDS_MAX: Final = 10_000
"""The most records of a batch that the plain reader walks (3 to 10 µs each) and does not leave to the native walk."""
BROKEN_RECORDS_MAX: Final = 1000
"""The most records that break a rule and are named; the count has all of them."""
_KERNEL: Final = "mainstem.record.native.native_check"
_FOUND_FIELDS: Final = 3
_SHORT_BYTES: Final = 1 << 20
"""A walk over so many bytes takes less time than handing the interpreter's lock to another thread and back."""
_MEMORY: Final = ctypes.c_char * 0
_LOG: Final = logging.getLogger(__name__)
_loading = threading.Lock()
_walk: NativeCall | None = None
_is_tried = False

# How the native walk ended.
SOUND, BAD_RECORD, BAD_OFFSET, BAD_TIME, BYTES_LEFT = range(5)


class RecordRules(NamedTuple):
    """A topic's rules for each record. Without bounds, timestamps are not checked, because the log sets its own."""

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
    return _walk is not None


def load_kept() -> None:
    """Load the native walker if its code is kept on this machine: a millisecond."""
    global _walk
    try:
        _walk = _walk or WALK.kept()
    except OSError as error:
        _LOG.debug("no kept code of the walk over records: %s", error)


def load_native() -> None:
    """Load the native walker, if it is not loaded yet. May take seconds: not for an event loop."""
    global _walk, _is_tried
    with _loading:
        if _walk is None and not _is_tried:
            _walk = _load()
            _is_tried = True


def _load() -> NativeCall | None:
    try:
        return WALK.kept() or WALK.build()
    except (OSError, subprocess.SubprocessError) as error:
        _LOG.info("the walk over records is compiled in this process: %s", error)
    try:
        kernel: Any = importlib.import_module(_KERNEL)
        walk: NativeCall = kernel.compiled_walk()
    except ModuleNotFoundError:
        _LOG.info("records are checked in plain Python; pip install 'mainstem[native]' compiles the check")
        return None
    except Exception as error:  # noqa: BLE001 - without it records are checked slower, and the same
        _LOG.warning("records are checked in plain Python, which is slow: no native code can run: %s", error)
        return None
    return walk


def check_records(header: BatchHeader, records: Buffer, rules: RecordRules) -> RecordsChecked:
    """Check the batch's plain (decompressed) records. Loads the native walker for more than PLAIN_RECORDS_MAX.

    Raises CorruptBatchError: they do not add up, or their offset deltas are not 0, 1, 2 and so on.
    """
    if not 0 <= header.record_count <= len(records) // RECORD_BYTES_MIN:
        raise CorruptBatchError(f"{header.record_count} records in {len(records)} bytes")
    if _walk is None and header.record_count > PLAIN_RECORDS_MAX:
        load_native()
    if _walk is None:
        return _check_plainly(header, records, rules)
    return _check_natively(_walk, header, records, rules)


def _check_plainly(header: BatchHeader, records: Buffer, rules: RecordRules) -> RecordsChecked:
    broken = []
    max_timestamp = NO_TIMESTAMP
    ignores_time = not rules.bounds_time
    for index, record in enumerate(iter_parsed(header, memoryview(records), ignores_time=ignores_time)):
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


def _check_natively(walk: NativeCall, header: BatchHeader, records: Buffer, rules: RecordRules) -> RecordsChecked:
    buffer = bytearray(records) if memoryview(records).readonly else records
    memory = _MEMORY.from_buffer(buffer)
    at = ctypes.addressof(memory)
    end = at + len(buffer)
    is_short = len(buffer) <= _SHORT_BYTES
    asked = (header.record_count, header.base_timestamp, *rules)
    status, walked, max_timestamp, broken_count = walk(ASKED.pack(at, end, 0, 0, *asked), is_short)
    if status == SOUND and not broken_count:
        return RecordsChecked(max_timestamp)
    if status == BAD_OFFSET:
        raise _bad_offset(walked)
    if status == BYTES_LEFT:
        raise CorruptBatchError("bytes are left after the last record")
    if status == BAD_TIME:
        raise CorruptBatchError(f"record {walked}: a timestamp of more than 64 bits")
    if status != SOUND:
        raise CorruptBatchError(f"record {walked}: its lengths do not add up")
    count = min(broken_count, BROKEN_RECORDS_MAX)
    found = (ctypes.c_int64 * (count * _FOUND_FIELDS))()
    walk(ASKED.pack(at, end, ctypes.addressof(found), count, *asked), is_short)
    rows = zip(*[iter(found)] * _FOUND_FIELDS, strict=True)
    return RecordsChecked(
        max_timestamp,
        broken_count,
        tuple(BrokenRecord(at, bool(has_no_key), time_ms) for at, has_no_key, time_ms in rows),
    )


def _bad_offset(index: int) -> CorruptBatchError:
    return CorruptBatchError(f"record {index}: its offset delta is not {index}, which comes next")
