"""One segment that compaction writes: a ``.log`` and its index files, under names that end in ``.cleaned``.

Invariant: offsets follow on one another from the base offset to where it is filled up to; where batches are gone, empty
ones stand. All of it is synced when ``finish`` returns; its names are the owner's to sync.

Owned by one run of a compaction.
"""

from __future__ import annotations

from pathlib import PurePath
from typing import Final

from mainstem.errors import StorageError
from mainstem.log.cleaning.compaction_job import CLEANED
from mainstem.log.files.disk import Buffer, Disk
from mainstem.log.files.names import LOG, SEGMENT_SUFFIXES, offset_file
from mainstem.log.segments.segment_indexes import SegmentIndexes
from mainstem.log.segments.transactions import OpenTransactions
from mainstem.record.constants import INT32_MAX
from mainstem.record.header import BatchHeader, read_header
from mainstem.record.key_offsets.batches import filler
from mainstem.record.reader import read_end_marker

_WRITE_BYTES: Final = 1 << 20


class CleanedOutput:
    """``is_verbatim`` as long as nothing was written but batches as they were."""

    def __init__(
        self, disk: Disk, directory: PurePath, base_offset: int, interval_bytes: int, open_before: OpenTransactions
    ) -> None:
        self._disk = disk
        self._directory = directory
        self._base_offset = base_offset
        self._file = disk.create(self._path(LOG))
        self._indexes = SegmentIndexes(base_offset, interval_bytes, open_before)
        self._pending: list[Buffer] = []
        self._pending_bytes = 0
        self.is_verbatim = True

    def _path(self, suffix: str) -> PurePath:
        return self._directory / (offset_file(self._base_offset, suffix) + CLEANED)

    @property
    def size_bytes(self) -> int:
        """The size of the ``.log``."""
        return self._indexes.log_bytes

    @property
    def open_transactions(self) -> OpenTransactions:
        """Those that are open at its end."""
        return self._indexes.open_transactions

    def write(self, header: BatchHeader, data: Buffer) -> None:
        """The next batch that stays. Raises StorageError."""
        self.fill_up(header.base_offset, header.leader_epoch)
        self.is_verbatim = self.is_verbatim and isinstance(data, memoryview)
        self._put(header, data)

    def fill_up(self, end_offset: int, leader_epoch: int) -> None:
        """Say that nothing is left up to ``end_offset``."""
        while self._indexes.end_offset < end_offset:
            start = self._indexes.end_offset
            data = filler(start, min(end_offset - 1, start + INT32_MAX), leader_epoch)
            self.is_verbatim = False
            self._put(read_header(data), data)

    def _put(self, header: BatchHeader, data: Buffer) -> None:
        if self.size_bytes + len(data) > INT32_MAX:
            raise StorageError(f"{self._path(LOG).name} would be over 2 GiB: set a smaller segment.bytes")
        marker = read_end_marker(data) if header.is_control else None
        self._indexes.add(header, self.size_bytes, marker)
        self._pending.append(data)
        self._pending_bytes += len(data)
        if self._pending_bytes >= _WRITE_BYTES:
            self._flush()

    def _flush(self) -> None:
        if self._pending:
            self._file.write(self.size_bytes - self._pending_bytes, self._pending)
            self._pending, self._pending_bytes = [], 0

    def finish(self, durable_offset: int) -> None:
        """Write what is left, and the index files, and sync all of it. Raises StorageError."""
        self._flush()
        self._file.sync()
        for suffix, content in self._indexes.encode(durable_offset).items():
            file = self._disk.create(self._path(suffix))
            try:
                file.write(0, [content])
                file.sync()
            finally:
                file.close()

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()

    def remove(self) -> None:
        """It is not needed."""
        for suffix in SEGMENT_SUFFIXES:
            self._disk.remove(self._path(suffix))
