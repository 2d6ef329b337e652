"""Which segments of a partition are in the backup's store alone, by the names in its directory.

Their seals were synced before their files left the disk. A ``.remote`` without one may be of an earlier topic of that
name: the backup may have written it while the topic was recreated. Where a ``.remote`` is lost, index files are left:
such a segment counts, and reads of it fail, so that readers do not miss its records without an error.

Functions over the disk port.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from itertools import pairwise
from pathlib import PurePath
from typing import Final
from uuid import UUID

from mainstem.errors import StorageError
from mainstem.log.files.disk import Disk
from mainstem.log.files.names import LOG, REMOTE, SEAL, SIDECAR_SUFFIXES, offset_file
from mainstem.log.partition.checkpoints import encode_uuid
from mainstem.log.segments.remote_segment import read_remote

_LOG: Final = logging.getLogger(__name__)


def remote_bases(disk: Disk, directory: PurePath, offset_files: Iterable[tuple[int, str]], topic_id: UUID) -> set[int]:
    """The base offsets of segments that have a ``.remote`` of this topic, and no ``.log``."""
    suffixes: dict[int, set[str]] = {}
    for offset, suffix in offset_files:
        suffixes.setdefault(offset, set()).add(suffix)
    away = [offset for offset, found in suffixes.items() if REMOTE in found and LOG not in found]
    return {
        each for each in away if SEAL in suffixes[each] or _is_of(disk, directory / offset_file(each, REMOTE), topic_id)
    }


def lost_bases(offset_files: Iterable[tuple[int, str]], log_start: int, durable_end: int) -> list[int]:
    """The base offsets of a tiered partition's segments of which only index files are left, without a ``.remote``.

    Each begins before ``durable_end``, up to where the log was synced, or before a segment that is in the store alone:
    past that, index files may be left of a segment that recovery has cut off. One that ends by ``log_start`` is
    deleted. The newest segment is not one of them: it was never in the store alone.
    """
    files = list(offset_files)
    known = {offset for offset, suffix in files if suffix in (LOG, REMOTE)}
    away = {offset for offset, suffix in files if suffix == REMOTE} - {each for each, suffix in files if suffix == LOG}
    left = {offset for offset, suffix in files if suffix in SIDECAR_SUFFIXES} - known
    until = min(max(durable_end, *away, 0), max(known, default=0))
    bases = sorted(known | left)
    following = dict(pairwise(bases))
    return [each for each in bases if each in left and each < until and following[each] > log_start]


def _is_of(disk: Disk, path: PurePath, topic_id: UUID) -> bool:
    try:
        stored = read_remote(disk, path)
    except StorageError:
        return True  # in doubt it is: reads of it say what is wrong
    if stored is None or stored.topic_id == encode_uuid(topic_id):
        return stored is not None
    _LOG.warning("%s is of another topic, and counts for nothing", path)
    return False
