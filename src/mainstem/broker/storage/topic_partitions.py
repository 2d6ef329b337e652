"""A topic's partitions, each opened when it is first asked for: what can be said without opening any, is.

Concurrency: the event loop only.
"""

from __future__ import annotations

from collections.abc import Sequence

from mainstem.errors import PartitionOfflineError
from mainstem.log.node.directory import LogDirectory
from mainstem.log.partition.partition_log import PartitionLog
from mainstem.model import TopicPartition


class TopicPartitions(Sequence["PartitionLog | None"]):
    """Their logs by number; None for one that the disk does not let be opened: it is offline."""

    __slots__ = ("_count", "_directory", "_logs", "_topic")

    def __init__(self, directory: LogDirectory, topic: str, count: int) -> None:
        self._directory = directory
        self._topic = topic
        self._count = count
        self._logs: dict[int, PartitionLog] = {}

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, number: int) -> PartitionLog | None:  # type: ignore[override]
        """Open it, if it is not. Raises UnknownTopicError when the topic was deleted."""
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

    def opened(self) -> list[PartitionLog]:
        """The logs of those that are open."""
        names = (TopicPartition(self._topic, number) for number in range(self._count))
        found = (self._directory.partitions.get(name) for name in names)
        return [log for log in found if log is not None]

    def leader_epoch(self, number: int) -> int | None:
        """The leader epoch of a partition, None when it is offline; it is not opened for that.

        One that waits to be opened has the node's: no lower one is given out, and if its log knows a higher one, a
        client that uses this is told to ask again.
        """
        name = TopicPartition(self._topic, number)
        log = self._directory.partitions.get(name)
        if log is not None:
            return log.leader_epoch
        return None if name in self._directory.offline else self._directory.leader_epoch
