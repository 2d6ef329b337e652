"""Segments of a log on this machine, read from its files instead of fetched: the same rows, with less work.

Only a log without login and TLS, at a loopback address, is read like this, only for ranges that are large enough, and
only as long as every step succeeds. A failed step is not an error: the caller continues over the socket from the offset
that was reached.
1. The log says where its data directory is (DescribeLogDirs), once for each log in a process.
2. The partition's directory is opened, and everything in it by way of that handle, so that no later directory of the
   same name can be meant; its ``partition.metadata`` names the topic's id as the log has it.
3. The log is asked for one batch at the range's start. Its answer says how far it may be read: up to the last stable
   offset, or the high watermark for uncommitted reads. That batch must lie in the file, byte for byte.
4. A closed segment (another one follows it) has to match its seal: the checksum, the file's size, the last batch, the
   transaction index. The transaction index names the aborted transactions. Those that are open at the segment's end
   are looked up in the segments that follow; if one of these is not closed, the range is read over the socket. A
   segment that matches is mapped.
   One whose ``.log`` is in the backup's store alone is read from there (``stored_segments``), straight by the task. A
   range that begins in such a part is checked by a batch of the local part instead: step 3 would load it in the log.
5. The active segment has no seal. It is read with read calls, because records after the high watermark may be
   truncated; and only up to the first batch of a transaction, because only the log knows how it ended.
6. Batches are decoded in place, each proven as always.

Closed segments are never written to, nor cut, nor is the active one before the high watermark; compaction and
retention rename and remove files, which leaves what is open valid: such a reader sees the log as it was when it asked.
Mapped pages are read in before they are used, so that a failing disk gives an error and not a signal (SIGBUS). Owned
by one thread.
"""

from __future__ import annotations

import errno
import mmap
import os
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path, PurePath
from typing import Any, Final, NamedTuple, Protocol
from uuid import UUID

import numpy as np

from mainstem.addresses import is_loopback
from mainstem.client.security import Security
from mainstem.client.wire.cluster.cluster import WireClient
from mainstem.errors import CorruptBatchError, MainstemError, StorageError
from mainstem.log.files.names import (
    LOG,
    OFFSET_INDEX,
    PARTITION_METADATA,
    REMOTE,
    SEAL,
    TRANSACTION_INDEX,
    offset_file,
    parse_offset_file,
    partition_directory,
)
from mainstem.log.partition.checkpoints import decode_partition_metadata, encode_uuid
from mainstem.log.segments.index_checksums import IndexChecksums, decode_seal
from mainstem.log.segments.remote_segment import RemoteSegment
from mainstem.model import TopicPartition
from mainstem.protocol.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from mainstem.record.arrow_decode import Decoded, decode
from mainstem.record.checksum import crc32c
from mainstem.record.constants import HEADER_BYTES, INT64_MAX, TRANSACTIONAL_BIT
from mainstem.record.header import read_header
from mainstem.record.native import native_decode as native
from mainstem.spark.tasks.ranges import OffsetRange
from mainstem.spark.tasks.stored_segments import StoredRecords

OFFSETS_MIN = 10_000
"""For fewer the questions cost more than they save."""
_CHUNK_BYTES: Final = 4 * 1024 * 1024
_SMALL_FILE_BYTES_MAX: Final = 64 * 1024 * 1024
_MADV_POPULATE_READ: Final = 22  # of Linux 5.14 and later
_ABORTED_ENTRY = np.dtype(
    [("version", ">i2"), ("producer", ">i8"), ("first", ">i8"), ("last", ">i8"), ("stable", ">i8")]
)
_INDEX_ENTRY = np.dtype([("offset", ">i4"), ("position", ">i4")])

_DIRECTORIES: dict[str, Path | None] = {}
"""Bootstrap → the data directory of a log on this machine, None for others. Process-wide; written by its one reader."""


class _UnfitError(Exception):
    """The files cannot be used. Never leaves this module."""


class _Aborted(NamedTuple):
    """A transaction that was aborted, by the marker at ``last_offset``."""

    producer_id: int
    first_offset: int
    last_offset: int


@dataclass(frozen=True, slots=True)
class _Segment:
    """A segment that may be read up to ``end_offset``, as far as the log lets us."""

    base_offset: int
    end_offset: int
    records: _Records
    aborted: tuple[_Aborted, ...] = ()
    is_without_transactions: bool = False


def may_be_read(security: Security) -> bool:
    """Whether logs that are reached like this are ever read from their files."""
    return not security.has_tls and not security.has_sasl


def read_local(
    client: WireClient, wanted: OffsetRange, columns: frozenset[str], *, committed: bool
) -> Iterator[Decoded]:
    """The beginning of the range, decoded from the log's files; nothing when the files cannot be used."""
    try:
        directory = _data_directory(client, wanted.topic_partition) if len(wanted) >= OFFSETS_MIN else None
        if directory is None:
            return
        with _PartitionFiles(directory / partition_directory(wanted.topic_partition)) as files:
            first, end = _asked(client, wanted, files, committed=committed)
            yield from _decoded(files, replace(wanted, end=min(wanted.end, end)), first, columns, committed=committed)
    except (_UnfitError, OSError, CorruptBatchError):
        return


def _data_directory(client: WireClient, topic_partition: TopicPartition) -> Path | None:
    """Step 1. An answer that is not a directory of this machine is cached too: it will not become one."""
    bootstrap = client.bootstrap
    if bootstrap not in _DIRECTORIES:
        _DIRECTORIES[bootstrap] = _ask_directory(client, topic_partition)
    return _DIRECTORIES[bootstrap]


def _ask_directory(client: WireClient, topic_partition: TopicPartition) -> Path | None:
    client.metadata([topic_partition.topic])
    if len(client.brokers) != 1 or not all(is_loopback(address.host) for address in client.brokers.values()):
        return None
    asked = DescribableLogDirTopic(topic=topic_partition.topic, partitions=[topic_partition.partition])
    try:
        answer = client.request(DescribeLogDirsRequest(topics=[asked]))
    except MainstemError:  # not served, or not to us: the socket is there
        return None
    found = [Path(result.log_dir) for result in answer.results if result.error_code == 0]
    return found[0] if len(found) == 1 and found[0].is_absolute() and found[0].is_dir() else None


def _asked(
    client: WireClient, wanted: OffsetRange, files: _PartitionFiles, *, committed: bool
) -> tuple[bytes | None, int]:
    """Steps 2 and 3: the first batch, unless it was seen to be the log's already; and how far may be read."""
    tp = wanted.topic_partition
    topic = client.metadata([tp.topic]).get(tp.topic)
    if topic is None or files.topic_id != topic.topic_id:
        raise _UnfitError("another topic's directory")
    asked = max(wanted.start, files.local_start)
    fetched = client.fetch({tp: asked}, max_bytes=1, partition_max_bytes=1, read_committed=committed)[tp]
    if fetched.error is not None or not len(fetched.records):
        raise _UnfitError("nothing to be had")
    first = bytes(fetched.records[: read_header(fetched.records).size_bytes])  # the client's buffer is used again
    end = fetched.last_stable_offset if committed else fetched.high_watermark
    if asked == wanted.start:
        return first, end
    if wanted.start < fetched.log_start_offset:
        raise _UnfitError("before the log's start")
    segment = files.segment(asked, asked, committed=committed)
    at = _find(segment.records, files.position_before(segment.base_offset, asked), asked)
    _require_same(segment.records, at, first)
    return None, end


def _require_same(records: _Records, at: int, batch: bytes) -> None:
    if records.chunk(at, len(batch)) != batch:
        raise _UnfitError("other bytes than the log's")


def _decoded(
    files: _PartitionFiles, wanted: OffsetRange, first: bytes | None, columns: frozenset[str], *, committed: bool
) -> Iterator[Decoded]:
    """Steps 4 to 6, segment by segment."""
    offset = wanted.start
    while offset < wanted.end:
        segment = files.segment(offset, wanted.end, committed=committed)
        if segment.end_offset <= offset:
            return  # offsets that recovery has cut lie here
        at = _find(segment.records, files.position_before(segment.base_offset, offset), offset)
        if first is not None:
            _require_same(segment.records, at, first)
        first = None
        for decoded in _decoded_segment(segment, at, replace(wanted, start=offset), columns):
            offset = decoded.next_offset
            yield decoded


def _decoded_segment(segment: _Segment, at: int, wanted: OffsetRange, columns: frozenset[str]) -> Iterator[Decoded]:
    offset, chunk_bytes = wanted.start, _CHUNK_BYTES
    end = min(wanted.end, segment.end_offset)
    while offset < end:
        chunk = segment.records.chunk(at, chunk_bytes)
        if segment.is_without_transactions:
            _refuse_transactions(chunk, end)
        decoded = decode(
            chunk,
            topic=wanted.topic_partition.topic,
            partition=wanted.topic_partition.partition,
            start_offset=offset,
            end_offset=end,
            columns=columns,
            aborted=[(each.producer_id, each.first_offset) for each in segment.aborted if each.last_offset >= offset],
        )
        if decoded.next_offset == offset:
            if len(chunk) < chunk_bytes:
                raise _UnfitError("the segment ends early")
            chunk_bytes *= 4  # a batch that is larger
            continue
        at, offset, chunk_bytes = at + decoded.consumed_bytes, decoded.next_offset, _CHUNK_BYTES
        yield decoded


def _find(records: _Records, at: int, offset: int) -> int:
    """The place of the batch that holds ``offset``, or of the next one. The batch at ``at`` is before it."""
    table = np.empty((1, native.TABLE_COLUMNS), np.int64)
    size = _CHUNK_BYTES
    while True:
        chunk = records.chunk(at, size)
        rows, _, passed = native.scan_batches(_array(chunk), table, offset, INT64_MAX, False)
        if rows:
            return at + int(table[0, native.AT])
        if len(chunk) < size:
            raise _UnfitError("no such batch")
        at, size = at + passed, size if passed else size * 4


def _refuse_transactions(chunk: memoryview, end: int) -> None:
    data = _array(chunk)
    table = np.empty((native.count_batches(data), native.TABLE_COLUMNS), np.int64)
    rows, _, _ = native.scan_batches(data, table, 0, end, False)
    if (table[:rows, native.ATTRIBUTES] & TRANSACTIONAL_BIT).any():
        raise _UnfitError("a transaction in the active segment")


def _array(chunk: memoryview) -> Any:
    data = np.frombuffer(chunk, np.uint8)
    data.flags.writeable = False
    return data


class _Records(Protocol):
    """A segment's bytes; a chunk lasts until the next is asked for, and is shorter only at the end."""

    def chunk(self, at: int, size: int) -> memoryview: ...


class _MappedRecords:
    """The mapped records of a closed segment. Unmapped when the last reference is gone."""

    def __init__(self, handle: int, size: int) -> None:
        self.mapping = mmap.mmap(handle, size, access=mmap.ACCESS_READ)

    def chunk(self, at: int, size: int) -> memoryview:
        """Raises OSError where the disk fails, which would be a signal if the pages came as they are touched."""
        chunk = memoryview(self.mapping)[at : at + size]
        start = at - at % mmap.PAGESIZE
        try:
            self.mapping.madvise(_MADV_POPULATE_READ, start, at + len(chunk) - start)
        except OSError as error:
            if error.errno != errno.EINVAL:  # a kernel that does not know it
                raise
        return chunk


class _ReadRecords:
    """The records of the active segment, by read calls."""

    def __init__(self, handle: int) -> None:
        """Takes the handle over."""
        self._file = os.fdopen(handle, "rb", buffering=0)
        self._buffer = bytearray()

    def chunk(self, at: int, size: int) -> memoryview:
        if size > len(self._buffer):
            self._buffer = bytearray(size)
        view, count = memoryview(self._buffer)[:size], 0
        while count < size and (got := os.preadv(self._file.fileno(), [view[count:]], at + count)):
            count += got
        return view[:count]


class _PartitionFiles:
    """A partition's directory, held open. The module's docstring says which files are read, and when."""

    def __init__(self, path: Path) -> None:
        """Raises OSError when there is no such directory, or none that this user may read."""
        self._handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        names = [parse_offset_file(name) for name in os.listdir(self._handle)]  # noqa: PTH208 - it takes a handle
        local = {name[0] for name in names if name is not None and name[1] == LOG}
        # Where a .remote is lost, too, the seal is left: its transactions are not to be passed over.
        away = {name[0] for name in names if name is not None and name[1] in (REMOTE, SEAL)} - local
        self._bases = sorted(local | away)
        self.local_start = min((base for base in local if base > max(away, default=-1)), default=0)
        """From here on all is in ``.log`` files."""

    def __enter__(self) -> _PartitionFiles:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._handle)

    def segment(self, offset: int, end: int, *, committed: bool) -> _Segment:
        """Steps 4 and 5, for the segment that holds the offset; aborted transactions are known up to ``end``."""
        number = bisect_right(self._bases, offset) - 1
        if number < 0:
            raise _UnfitError("the segment is gone")
        base_offset = self._bases[number]
        if number == len(self._bases) - 1:
            records = _ReadRecords(os.open(offset_file(base_offset, LOG), os.O_RDONLY, dir_fd=self._handle))
            return _Segment(base_offset, INT64_MAX, records, is_without_transactions=committed)
        seal = self._seal(number)
        aborted = self._aborted_in(number, seal, end) if committed else ()
        return _Segment(base_offset, seal.end_offset, self._closed(seal), aborted)

    def _closed(self, seal: IndexChecksums) -> _Records:
        """The records of a closed segment, from its file or from the store."""
        try:
            return self._mapped(seal)
        except FileNotFoundError:
            return self._stored(seal)

    @cached_property
    def topic_id(self) -> UUID | None:
        """The id of the topic that the directory is of."""
        return decode_partition_metadata(self.read(PARTITION_METADATA))

    def _stored(self, seal: IndexChecksums) -> StoredRecords:
        """The records of a segment that is in the backup's store alone."""
        name = offset_file(seal.base_offset, REMOTE)
        try:
            stored = RemoteSegment.decode(self.read(name), PurePath(name))
        except StorageError as error:
            raise _UnfitError(str(error)) from error
        if self.topic_id is None or stored.topic_id != encode_uuid(self.topic_id):
            raise _UnfitError("another topic's")
        if stored.size_bytes != seal.log_bytes or seal.log_bytes == 0:
            raise _UnfitError("the seal is of another size")
        return StoredRecords(stored)

    def position_before(self, base_offset: int, offset: int) -> int:
        """A file position from which the batch with the offset is found: by the index, which may be wrong or missing.

        What is found from there is proven by its bytes.
        """
        try:
            data = self.read(offset_file(base_offset, OFFSET_INDEX))
        except FileNotFoundError:
            return 0
        entries = np.frombuffer(data[: len(data) // _INDEX_ENTRY.itemsize * _INDEX_ENTRY.itemsize], _INDEX_ENTRY)
        before = int(np.searchsorted(entries["offset"].astype(np.int64), offset - base_offset, side="left"))
        return int(entries["position"][before - 1]) if before else 0

    def _aborted_in(self, number: int, seal: IndexChecksums, end: int) -> tuple[_Aborted, ...]:
        """The aborted transactions that reach into a closed segment."""
        aborted = list(self._aborted(number, seal))
        undecided = {each for each in seal.open_transactions if each[1] < end}
        while undecided:
            number += 1
            if number == len(self._bases) - 1:
                raise _UnfitError("a transaction ends in the active segment")
            later = self._seal(number)
            ended = undecided - set(later.open_transactions)
            aborted += [each for each in self._aborted(number, later) if each[:2] in ended]
            undecided -= ended
        return tuple(aborted)

    def _mapped(self, seal: IndexChecksums) -> _MappedRecords:
        """The segment's records, once file and seal are seen to belong together."""
        handle = os.open(offset_file(seal.base_offset, LOG), os.O_RDONLY, dir_fd=self._handle)
        try:
            if os.fstat(handle).st_size != seal.log_bytes or seal.log_bytes == 0:
                raise _UnfitError("the seal is of another size")
            records = _MappedRecords(handle, seal.log_bytes)
        finally:
            os.close(handle)
        last = records.chunk(seal.last_batch_position, HEADER_BYTES)
        if read_header(last).crc != seal.last_batch_crc:
            raise _UnfitError("the seal is of another file")
        return records

    def read(self, name: str) -> bytes:
        """A small file. Raises OSError."""
        handle = os.open(name, os.O_RDONLY, dir_fd=self._handle)
        with os.fdopen(handle, "rb") as file:
            return file.read(_SMALL_FILE_BYTES_MAX)

    def _seal(self, number: int) -> IndexChecksums:
        base_offset = self._bases[number]
        seal = decode_seal(self.read(offset_file(base_offset, SEAL)))
        if seal is None or seal.base_offset != base_offset or seal.end_offset > self._bases[number + 1]:
            raise _UnfitError("no seal of this segment")
        return seal

    def _aborted(self, number: int, seal: IndexChecksums) -> tuple[_Aborted, ...]:
        """The entries of the segment's transaction index."""
        if seal.transaction_index_bytes == 0:
            return ()
        data = self.read(offset_file(self._bases[number], TRANSACTION_INDEX))
        if len(data) != seal.transaction_index_bytes or crc32c(data) != seal.transaction_index_crc:
            raise _UnfitError("the transaction index is not the one that was sealed")
        entries = np.frombuffer(data, _ABORTED_ENTRY)
        columns = (entries[name].tolist() for name in ("producer", "first", "last"))
        return tuple(_Aborted(*entry) for entry in zip(*columns, strict=True))
