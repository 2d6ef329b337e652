"""Kafka's segments, proven batch by batch, and the offsets that Kafka's compaction leaves out.

In Mainstem's log offsets follow on one another within a segment; where batches are gone, empty ones stand. So a segment
with gaps is written again, with an empty batch in each. Functions over one file; every byte of it is proven.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from mainstem.errors import CorruptBatchError, StorageError
from mainstem.kafka_directory.directory_files import reading, writing
from mainstem.record.constants import INT32_MAX
from mainstem.record.header import BatchHeader, iter_headers, verify
from mainstem.record.key_offsets.batches import filler


class SegmentScan(NamedTuple):
    """The result of reading a ``.log``: the offset after its last batch, and whether offsets are missing in it."""

    end_offset: int
    has_gaps: bool
    leader_epoch: int


def scan_segment(path: Path, base_offset: int) -> SegmentScan:
    """Prove every batch. Raises StorageError for damage, and for formats that only old versions of Kafka wrote."""
    end_offset, has_gaps, leader_epoch = base_offset, False, -1
    with _mapped(path) as data:
        for _, header in _proven(path, data):
            if header.base_offset < end_offset:
                raise StorageError(f"{path}: offset {header.base_offset} comes after {end_offset - 1}")
            has_gaps = has_gaps or header.base_offset > end_offset
            end_offset, leader_epoch = header.next_offset, max(leader_epoch, header.leader_epoch)
    return SegmentScan(end_offset, has_gaps, leader_epoch)


def copy_without_gaps(source: Path, target: Path, base_offset: int) -> None:
    """Write the segment again, with an empty batch where offsets are missing. Raises StorageError."""
    end_offset, written = base_offset, 0
    with _mapped(source) as data, writing(target), target.open("wb") as new:
        for at, header in iter_headers(data):
            while end_offset < header.base_offset:
                last_offset = min(header.base_offset - 1, end_offset + INT32_MAX)
                written += new.write(filler(end_offset, last_offset, header.leader_epoch))
                end_offset = last_offset + 1
            written += new.write(data[at : at + header.size_bytes])
            end_offset = header.next_offset
            if written > INT32_MAX:
                raise StorageError(
                    f"{source} would be over 2 GiB here: let Kafka compact it with a smaller segment.bytes"
                )


def _proven(path: Path, data: mmap.mmap | bytes) -> Iterator[tuple[int, BatchHeader]]:
    end = 0
    try:
        for at, header in iter_headers(data):
            verify(data, at, header)
            yield at, header
            end = at + header.size_bytes
    except CorruptBatchError as error:
        raise StorageError(f"{path} cannot be taken: {error}") from error
    if end != len(data):
        raise StorageError(f"{path} cannot be taken: {len(data) - end} bytes after its last whole batch")


class _mapped:  # noqa: N801 - it is used as a function
    """The bytes of a file, mapped for as long as the block takes."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._mapping: mmap.mmap | None = None

    def __enter__(self) -> mmap.mmap | bytes:
        with reading(self._path), self._path.open("rb") as file:
            if self._path.stat().st_size == 0:
                return b""
            self._mapping = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            return self._mapping

    def __exit__(self, *_: object) -> None:
        if self._mapping is not None:
            self._mapping.close()
