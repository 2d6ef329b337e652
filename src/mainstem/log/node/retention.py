"""Rounds of retention over all partitions of a node, also those without a request since the start.

An open partition applies retention itself (``expire``). An unopened one is checked from outside: its oldest segment's
seal, or else its first batch, shows when retention can first remove something; until then it stays unopened. The result
of ``retention.bytes`` cannot change while nothing is appended, so it is checked once.

Concurrency: the owner's thread; a round is a generator, so that the owner may do other work between two partitions.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from pathlib import PurePath
from typing import Final

from mainstem.clock import Clock
from mainstem.errors import CorruptBatchError, MainstemError, PartitionOfflineError, StorageError
from mainstem.log.files.disk import Disk
from mainstem.log.files.names import LOG, REMOTE, offset_file, parse_offset_file, partition_directory
from mainstem.log.node.directory import LogDirectory
from mainstem.log.node.stored_size import size_of
from mainstem.log.partition.config import LogConfig
from mainstem.log.partition.partition_log import PartitionLog
from mainstem.log.segments.remote_segment import PiecesMissingError
from mainstem.log.segments.segment_indexes import read_seal
from mainstem.model import TopicPartition
from mainstem.record.constants import HEADER_BYTES, NO_TIMESTAMP
from mainstem.record.header import read_header

_LOG: Final = logging.getLogger(__name__)

_NEVER: Final = 2**63


class Retention:
    """One node's. ``round`` is begun again when it has ended."""

    def __init__(
        self,
        directory: LogDirectory,
        clock: Clock,
        config_of: Callable[[TopicPartition], LogConfig],
        load: Callable[[PiecesMissingError, PartitionLog], MainstemError | None] = lambda missing, _: missing,
    ) -> None:
        """``load`` begins to bring what a partition needs from the backup's store, or says why it cannot."""
        self._load = load
        self._directory = directory
        self._clock = clock
        self._config_of = config_of
        self._next_look_ms: dict[TopicPartition, tuple[LogConfig, int]] = {}

    def round(self) -> Iterator[None]:
        """Apply retention to every partition, one a step. A disk error is logged, and retried in the next round."""
        configs: dict[str, LogConfig] = {}
        for topic_partition in [*self._directory.partitions, *self._directory.waiting]:
            topic = topic_partition.topic
            if topic not in configs:
                configs[topic] = self._config_of(topic_partition)
            if "delete" in configs[topic].cleanup_policy:
                self._apply(topic_partition, configs[topic])
                yield
        waiting = self._directory.waiting
        self._next_look_ms = {each: known for each, known in self._next_look_ms.items() if each in waiting}

    def _apply(self, topic_partition: TopicPartition, config: LogConfig) -> None:
        now_ms = self._clock.time_ms()
        try:
            if topic_partition in self._directory.waiting and not self._may_expire(topic_partition, config, now_ms):
                return
            if self._directory.holds(topic_partition):
                self._expire(self._directory.get(topic_partition), now_ms)
        except (StorageError, PartitionOfflineError, CorruptBatchError) as error:
            _LOG.warning("%s: retention has to wait: %s", topic_partition, error)

    def _expire(self, log: PartitionLog, now_ms: int) -> None:
        try:
            log.cleaning.expire(now_ms)
        except PiecesMissingError as missing:
            failure = self._load(missing, log)
            _LOG.warning("%s: retention has to wait: %s", log.topic_partition, failure or missing)

    def _may_expire(self, topic_partition: TopicPartition, config: LogConfig, now_ms: int) -> bool:
        known_config, look_ms = self._next_look_ms.get(topic_partition, (None, 0))
        if known_config != config:
            path = self._directory.path / partition_directory(topic_partition)
            look_ms = _earliest_expiry_ms(self._directory.disk, path, config)
            self._next_look_ms[topic_partition] = (config, look_ms)
        return now_ms > look_ms


def _earliest_expiry_ms(disk: Disk, path: PurePath, config: LogConfig) -> int:
    """Before this time retention can take nothing from a partition to which nothing is appended."""
    parsed = [file for file in map(parse_offset_file, disk.list(path)) if file is not None]
    bases = [file[0] for file in parsed if file[1] == LOG]
    if any(file[1] == REMOTE for file in parsed):
        return 0  # to be opened: the oldest segments may be in the backup's store
    if not bases:
        return _NEVER
    if config.retention_bytes >= 0:
        sizes = [size_of(disk, path / offset_file(base, LOG)) for base in bases]
        if 0 < sum(sizes) >= sizes[0] + config.retention_bytes:
            return 0
    if config.retention_ms < 0:
        return _NEVER
    newest_ms = _known_timestamp_ms(disk, path, bases[0])
    if newest_ms is None:
        return _NEVER if len(bases) == 1 else 0
    return 0 if newest_ms == NO_TIMESTAMP else newest_ms + config.retention_ms


def _known_timestamp_ms(disk: Disk, path: PurePath, base_offset: int) -> int | None:
    """A timestamp that is in the segment, the greatest if its seal knows; None when the segment is empty."""
    seal = read_seal(disk, path, base_offset)
    if seal is None:
        return _first_timestamp_ms(disk, path / offset_file(base_offset, LOG))
    return seal.max_timestamp_ms if seal.log_bytes else None


def _first_timestamp_ms(disk: Disk, path: PurePath) -> int | None:
    """The greatest timestamp of a file's first batch; None when it has none."""
    file = disk.open(path)
    try:
        data = file.read(0, HEADER_BYTES)
    finally:
        file.close()
    try:
        return read_header(data).max_timestamp if data else None
    except CorruptBatchError:
        return NO_TIMESTAMP  # to be opened, which reports the damage
