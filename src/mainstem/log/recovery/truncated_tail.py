"""The bytes that recovery truncates from the end of a log. They are saved if they may be more than a torn write.

A ``.cut`` file holds the bytes exactly as they were in a ``.log``: those of ``<base offset>.log.<file position>.cut``
began at that position. The log never reads it again; ``DumpLogSegments`` reads it under a ``.log`` name. Functions over
the disk port.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath
from typing import Final

from mainstem.log.files.disk import Disk
from mainstem.log.files.names import CUT, LOG
from mainstem.log.segments.batch_scan import Start, walk_past_damage
from mainstem.log.segments.segment import Segment

_COPY_CHUNK_BYTES: Final = 1 << 20


def proven_end_after(segment: Segment, file_position: int, first_offset: int, later: Sequence[Segment]) -> int | None:
    """The highest next offset of any proven batch after a cut in ``segment``, also in later ones; None without one."""
    end = None
    starts = [(segment, Start(file_position, first_offset)), *((each, Start(0, each.base_offset)) for each in later)]
    for each, start in starts:
        for _, header in walk_past_damage(each.file(), start, each.file().size_bytes(), prove=True):
            end = max(end or 0, header.next_offset)
    return end


def keep_tail(disk: Disk, segment: Segment, file_position: int) -> PurePath:
    """Copy what lies from ``file_position`` on into a ``.cut`` file, durably."""
    source = segment.file()
    target_path = _cut_path(segment, file_position)
    target = disk.create(target_path)
    try:
        size = source.size_bytes()
        for start in range(file_position, size, _COPY_CHUNK_BYTES):
            target.write(start - file_position, [source.read(start, min(_COPY_CHUNK_BYTES, size - start))])
        target.sync()
    finally:
        target.close()
    disk.sync_directory(segment.directory)
    return target_path


def keep_whole(disk: Disk, segment: Segment) -> PurePath:
    """Turn a whole segment into a ``.cut`` file. Durable with the directory's next sync."""
    target_path = _cut_path(segment, 0)
    segment.close()
    disk.rename(segment.path(LOG), target_path)
    segment.remove()
    return target_path


def _cut_path(segment: Segment, file_position: int) -> PurePath:
    log = segment.path(LOG)
    return log.with_name(f"{log.name}.{file_position}{CUT}")
