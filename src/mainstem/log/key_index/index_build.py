"""Reads the entries of a key index's build from the log, batch by batch, each verified by its checksum.

The log's files are read only. If a file is gone, because retention and compaction go on meanwhile, that is an error,
and the build starts again. A damaged batch is an error, too: an index must not answer "absent" for unread records.
Synchronous, through the disk port; safe in any process.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from mainstem.log.files.disk import Disk, DiskFile
from mainstem.log.files.names import LOG, offset_file, parse_offset_file
from mainstem.log.key_index.key_entries import IDEMPOTENCY_KEYS, entries_of, read_batch, time_of
from mainstem.log.key_index.key_index import BuildPlan
from mainstem.log.key_index.key_store import Entry
from mainstem.record.constants import HEADER_BYTES
from mainstem.record.header import BatchHeader, read_header, verify


def plan_entries(disk: Disk, plan: BuildPlan) -> Iterator[Entry]:
    """All entries of a plan, in the order of the log. Raises StorageError, CorruptBatchError."""
    for header, batch in _walk(disk, plan):
        parts, time_ms = plan.parts, time_of(header, plan.now_ms)
        if time_ms < plan.remember_from_ms:
            parts &= ~IDEMPOTENCY_KEYS
        if parts:
            yield from entries_of(read_batch(header, batch), parts, plan.generation, time_ms)


def _walk(disk: Disk, plan: BuildPlan) -> Iterator[tuple[BatchHeader, memoryview]]:
    parsed = map(parse_offset_file, disk.list(plan.directory))
    bases = sorted(each[0] for each in parsed if each is not None and each[1] == LOG)
    for base, following in pairwise([*bases, plan.end_offset]):
        if base >= plan.end_offset or following <= plan.start_offset:
            continue
        file = disk.open(plan.directory / offset_file(base, LOG))
        try:
            yield from _walk_file(file, plan.start_offset, plan.end_offset)
        finally:
            file.close()


def _walk_file(file: DiskFile, start_offset: int, end_offset: int) -> Iterator[tuple[BatchHeader, memoryview]]:
    """The batches in [start, end), proven. The file may grow after them meanwhile."""
    at, size = 0, file.size_bytes()
    while at < size:
        header = read_header(file.read(at, HEADER_BYTES))
        if header.base_offset >= end_offset:
            return
        if header.next_offset > start_offset:
            batch = memoryview(file.read(at, header.size_bytes))
            verify(batch, 0, header)
            yield header, batch
        at += header.size_bytes
