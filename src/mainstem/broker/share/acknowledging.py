"""Code that ShareFetch and ShareAcknowledge share: the session of the caller, and its acknowledgements."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol
from uuid import UUID

from mainstem.broker.error_codes import error_code, refusal
from mainstem.broker.share.acquisition import Acknowledgement
from mainstem.broker.share.group_steps import check_member_id
from mainstem.broker.share.sessions import SessionKey, SharedPartition
from mainstem.broker.share.state_records import ShareKey
from mainstem.errors import MainstemError
from mainstem.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from mainstem.broker.share.shares import Shares
    from mainstem.log.partition.partition_log import PartitionLog


class Outcome(NamedTuple):
    """The result of one partition's acknowledgements."""

    code: ErrorCode = ErrorCode.NONE
    message: str | None = None


class AcknowledgementBatch(Protocol):
    """Offsets and types, as both APIs have them."""

    first_offset: int
    last_offset: int
    acknowledge_types: Sequence[int]


class AcknowledgedPartition(Protocol):
    """A partition, as both APIs have it."""

    partition_index: int

    @property
    def acknowledgement_batches(self) -> Sequence[AcknowledgementBatch]: ...


class AcknowledgedTopic(Protocol):
    """A topic, as both APIs have it."""

    topic_id: UUID

    @property
    def partitions(self) -> Sequence[AcknowledgedPartition]: ...


def session_key(group_id: str | None, member_id: str | None) -> SessionKey:
    """The session key of the caller. Raises RemoteError: no group id, or an invalid member id."""
    if group_id is None:
        raise refusal(ErrorCode.INVALID_REQUEST, "group_id is null")
    check_member_id(member_id)
    return SessionKey(group_id, member_id or "")


def find_log(share: Shares, partition: SharedPartition) -> PartitionLog:
    """The log of a partition. Raises RemoteError, UnknownTopicError, PartitionOfflineError."""
    topic = share.topics.by_id(partition.topic_id)
    if topic is None:
        raise refusal(ErrorCode.UNKNOWN_TOPIC_ID)
    return topic.partition(partition.partition)


def acknowledge(
    share: Shares, key: SessionKey, topics: Iterable[AcknowledgedTopic], *, may_renew: bool
) -> dict[SharedPartition, Outcome]:
    """Apply a member's acknowledgements, each partition on its own. They are durable when ``until_durable`` returns."""
    outcomes = {}
    for topic in topics:
        for item in topic.partitions:
            if item.acknowledgement_batches:
                partition = SharedPartition(topic.topic_id, item.partition_index)
                outcomes[partition] = _acknowledge(share, key, partition, item.acknowledgement_batches, may_renew)
    return outcomes


def _acknowledge(
    share: Shares, key: SessionKey, partition: SharedPartition, batches: Sequence[AcknowledgementBatch], may_renew: bool
) -> Outcome:
    try:
        log = find_log(share, partition)
        share_partition = share.state.get(ShareKey(key.group_id, *partition))
        if share_partition is None:
            raise refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "the group shares no such partition")
        words = [Acknowledgement(batch.first_offset, batch.last_offset, batch.acknowledge_types) for batch in batches]
        share.partitions.acknowledge(share_partition, log, key.member_id, words, may_renew=may_renew)
    except MainstemError as error:
        return Outcome(error_code(error), str(error))
    return Outcome()


async def until_durable(share: Shares, key: SessionKey, outcomes: dict[SharedPartition, Outcome]) -> None:
    """Wait until the applied acknowledgements are durable. Those that cannot become durable get an error."""
    for partition, outcome in outcomes.items():
        if outcome.code == ErrorCode.NONE:
            try:
                await share.partitions.letters.until_written(ShareKey(key.group_id, *partition))
                await share.state.until_durable([ShareKey(key.group_id, *partition)])
            except MainstemError as error:
                outcomes[partition] = Outcome(error_code(error), str(error))
