"""Replaces segments by the compacted segment made of them: at once for readers, and safe against a crash.

A swap has these steps, in this order; a crash between any two leaves one of the two states, never both or neither:

1. ``prepare`` (owner): the new files are renamed from ``.cleaned`` to ``.swap``.
2. ``sync`` (any thread) makes that durable. From here on it holds: opening the partition finishes it.
3. ``begin`` (owner): the old files are renamed to ``.deleted``, the new index files get their names, and readers see
   the new segment, whose ``.log`` is still called ``.swap``.
4. ``sync`` (any thread).
5. ``end`` (owner): the new ``.log`` gets its name.
6. ``clean_up`` (any thread): that is made durable, and the old files are removed. Views of them stay valid.

The owner only renames, so that it never waits. Only the owner deletes topics, so a step of another thread can never
touch the files of a recreated topic. Raises StorageError. Before ``begin`` nothing has changed, and ``cancel`` has to
follow: what stays prepared would be installed by the next opening, over segments that are newer than it. After
``begin`` the partition goes on with the new segment, and the remaining steps are done when it is opened the next time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import PurePath
from typing import Final

from mainstem.errors import CorruptBatchError
from mainstem.log.cleaning.compaction_job import CLEANED, SWAP, CleanedSegment
from mainstem.log.files.disk import Disk
from mainstem.log.files.names import (
    DELETED,
    LOG,
    REMOTE,
    SEAL,
    SIDECAR_SUFFIXES,
    offset_file,
    parse_offset_file,
)
from mainstem.log.files.small_files import read_file
from mainstem.log.segments.batch_scan import Start, walk_headers
from mainstem.log.segments.index_checksums import decode_seal
from mainstem.log.segments.segment import Segment

_LOG_LAST: Final = (*reversed(SIDECAR_SUFFIXES), REMOTE, LOG)


class Swap:
    """One segment's."""

    def __init__(self, disk: Disk, directory: PurePath, cleaned: CleanedSegment) -> None:
        self._disk = disk
        self._directory = directory
        self._base_offset = cleaned.base_offset
        self.cleaned = cleaned
        self._to_remove: list[PurePath] = []

    def _path(self, suffix: str, ending: str = "") -> PurePath:
        return self._directory / (offset_file(self._base_offset, suffix) + ending)

    def prepare(self) -> None:
        """Step 1. The ``.log`` comes last: it is the sign that all is there."""
        for suffix in (*SIDECAR_SUFFIXES, LOG):
            if self._disk.exists(self._path(suffix, CLEANED)):
                self._disk.rename(self._path(suffix, CLEANED), self._path(suffix, SWAP))

    def cancel(self) -> None:
        """Instead of step 3: the old segments are not all there any more, or a step has failed."""
        for suffix in reversed(_LOG_LAST):  # the .log first: without it there is nothing to finish
            self._disk.remove(self._path(suffix, SWAP))

    def begin(self, old: Sequence[Segment]) -> None:
        """Step 3, without what readers see, which is the caller's to change in the same turn."""
        for segment in old:
            segment.close()
            self._to_remove += set_aside(self._disk, segment)
        for suffix in SIDECAR_SUFFIXES:
            if self._disk.exists(self._path(suffix, SWAP)):
                self._disk.rename(self._path(suffix, SWAP), self._path(suffix))

    def sync(self) -> None:
        """Steps 2 and 4."""
        self._disk.sync_directory(self._directory)

    def end(self, new: Segment) -> None:
        """Step 5."""
        self._disk.rename(self._path(LOG, SWAP), self._path(LOG))
        new.ending = ""

    def clean_up(self) -> None:
        """Step 6."""
        self._disk.sync_directory(self._directory)
        for path in self._to_remove:
            self._disk.remove(path)


def set_aside(disk: Disk, segment: Segment) -> Iterator[PurePath]:
    """Rename a segment's files, so that they are not a segment any more; yields each new name when it is there.

    The ``.log`` comes last: as long as it has its name, the others are its own. Raises StorageError.
    """
    for suffix in _LOG_LAST:
        path = segment.path(suffix)
        if disk.exists(path):
            target = path.with_name(path.name + DELETED)
            disk.rename(path, target)
            yield target


def finish_swaps(disk: Disk, directory: PurePath) -> None:
    """Finish what a crash has left between the steps, before the partition is opened. Raises StorageError."""
    names = disk.list(directory)
    for name in names:
        if name.endswith(CLEANED):
            disk.remove(directory / name)
    swapped = [
        parsed[0]
        for parsed in (parse_offset_file(name.removesuffix(SWAP)) for name in names if name.endswith(LOG + SWAP))
        if parsed
    ]
    for base_offset in swapped:
        _finish(disk, directory, base_offset)
    for name in names:  # of a swap that was cancelled
        if name.endswith(SWAP):
            disk.remove(directory / name)


def _finish(disk: Disk, directory: PurePath, base_offset: int) -> None:
    end_offset = _end_offset(disk, directory, base_offset)
    parsed = [parse_offset_file(name) for name in disk.list(directory)]
    for base in {file[0] for file in parsed if file is not None and file[1] in (LOG, REMOTE)}:
        if base_offset <= base < end_offset:
            for suffix in _LOG_LAST:
                disk.remove(directory / offset_file(base, suffix))
    for suffix in SIDECAR_SUFFIXES:
        path = directory / offset_file(base_offset, suffix)
        if disk.exists(path.with_name(path.name + SWAP)):
            disk.rename(path.with_name(path.name + SWAP), path)
    disk.sync_directory(directory)
    path = directory / offset_file(base_offset, LOG)
    disk.rename(path.with_name(path.name + SWAP), path)
    disk.sync_directory(directory)


def _end_offset(disk: Disk, directory: PurePath, base_offset: int) -> int:
    """Where the new segment ends: by its seal, which may have its name already, or by its headers."""
    file = disk.open(directory / (offset_file(base_offset, LOG) + SWAP))
    try:
        size = file.size_bytes()
        for ending in (SWAP, ""):
            seal = decode_seal(read_file(disk, directory / (offset_file(base_offset, SEAL) + ending)))
            if seal is not None and seal.log_bytes == size:
                return seal.end_offset
        end_offset = base_offset
        with suppress(CorruptBatchError):  # damaged since then: its readable part shows which segments it replaces
            for _, header in walk_headers(file, Start(0, base_offset), size):
                end_offset = header.next_offset
        return end_offset
    finally:
        file.close()
