"""Transaction markers: they end a transaction in the partitions that it wrote to.

A marker counts when it is durable. In ``__consumer_offsets`` it also decides whether the offsets of the transaction
count. Concurrency: the event loop only.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Final, NamedTuple, Protocol

from mainstem.broker.storage.group_commit import GroupCommit
from mainstem.broker.storage.topics import OFFSETS_TOPIC, Topics
from mainstem.broker.transactions.state import ProducerIdAndEpoch
from mainstem.clock import Clock
from mainstem.errors import MainstemError, ProducerError, TransactionCoordinatorFencedError, UnknownTopicError
from mainstem.log.partition.partition_log import PartitionLog
from mainstem.model import TopicPartition

_LOG: Final = logging.getLogger("mainstem.broker.transactions")


class Marker(NamedTuple):
    """A marker that ends a producer's transaction. ``coordinator_epoch`` fences markers of an older coordinator.

    ``raises_epoch``: its epoch is greater than that of the records it ends (KIP-890), which distinguishes it from a
    late marker.
    """

    producer: ProducerIdAndEpoch
    coordinator_epoch: int
    commit: bool
    raises_epoch: bool


class TransactionalOffsetStore(Protocol):
    """The keeper of the offsets that transactions commit."""

    def end_transaction(self, partition: int, producer_id: int, *, commit: bool) -> None: ...


class Markers:
    """Writes markers."""

    def __init__(self, topics: Topics, commit: GroupCommit, clock: Clock, offsets: TransactionalOffsetStore) -> None:
        self._topics = topics
        self._commit = commit
        self._clock = clock
        self._offsets = offsets

    async def write(self, partitions: Iterable[TopicPartition], marker: Marker) -> dict[TopicPartition, MainstemError]:
        """Write ``marker`` to each of ``partitions``; returns when all are durable.

        The partitions that could not be done, each with the reason, are returned. A partition that is gone needs none;
        after this no other has an open transaction of the producer.
        """
        failed: dict[TopicPartition, MainstemError] = {}
        written: list[tuple[TopicPartition, PartitionLog, int]] = []
        for each in sorted(partitions):
            try:
                if self._ends_nothing_in_mirror(each, marker):
                    continue
                written.append((each, *self.append(each, marker)))
            except UnknownTopicError:
                _LOG.info("no marker for %s, which was deleted", each)
            except ProducerError as error:
                try:
                    ended = self._end_refused(each, marker, error)
                except MainstemError as second:
                    failed[each] = second
                    continue
                if ended is not None:
                    written.append((each, *ended))
            except MainstemError as error:
                failed[each] = error
        for each, log, next_offset in written:
            try:
                await self._commit.durable(log, next_offset)
            except MainstemError as error:
                failed[each] = error
        return failed

    def _ends_nothing_in_mirror(self, partition: TopicPartition, marker: Marker) -> bool:
        """Whether the partition became a mirror before the transaction wrote to it: then it takes no marker."""
        topic = self._topics.existing(partition.topic)
        if not topic.is_mirror:
            return False
        held = topic.partition(partition.partition).producers()
        return not any(
            each.producer_id == marker.producer.producer_id and each.transaction_first_offset >= 0 for each in held
        )

    def _end_refused(
        self, partition: TopicPartition, marker: Marker, error: ProducerError
    ) -> tuple[PartitionLog, int] | None:
        """End the producer's transaction in a partition that refused its coordinator's marker; None if none is open.

        This node is the only coordinator. A partition that knows a later epoch shows that the coordinator has lost
        something, or that an administrator wrote a marker with an epoch of its own. (Kafka gives the marker up, because
        there a newer coordinator writes its own.) A later coordinator epoch does not change the decision. A later
        producer epoch means that the coordinator does not know the open transaction. It can never commit, so it is
        aborted; left open, it would hide every later record of the partition.
        """
        log = self._topics.partition(partition.topic, partition.partition)
        producer_id = marker.producer.producer_id
        held = next((each for each in log.producers() if each.producer_id == producer_id), None)
        if held is None or held.transaction_first_offset < 0:
            _LOG.info("no marker for %s, where producer %d has no open transaction: %s", partition, producer_id, error)
            return None
        if isinstance(error, TransactionCoordinatorFencedError):
            return self.append(partition, marker._replace(coordinator_epoch=held.coordinator_epoch))
        _LOG.error("%s: an unknown transaction of producer %d is aborted: %s", partition, producer_id, error)
        epoch = max(marker.coordinator_epoch, held.coordinator_epoch)
        return self.append(
            partition, Marker(ProducerIdAndEpoch(producer_id, held.epoch), epoch, commit=False, raises_epoch=False)
        )

    def append(self, partition: TopicPartition, marker: Marker) -> tuple[PartitionLog, int]:
        """Write ``marker`` to one partition; the log and the offset that has to become durable.

        Raises UnknownTopicError, PartitionOfflineError, ProducerError, StorageError.
        """
        log = self._topics.partition(partition.topic, partition.partition)
        result = log.append_marker(
            marker.producer.producer_id,
            marker.producer.epoch,
            commit=marker.commit,
            coordinator_epoch=marker.coordinator_epoch,
            timestamp_ms=self._clock.time_ms(),
            bumps_epoch=marker.raises_epoch,
        )
        if partition.topic == OFFSETS_TOPIC:
            self._offsets.end_transaction(partition.partition, marker.producer.producer_id, commit=marker.commit)
        self._commit.appended(log)
        return log, result.last_offset + 1
