"""The steps of a share group: a member's heartbeat (it joins, stays or leaves), and its time-outs.

Each step changes the group and returns the records to write. The answer is sent when they are durable. No I/O, no
clock: ``ShareNow`` has the time, ``topics`` the existing topics.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from mainstem.broker.coordinator.effects import StateRecord
from mainstem.broker.error_codes import refusal
from mainstem.broker.share import group_records
from mainstem.broker.share.assignor import Assignment, TopicShape, assign
from mainstem.broker.share.group import ShareGroup, ShareMember
from mainstem.broker.share.group_records import ShareGroupChange
from mainstem.protocol.errors import ErrorCode
from mainstem.protocol.messages import share_group_heartbeat as messages
from mainstem.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse

JOIN_EPOCH: Final = 0
LEAVE_EPOCH: Final = -1
_MEMBER_ID_LENGTH_MAX: Final = 36


@dataclass(frozen=True, slots=True)
class GroupLimits:
    """The limits from the settings and the group's configs."""

    members_max: int
    heartbeat_interval_ms: int
    session_timeout_ms: int


@dataclass(frozen=True, slots=True)
class ShareNow:
    """The time of a step, and the settings that it obeys."""

    monotonic_s: float
    time_ms: int
    limits: GroupLimits


@dataclass(slots=True)
class GroupEffects:
    """The records of a step, in order, and its answer."""

    records: list[StateRecord] = field(default_factory=list)
    answer: ShareGroupHeartbeatResponse | None = None


def check_request(request: ShareGroupHeartbeatRequest) -> None:
    """Whether the request can be meant. Raises RemoteError."""
    if not request.group_id.strip():
        raise refusal(ErrorCode.INVALID_REQUEST, "the heartbeat names no group")
    check_member_id(request.member_id)
    if request.member_epoch < LEAVE_EPOCH:
        raise refusal(ErrorCode.INVALID_REQUEST, f"invalid member epoch {request.member_epoch}: use -1 or more")
    if request.rack_id is not None and not request.rack_id.strip():
        raise refusal(ErrorCode.INVALID_REQUEST, "the rack id is empty: send null or a name")
    if request.member_epoch == JOIN_EPOCH and not request.subscribed_topic_names:
        raise refusal(ErrorCode.INVALID_REQUEST, "subscribed topic names are required when joining")


def check_member_id(member_id: str | None) -> None:
    """Check a member id. Raises RemoteError."""
    if not member_id or len(member_id) > _MEMBER_ID_LENGTH_MAX:
        raise refusal(
            ErrorCode.INVALID_REQUEST, f"a member must choose an id of 1 to {_MEMBER_ID_LENGTH_MAX} characters"
        )


def heartbeat(
    group: ShareGroup,
    request: ShareGroupHeartbeatRequest,
    sender: tuple[str, str],
    topics: Mapping[str, TopicShape],
    now: ShareNow,
) -> GroupEffects:
    """A member says that it is there. ``sender``: its client's id and host. Raises RemoteError."""
    if request.member_epoch == LEAVE_EPOCH:
        return _leave(group, request.member_id, topics, now)
    effects = GroupEffects()
    member = _member(group, request, sender, now)
    is_new = member.member_id not in group.members
    known = None if is_new else group_records.member_record(group.group_id, member)
    subscribed = member.topics
    _update(member, request, sender)
    member.session_deadline_s = now.monotonic_s + now.limits.session_timeout_ms / 1000
    group.members[member.member_id] = member
    record = group_records.member_record(group.group_id, member)
    if record != known:
        effects.records.append(record)
    _maybe_rebalance(group, topics, now, effects, has_changed=is_new or member.topics != subscribed)
    has_changed = _reconcile(group, member, effects)
    wants_all = request.member_epoch == JOIN_EPOCH or request.subscribed_topic_names is not None
    effects.answer = ShareGroupHeartbeatResponse(
        error_code=ErrorCode.NONE,
        member_id=member.member_id,
        member_epoch=member.epoch,
        heartbeat_interval_ms=now.limits.heartbeat_interval_ms,
        assignment=_to_wire(member.assigned) if wants_all or has_changed else None,
    )
    return effects


def _member(
    group: ShareGroup, request: ShareGroupHeartbeatRequest, sender: tuple[str, str], now: ShareNow
) -> ShareMember:
    member = group.members.get(request.member_id)
    if request.member_epoch == JOIN_EPOCH:
        if member is None and len(group.members) >= now.limits.members_max:
            raise refusal(ErrorCode.GROUP_MAX_SIZE_REACHED, f"the group has {len(group.members)} members")
        return member or ShareMember(request.member_id, request.rack_id, *sender, topics=())
    if member is None:
        raise refusal(ErrorCode.UNKNOWN_MEMBER_ID)
    # The answer with the new epoch may be lost: then the member still has the previous epoch.
    if request.member_epoch not in (member.epoch, member.previous_epoch):
        raise refusal(
            ErrorCode.FENCED_MEMBER_EPOCH, f"the member's epoch is {member.epoch}, not {request.member_epoch}"
        )
    return member


def _update(member: ShareMember, request: ShareGroupHeartbeatRequest, sender: tuple[str, str]) -> None:
    member.client_id, member.client_host = sender
    if request.rack_id is not None:
        member.rack_id = request.rack_id
    if request.subscribed_topic_names is not None:
        member.topics = tuple(sorted(set(request.subscribed_topic_names)))


def _leave(group: ShareGroup, member_id: str, topics: Mapping[str, TopicShape], now: ShareNow) -> GroupEffects:
    if member_id not in group.members:
        raise refusal(ErrorCode.UNKNOWN_MEMBER_ID)
    effects = _remove(group, [member_id], topics, now)
    effects.answer = ShareGroupHeartbeatResponse(
        error_code=ErrorCode.NONE, member_id=member_id, member_epoch=LEAVE_EPOCH, heartbeat_interval_ms=0
    )
    return effects


def expire(group: ShareGroup, topics: Mapping[str, TopicShape], now: ShareNow) -> GroupEffects:
    """Put out the members that were silent for too long."""
    silent = [member.member_id for member in group.members.values() if member.session_deadline_s <= now.monotonic_s]
    return _remove(group, silent, topics, now) if silent else GroupEffects()


def _remove(group: ShareGroup, gone: Sequence[str], topics: Mapping[str, TopicShape], now: ShareNow) -> GroupEffects:
    effects = GroupEffects()
    for member_id in gone:
        del group.members[member_id]
        group.target.pop(member_id, None)
        effects.records += group_records.member_tombstones(group.group_id, member_id)
    _maybe_rebalance(group, topics, now, effects, has_changed=True)
    return effects


def _maybe_rebalance(
    group: ShareGroup,
    topics: Mapping[str, TopicShape],
    now: ShareNow,
    effects: GroupEffects,
    *,
    has_changed: bool,
) -> None:
    """Make a new target if members, subscriptions or topics are not what they were."""
    metadata_hash = hash_of(group.topics, topics)
    if not has_changed and metadata_hash == group.metadata_hash:
        return
    group.epoch += 1
    group.metadata_hash = metadata_hash
    effects.records.append(group_records.epoch_record(group))
    target = assign({name: member.topics for name, member in group.members.items()}, topics, group.target)
    for member_id, assignment in target.items():
        if assignment != group.target.get(member_id):
            effects.records.append(group_records.target_record(group.group_id, member_id, assignment))
    group.target = target
    group.assignment_epoch = group.epoch
    effects.records.append(group_records.target_epoch_record(group, now.time_ms))


def _reconcile(group: ShareGroup, member: ShareMember, effects: GroupEffects) -> bool:
    """Let a member have what the target says; whether that is something else than it had."""
    if member.epoch == group.assignment_epoch:
        return False
    target = group.target.get(member.member_id, {})
    has_changed = target != member.assigned
    member.previous_epoch, member.epoch = member.epoch, group.assignment_epoch
    member.assigned = target
    effects.records.append(group_records.current_record(group.group_id, member))
    return has_changed


# ---- replay


def replay_group(group: ShareGroup, change: ShareGroupChange) -> None:
    """Take in what a record says of a group."""
    value = change.value
    if change.record_type == group_records.GROUP_TYPE and value is not None:
        group.epoch, group.metadata_hash = value.epoch, value.metadata_hash
    elif change.record_type == group_records.TARGET_TYPE:
        group.assignment_epoch = value.assignment_epoch if value is not None else 0
    elif change.record_type == group_records.SHARED_TYPE:
        group.shared = group_records.shared_of(value) if value is not None else {}


def replay_member(group: ShareGroup, change: ShareGroupChange) -> None:
    """Take in what a record says of a member; a member is there from its metadata until their tombstone."""
    member_id, value = change.member_id or "", change.value
    if change.record_type == group_records.TARGET_MEMBER_TYPE:
        if value is None:
            group.target.pop(member_id, None)
        else:
            group.target[member_id] = group_records.assignment_of(value.topic_partitions)
        return
    if change.record_type == group_records.MEMBER_TYPE and value is None:
        group.members.pop(member_id, None)
        return
    if value is None:
        return
    member = group.members.setdefault(member_id, ShareMember(member_id, None, "", "", ()))
    if change.record_type == group_records.MEMBER_TYPE:
        member.rack_id, member.topics = value.rack_id, tuple(value.subscribed_topic_names)
        member.client_id, member.client_host = value.client_id, value.client_host
    else:
        member.epoch, member.previous_epoch = value.member_epoch, value.previous_member_epoch
        member.assigned = group_records.assignment_of(value.assigned_partitions)


def hash_of(names: Iterable[str], topics: Mapping[str, TopicShape]) -> int:
    """A hash of the subscribed topics; 0 when there are none."""
    shapes = [f"{name}:{topics[name].topic_id}:{topics[name].partitions}" for name in names if name in topics]
    return zlib.crc32("\n".join(shapes).encode()) if shapes else 0


def _to_wire(assignment: Assignment) -> messages.Assignment:
    return messages.Assignment(
        topic_partitions=[
            messages.TopicPartitions(topic_id=topic_id, partitions=list(numbers))
            for topic_id, numbers in sorted(assignment.items())
        ]
    )
