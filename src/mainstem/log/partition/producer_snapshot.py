"""Producer state in a file: Kafka's ``.snapshot``, version 1, with a trailer for the state that Kafka does not store.

Kafka stores only a producer's last batch; after a restart it cannot recognise the four before it. The trailer has
these, and the time of the producer's last append. It also names the file's partition and offset, so that a misplaced
file is ignored. Kafka reads its own part and skips the rest; its CRC32C covers everything after itself, also the
trailer.

Layout, big-endian: version (int16), CRC32C (uint32), count (int32), entries of ``_ENTRY``. Trailer: magic ``MSP2``, end
offset (int64), topic id (16 bytes), partition (int32), then for each entry: the log's clock at its last append (int64),
count (int8) and ``_BATCH`` of each batch before the last, oldest first. Trailers of the magic ``MSPS``, which have no
such time, are read, too. Snapshots are not synced: the checksum detects one that a power cut has damaged.
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Collection
from contextlib import suppress
from pathlib import PurePath
from typing import Final
from uuid import UUID

from mainstem.durable_files import replace_file
from mainstem.errors import StorageError
from mainstem.log.files.disk import Disk
from mainstem.log.files.names import SNAPSHOT, offset_file
from mainstem.log.files.small_files import list_offsets, read_file
from mainstem.log.partition.producer_state import BatchMetadata, ProducerEntry, ProducerState
from mainstem.record.checksum import crc32c

_LOG: Final = logging.getLogger(__name__)

_VERSION: Final = 1
_SNAPSHOTS_KEPT: Final = 2
_TRAILER_MAGIC: Final = b"MSP2"
_OLDER_MAGIC: Final = b"MSPS"
_HEAD = struct.Struct(">hI")
_COUNT = struct.Struct(">i")
_ENTRY = struct.Struct(">qhiqiqiq")
_TRAILER = struct.Struct(">4sq16si")
_TIME = struct.Struct(">q")
_BATCH = struct.Struct(">iqiq")


class SnapshotError(StorageError):
    """A snapshot that cannot be trusted: the state is rebuilt from an older one, or from the log."""


def encode_snapshot(state: ProducerState, topic_id: UUID, partition: int) -> bytes:
    """The file's bytes."""
    entries = state.entries()
    body = bytearray(_COUNT.pack(len(entries)))
    for entry in entries:
        last = entry.batches[-1] if entry.batches else BatchMetadata(-1, -1, 0, entry.last_timestamp_ms)
        body += _ENTRY.pack(
            entry.producer_id,
            entry.epoch,
            last.last_sequence,
            last.last_offset,
            last.offset_delta,
            entry.last_timestamp_ms,
            entry.coordinator_epoch,
            entry.transaction_first_offset,
        )
    body += _TRAILER.pack(_TRAILER_MAGIC, state.end_offset, topic_id.bytes, partition)
    for entry in entries:
        body += _TIME.pack(entry.written_ms)
        earlier = list(entry.batches)[:-1]
        body.append(len(earlier))
        for batch in earlier:
            body += _BATCH.pack(*batch)
    return _HEAD.pack(_VERSION, crc32c(body)) + body


def decode_snapshot(data: bytes, end_offset: int, topic_id: UUID, partition: int) -> ProducerState:
    """Read the file of ``end_offset``. One without a trailer, which Kafka wrote, is taken for what its name says.

    Raises SnapshotError.
    """
    try:
        version, crc = _HEAD.unpack_from(data)
        if version != _VERSION:
            raise SnapshotError(f"producer snapshot at offset {end_offset}: version {version}")
        body = memoryview(data)[_HEAD.size :]
        if crc != crc32c(body):
            raise SnapshotError(f"producer snapshot at offset {end_offset}: its checksum does not match")
        entries, rest = _decode_entries(body)
        if rest:
            _decode_trailer(rest, entries, (end_offset, topic_id.bytes, partition))
    except (struct.error, IndexError) as error:
        raise SnapshotError(f"producer snapshot at offset {end_offset}: {error}") from error
    return ProducerState(entries, end_offset)


def owner_of(data: bytes) -> tuple[UUID, int]:
    """The topic id and partition that a file says it belongs to; zeros in one without a trailer, which Kafka wrote.

    Raises SnapshotError.
    """
    try:
        _, rest = _decode_entries(memoryview(data)[_HEAD.size :])
        _, _, topic_id, partition = _TRAILER.unpack_from(rest) if rest else (b"", 0, bytes(16), 0)
    except struct.error as error:
        raise SnapshotError(f"producer snapshot: {error}") from error
    return UUID(bytes=topic_id), partition


def _decode_entries(body: memoryview) -> tuple[list[ProducerEntry], memoryview]:
    (count,) = _COUNT.unpack_from(body)
    end = _COUNT.size + count * _ENTRY.size
    if count < 0 or end > len(body):
        raise SnapshotError(f"producer snapshot: {count} entries in {len(body)} bytes")
    entries = []
    for fields in _ENTRY.iter_unpack(body[_COUNT.size : end]):
        producer_id, epoch, last_sequence, last_offset, offset_delta, timestamp_ms, coordinator_epoch, first = fields
        entry = ProducerEntry(producer_id, epoch)
        if last_offset >= 0:
            entry.batches.append(BatchMetadata(last_sequence, last_offset, offset_delta, timestamp_ms))
        entry.last_timestamp_ms = timestamp_ms
        entry.coordinator_epoch = coordinator_epoch
        entry.transaction_first_offset = first
        entries.append(entry)
    return entries, body[end:]


def _decode_trailer(trailer: memoryview, entries: list[ProducerEntry], expected: tuple[int, bytes, int]) -> None:
    magic, *identity = _TRAILER.unpack_from(trailer)
    if magic not in (_TRAILER_MAGIC, _OLDER_MAGIC) or tuple(identity) != expected:
        raise SnapshotError(f"producer snapshot at offset {expected[0]}: it is of another partition or offset")
    at = _TRAILER.size
    for entry in entries:
        if magic == _TRAILER_MAGIC:
            (entry.written_ms,) = _TIME.unpack_from(trailer, at)
            at += _TIME.size
        count = trailer[at]
        at += 1
        for slot in range(count):
            entry.batches.insert(slot, BatchMetadata._make(_BATCH.unpack_from(trailer, at)))
            at += _BATCH.size


def write_snapshot(
    disk: Disk,
    directory: PurePath,
    state: ProducerState,
    topic_id: UUID,
    partition: int,
    recovery_point: int,
    kept: Collection[int] = (),
) -> None:
    """Write the snapshot of ``state`` and remove those that no start will want. Raises StorageError.

    A start begins with the newest that is not past the recovery point; should that be spoiled, with the one before.
    None is synced. Those of ``kept`` offsets are not removed, nor written twice: the records before them may have left
    the disk, and one of them is synced then.
    """
    path = directory / offset_file(state.end_offset, SNAPSHOT)
    if state.end_offset not in kept or not disk.exists(path):
        replace_file(disk, path, encode_snapshot(state, topic_id, partition), sync=False)
    durable = [offset for offset in list_offsets(disk, directory, SNAPSHOT) if offset <= recovery_point]
    for offset in durable[:-_SNAPSHOTS_KEPT]:
        if offset not in kept:
            disk.remove(directory / offset_file(offset, SNAPSHOT))


def find_snapshot(
    disk: Disk, directory: PurePath, offsets: tuple[int, int], topic_id: UUID, partition: int
) -> ProducerState | None:
    """The newest state within ``offsets`` that is whole; nothing is removed."""
    for offset in reversed(list_offsets(disk, directory, SNAPSHOT)):
        if offsets[0] <= offset <= offsets[1]:
            with suppress(SnapshotError):
                data = read_file(disk, directory / offset_file(offset, SNAPSHOT)) or b""
                return decode_snapshot(data, offset, topic_id, partition)
    return None


def read_newest_snapshot(
    disk: Disk, directory: PurePath, offsets: tuple[int, int], topic_id: UUID, partition: int
) -> ProducerState | None:
    """The newest state of the log within ``offsets``; snapshots outside of them, or damaged ones, are removed.

    The first is where the log begins: it cannot go on from a snapshot before. The other is the recovery point: what
    follows that may be another log than the one that a snapshot there was taken of.
    """
    for offset in reversed(list_offsets(disk, directory, SNAPSHOT)):
        path = directory / offset_file(offset, SNAPSHOT)
        try:
            if offsets[0] <= offset <= offsets[1]:
                return decode_snapshot(read_file(disk, path) or b"", offset, topic_id, partition)
            _LOG.info("%s: removed, it is not within %s", path, offsets)
        except SnapshotError as error:
            _LOG.warning("%s: removed: %s", path, error)
        disk.remove(path)
    return None
