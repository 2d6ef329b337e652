"""ShareFetch (78), versions 1–2: acquires records for a member, and takes acknowledgements of those it holds.

Share sessions: epoch 0 begins a session with the named partitions; later requests name only changes; epoch -1 ends it
and releases the held records. Acknowledgements in the request are processed first and are durable when answered. The
acquired records are bounded by ``max_records`` (whole batches; version 2 can count records exactly), by ``max_bytes``
except for the first batch, and by the group's limit of locks. Without records, the request waits. Version 2 can renew
locks, in a request that says so and fetches nothing.
Deliberate: the answer leaves as soon as one record is there: ``min_bytes`` is taken as 1. That a delivery was counted
is written, but not waited for: a power cut may forget it, never an acknowledgement.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Final
from uuid import UUID

from mainstem.broker.access import record_guards
from mainstem.broker.api import Api
from mainstem.broker.call import Answer, Call
from mainstem.broker.error_codes import error_code, refusal
from mainstem.broker.node import Node
from mainstem.broker.share.acknowledging import acknowledge, find_log, session_key, until_durable
from mainstem.broker.share.acquisition import AcquireMode
from mainstem.broker.share.sessions import FINAL_EPOCH, INITIAL_EPOCH, SessionKey, SharedPartition, ShareSession
from mainstem.broker.share.share_partition_manager import ShareAcquiredRecords, ShareFetchParams
from mainstem.broker.share.state_records import ShareKey
from mainstem.errors import MainstemError
from mainstem.log.partition.partition_log import PartitionLog
from mainstem.log.segments.remote_segment import PiecesMissingError
from mainstem.protocol.errors import ErrorCode
from mainstem.protocol.messages.share_fetch import (
    AcquiredRecords,
    LeaderIdAndEpoch,
    PartitionData,
    ShareFetchableTopicResponse,
    ShareFetchRequest,
    ShareFetchResponse,
)

_NOTHING: Final = ShareAcquiredRecords()


def handle(node: Node, call: Call) -> Answer | Awaitable[Answer]:
    body: ShareFetchRequest = call.body
    try:
        key = session_key(body.group_id, body.member_id)
        _check(body)
        session = _session(node, call, key)
    except MainstemError as error:
        return ShareFetchResponse(
            error_code=error_code(error),
            error_message=str(error),
            acquisition_lock_timeout_ms=0,
            responses=[],
            node_endpoints=[],
        )
    return _serve(node, body, session)


def _check(body: ShareFetchRequest) -> None:
    """Check that the request is valid. Raises RemoteError."""
    acknowledges = any(item.acknowledgement_batches for topic in body.topics for item in topic.partitions)
    if acknowledges and body.share_session_epoch == INITIAL_EPOCH:
        raise refusal(ErrorCode.INVALID_REQUEST, "a session's first request cannot acknowledge: it holds no records")
    if body.is_renew_ack and (body.max_bytes or body.min_bytes or body.max_records or body.max_wait_ms):
        raise refusal(ErrorCode.INVALID_REQUEST, "a request that renews locks fetches nothing")
    if body.share_acquire_mode not in (AcquireMode.BATCH_OPTIMIZED, AcquireMode.RECORD_LIMIT):
        raise refusal(ErrorCode.INVALID_REQUEST, f"there is no acquire mode {body.share_acquire_mode}")


def _session(node: Node, call: Call, key: SessionKey) -> ShareSession:
    """Return the member's session with the request's changes applied. Raises RemoteError."""
    body: ShareFetchRequest = call.body
    sessions = node.share.sessions
    if body.share_session_epoch == INITIAL_EPOCH:
        node.share.coordinator.find(key.group_id)
        session = sessions.begin(key, call.session)
    else:
        session = sessions.use(key, body.share_session_epoch)
        node.share.coordinator.find(key.group_id)
    if body.share_session_epoch != FINAL_EPOCH:
        session.add(body.topics)
        session.forget(body.forgotten_topics_data)
        session.advance()
    return session


async def _serve(node: Node, body: ShareFetchRequest, session: ShareSession) -> Answer:
    key = session.key
    outcomes = acknowledge(node.share, key, body.topics, may_renew=body.is_renew_ack)
    found: dict[SharedPartition, PartitionData] = {}
    if body.share_session_epoch == FINAL_EPOCH:
        node.share.sessions.end(session)
    elif not body.is_renew_ack:
        found = await _fetch(node, body, session)
    await until_durable(node.share, key, outcomes)
    for partition in session.untold:
        found.setdefault(partition, _data(partition))
    session.untold = {partition for partition, data in found.items() if data.error_code} & session.partitions.keys()
    for partition, outcome in outcomes.items():
        data = found.setdefault(partition, _data(partition))
        data.acknowledge_error_code, data.acknowledge_error_message = outcome.code, outcome.message
    return ShareFetchResponse(
        error_code=ErrorCode.NONE,
        acquisition_lock_timeout_ms=node.share.partitions.lock_duration_ms(key.group_id),
        responses=_responses(found),
        node_endpoints=[],
    )


async def _fetch(node: Node, body: ShareFetchRequest, session: ShareSession) -> dict[SharedPartition, PartitionData]:
    """Return new records or errors of the session's partitions, at the latest when the time is over."""
    deadline_s = node.clock.monotonic_s() + body.max_wait_ms / 1000
    is_first = True
    while True:
        logs: list[PartitionLog] = []
        found = _look(node, body, session, logs, is_first=is_first)
        is_first = False
        left_s = deadline_s - node.clock.monotonic_s()
        # The loop runs nothing else between the look and the wait, so no change is missed.
        if found or not logs or left_s <= 0 or not await node.fetches.wait(logs, left_s) or session.is_closed:
            return found


def _look(
    node: Node, body: ShareFetchRequest, session: ShareSession, logs: list[PartitionLog], *, is_first: bool
) -> dict[SharedPartition, PartitionData]:
    """Acquire what is there now; ``logs`` are those that may have something later.

    Only the first look creates the state of a partition. Later, a missing state was deleted, perhaps with its group.
    """
    found: dict[SharedPartition, PartitionData] = {}
    group_id, member_id = session.key
    left_bytes = max(0, min(body.max_bytes, node.settings.fetch_bytes_max))
    left_records = body.max_records
    mode = AcquireMode(body.share_acquire_mode)
    limits = node.share.partitions.limits(group_id)
    for partition in session.in_turn():
        try:
            log = find_log(node.share, partition)
            if left_records <= 0 or (left_bytes <= 0 and found):
                continue  # an unknown partition is answered at once all the same, as in Kafka
            key = ShareKey(group_id, *partition)
            if not is_first and node.share.state.get(key) is None:
                continue
            share_partition = node.share.partitions.open(key, log)
            wanted = ShareFetchParams(member_id, left_records, max(1, body.batch_size), mode)
            delivered = node.share.partitions.acquire(share_partition, log, wanted, limits, left_bytes)
        except PiecesMissingError as missing:  # old records, which are loaded from the store meanwhile
            failure = node.remote.begin(missing, log)
            if failure is not None:
                found[partition] = _data(partition, code=error_code(failure), message=str(failure))
                continue
            delivered = _NOTHING
        except MainstemError as error:
            found[partition] = _data(partition, code=error_code(error), message=str(error))
            continue
        logs.append(log)
        if delivered.acquired:
            found[partition] = _data(partition, delivered)
            left_bytes -= delivered.size_bytes
            left_records -= delivered.record_count
    return found


def _data(
    partition: SharedPartition,
    delivered: ShareAcquiredRecords = _NOTHING,
    *,
    code: ErrorCode = ErrorCode.NONE,
    message: str | None = None,
) -> PartitionData:
    acquired = [
        AcquiredRecords(first_offset=run.first, last_offset=run.last, delivery_count=run.delivery_count)
        for run in delivered.acquired
    ]
    return PartitionData(
        partition_index=partition.partition,
        error_code=code,
        error_message=message,
        acknowledge_error_code=ErrorCode.NONE,
        current_leader=LeaderIdAndEpoch(leader_id=0, leader_epoch=0),
        records=list(delivered.buffers),
        acquired_records=acquired,
    )


def _responses(found: dict[SharedPartition, PartitionData]) -> list[ShareFetchableTopicResponse]:
    by_topic: dict[UUID, list[PartitionData]] = {}
    for partition, data in found.items():
        by_topic.setdefault(partition.topic_id, []).append(data)
    return [ShareFetchableTopicResponse(topic_id=topic_id, partitions=items) for topic_id, items in by_topic.items()]


API = Api(ShareFetchRequest, handle, record_guards.share_fetch)
