"""The names of the log's files and directories: Kafka's, plus ``.seal``, ``.remote`` and ``.cut``. Pure functions.

``DATA/<topic>-<partition>/<base offset, 20 digits>.{log,index,timeindex,txnindex,snapshot,seal}``. A snapshot's number
is the offset that it was taken at. What each file holds: docs/internals/log-format.md.
"""

from __future__ import annotations

import re
from typing import Final

from mainstem.model import TopicPartition, is_topic_name

LOG: Final = ".log"
OFFSET_INDEX: Final = ".index"
TIME_INDEX: Final = ".timeindex"
TRANSACTION_INDEX: Final = ".txnindex"
SNAPSHOT: Final = ".snapshot"
SEAL: Final = ".seal"
REMOTE: Final = ".remote"
"""Where the bytes of a segment are in the store of the backup: then its ``.log`` may be gone."""
CUT: Final = ".cut"
DELETED: Final = ".deleted"
"""The suffix of a file that does not belong to the log any more, and will be removed."""
DELETED_DIRECTORY: Final = "-delete"
STRAY_DIRECTORY: Final = "-stray"
SIDECAR_SUFFIXES: Final = (SEAL, OFFSET_INDEX, TIME_INDEX, TRANSACTION_INDEX)
SEGMENT_SUFFIXES: Final = (REMOTE, LOG, *SIDECAR_SUFFIXES)
"""In the order in which they are removed: a ``.remote`` that outlives its ``.log`` would be a segment."""

LEADER_EPOCH_CHECKPOINT: Final = "leader-epoch-checkpoint"
PARTITION_METADATA: Final = "partition.metadata"
META_PROPERTIES: Final = "meta.properties"
RECOVERY_POINT_CHECKPOINT: Final = "recovery-point-offset-checkpoint"
LOG_START_CHECKPOINT: Final = "log-start-offset-checkpoint"
HIGH_WATERMARK_CHECKPOINT: Final = "replication-offset-checkpoint"
CLEANER_CHECKPOINT: Final = "cleaner-offset-checkpoint"
CLEAN_SHUTDOWN: Final = ".kafka_cleanshutdown"
NODE_CHECKPOINT: Final = "mainstem-checkpoint"
REMOTE_PARTITIONS: Final = "mainstem-remote-partitions"
"""Of which partitions the backup shall write ``.remote`` files: a line for each directory. The log writes it."""
GRADUATED: Final = "graduated"
"""Where the log of a directory went that was given up for Apache Kafka's: no log starts on such a directory."""
LOCK: Final = ".lock"

_OFFSET_FILE = re.compile(r"(\d{20})(\.[a-z]+)")
_PARTITION_DIRECTORY = re.compile(r"([A-Za-z0-9._-]{1,249})-(\d{1,10})")


def offset_file(offset: int, suffix: str) -> str:
    """The name of a file that belongs to an offset, e.g. ``00000000000000000042.log``."""
    return f"{offset:020d}{suffix}"


def parse_offset_file(name: str) -> tuple[int, str] | None:
    """Offset and suffix of such a name; None for any other."""
    match = _OFFSET_FILE.fullmatch(name)
    return (int(match[1]), match[2]) if match else None


def partition_directory(topic_partition: TopicPartition) -> str:
    """The name of a partition's directory: ``<topic>-<partition>``."""
    return f"{topic_partition.topic}-{topic_partition.partition}"


def parse_partition_directory(name: str) -> TopicPartition | None:
    """The partition that a directory's name says; None for any other name."""
    match = _PARTITION_DIRECTORY.fullmatch(name)
    if match is None or not is_topic_name(match[1]) or int(match[2]) >= 2**31 or str(int(match[2])) != match[2]:
        return None
    return TopicPartition(match[1], int(match[2]))


def set_aside_directory(topic_partition: TopicPartition, unique: str, suffix: str) -> str:
    """The new name of a deleted or stray partition's directory, as in Kafka. At most 255 characters."""
    return f"{partition_directory(topic_partition)[: 255 - len(unique) - 1 - len(suffix)]}.{unique}{suffix}"
