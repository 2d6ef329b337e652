"""A topic's partitions, each opened on first use; requests that need no open partition do not open one.

Concurrency: the event loop only.
"""

from __future__ import annotations

from collections.abc import Sequence

from mainstem.errors import PartitionOfflineError, UnknownTopicError
from mainstem.log.node.directory import LogDirectory
from mainstem.log.partition.partition_log import PartitionLog
from mainstem.model import TopicPartition


class TopicPartitions(Sequence["PartitionLog | None"]):
    """Partition logs by number; None for a partition that cannot be opened: it is offline."""

    __slots__ = ("_count", "_directory", "_logs", "_topic")

    def __init__(self, directory: LogDirectory, topic: str, count: int) -> None:
        self._directory = directory
        self._topic = topic
        self._count = count
        self._logs: dict[int, PartitionLog] = {}

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, number: int) -> PartitionLog | None:  # type: ignore[override]
        """Return the log, opened if necessary. Raises UnknownTopicError when the topic was deleted."""
        log = self._logs.get(number)
        if log is None:
            if not 0 <= number < self._count:
                raise IndexError(number)
            try:
                log = self._directory.get(TopicPartition(self._topic, number))
            except PartitionOfflineError:
                return None
            self._logs[number] = log
        return log

    def require(self, number: int) -> PartitionLog:
        """Return the log. Raises UnknownTopicError, PartitionOfflineError."""
        log = self._logs.get(number)
        if log is None:
            if not 0 <= number < self._count:
                raise UnknownTopicError(f"topic {self._topic!r} has no partition {number}")
            log = self[number]
            if log is None:
                place = f"{self._topic}/{number}"
                raise PartitionOfflineError(f"{place} could not be opened; the log of the node says why")
        return log

    def opened(self) -> list[PartitionLog]:
        """Return the open logs."""
        names = (TopicPartition(self._topic, number) for number in range(self._count))
        found = (self._directory.partitions.get(name) for name in names)
        return [log for log in found if log is not None]

    def leader_epoch(self, number: int) -> int | None:
        """Return a partition's leader epoch without opening the partition; None when it is offline.

        For an unopened partition this is the node's epoch; the node never gives out a lower one. If the partition's log
        has a higher epoch, a client that uses the node's epoch gets an error and asks again.
        """
        name = TopicPartition(self._topic, number)
        log = self._directory.partitions.get(name)
        if log is not None:
            return log.leader_epoch
        return None if name in self._directory.offline else self._directory.leader_epoch
