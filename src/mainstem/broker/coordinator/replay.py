"""Reads an internal topic from the log start, to restore a coordinator's state at start."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from mainstem.broker.storage.topics import Topic
from mainstem.errors import CorruptBatchError, FrameError
from mainstem.log.partition.partition_log import PartitionLog
from mainstem.record.header import BatchHeader, iter_headers
from mainstem.record.reader import DecodedRecord, read_records

Take: TypeAlias = "Callable[[PartitionLog, BatchHeader, Sequence[DecodedRecord]], None]"
_READ_BYTES: Final = 4 * 1024 * 1024


def replay(topic: Topic | None, take: Take, log: logging.Logger, what: str) -> set[PartitionLog]:
    """Pass every batch with its records to ``take``, in order, from the log start on; None counts as an empty topic.

    Returns the partitions with damaged batches or records; the damage is logged to ``log``. The state after the damage
    is unknown. Going on without it could undo answers that clients already have, so the caller must not serve ``what``
    these partitions keep.
    """
    damaged = set()
    for partition in topic.logs if topic is not None else ():
        try:
            _replay(partition, take)
        except (CorruptBatchError, FrameError) as error:
            log.error("the %s of %s cannot be served: %s", what, partition.topic_partition, error)
            damaged.add(partition)
    return damaged


def _replay(log: PartitionLog, take: Take) -> None:
    start_offset = offset = log.log_start_offset
    while offset < log.high_watermark:
        result = log.read(offset, _READ_BYTES)
        if not result.buffers:
            return
        for buffer in result.buffers:
            for file_position, header in iter_headers(buffer):
                records = read_records(buffer[file_position : file_position + header.size_bytes])
                if header.base_offset < start_offset:
                    records = [record for record in records if record.offset >= start_offset]
                take(log, header, records)
                offset = header.next_offset
