"""The steps of a classic group: join, sync, heartbeat, leave, and its time-outs.

Each step changes the group. It returns the records to write, and the answers to send when the records are durable. No
I/O, no clock, no randomness: ``ClassicNow`` has the time, the caller gives new member ids. The protocol is Kafka's
newest group protocol; older versions differ only in the fields of their messages, and by ``ClassicNow.settings``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from mainstem.broker.coordinator.effects import Effects, Reply
from mainstem.broker.coordinator.timers import NEVER
from mainstem.broker.error_codes import refusal
from mainstem.broker.groups.classic.classic_group import ClassicGroup, GroupState, Member
from mainstem.broker.groups.records import group_record
from mainstem.errors import RemoteError
from mainstem.protocol.errors import ErrorCode
from mainstem.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse, JoinGroupResponseMember
from mainstem.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberResponse
from mainstem.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse

_NEW_MEMBER_JOIN_TIMEOUT_S: Final = 300.0
_EMPTY: Final = GroupState.EMPTY
_PREPARING: Final = GroupState.PREPARING_REBALANCE
_COMPLETING: Final = GroupState.COMPLETING_REBALANCE
_STABLE: Final = GroupState.STABLE


@dataclass(frozen=True, slots=True)
class ClassicSettings:
    """The broker settings that the steps obey."""

    session_timeout_ms_min: int = 6000
    session_timeout_ms_max: int = 1_800_000
    initial_rebalance_delay_ms: int = 0
    members_max: int = 2**31 - 1


@dataclass(frozen=True, slots=True)
class ClassicNow:
    """The time of a step, and the settings that it obeys."""

    monotonic_s: float
    time_ms: int
    settings: ClassicSettings


@dataclass(frozen=True, slots=True)
class Joiner:
    """The sender of a JoinGroup. It gets the id ``new_member_id`` if it has none."""

    client_id: str
    client_host: str
    new_member_id: str
    knows_member_id_required: bool
    knows_skip_assignment: bool


# ---- join


def check_session(request: JoinGroupRequest, settings: ClassicSettings) -> None:
    """Whether a session may be as long as a joiner asks for; whatever the group is. Raises RemoteError."""
    low, high = settings.session_timeout_ms_min, settings.session_timeout_ms_max
    if not low <= request.session_timeout_ms <= high:
        raise refusal(
            ErrorCode.INVALID_SESSION_TIMEOUT,
            f"session_timeout_ms={request.session_timeout_ms}: must be from {low} to {high}",
        )


def join(group: ClassicGroup, request: JoinGroupRequest, joiner: Joiner, reply: Reply, now: ClassicNow) -> Effects:
    """A member wants to be in the next generation. Its answer comes when that generation begins."""
    effects = Effects()
    names = [protocol.name for protocol in request.protocols]
    try:
        _check_joiner(group, request, names, now.settings)
        if not request.member_id:
            _join_without_id(group, request, joiner, reply, now, effects)
        elif request.member_id in group.pending_members:
            _add(group, request, joiner, request.member_id, reply, now, effects)
        else:
            _rejoin(group, request, reply, now, effects)
    except RemoteError as error:
        effects.answer(reply, join_error(ErrorCode(error.code), request.member_id))
    return effects


def _check_joiner(group: ClassicGroup, request: JoinGroupRequest, names: list[str], settings: ClassicSettings) -> None:
    if group.state is GroupState.DEAD:
        raise refusal(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    known = request.member_id in group.members or request.member_id in group.pending_members
    if not known and len(group.members) + len(group.pending_members) >= settings.members_max:
        raise refusal(ErrorCode.GROUP_MAX_SIZE_REACHED)
    if not group.supports(request.protocol_type, names):
        raise refusal(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)


def _join_without_id(
    group: ClassicGroup,
    request: JoinGroupRequest,
    joiner: Joiner,
    reply: Reply,
    now: ClassicNow,
    effects: Effects,
) -> None:
    instance_id = request.group_instance_id
    if instance_id is not None and instance_id in group.static_members:
        _replace_static(group, request, joiner, reply, now, effects)
    elif instance_id is None and joiner.knows_member_id_required:
        deadline_s = now.monotonic_s + request.session_timeout_ms / 1000
        group.pending_members[joiner.new_member_id] = deadline_s
        effects.answer(reply, join_error(ErrorCode.MEMBER_ID_REQUIRED, joiner.new_member_id))
    else:
        _add(group, request, joiner, joiner.new_member_id, reply, now, effects)


def _add(
    group: ClassicGroup,
    request: JoinGroupRequest,
    joiner: Joiner,
    member_id: str,
    reply: Reply,
    now: ClassicNow,
    effects: Effects,
) -> None:
    member = Member(
        member_id,
        request.group_instance_id,
        joiner.client_id,
        joiner.client_host,
        rebalance_timeout_ms(request),
        request.session_timeout_ms,
        request.protocol_type,
        _protocols(request),
        is_new=True,
        join_reply=reply,
        # A new member cannot send heartbeats before its first answer: it is given longer.
        session_deadline_s=now.monotonic_s + _NEW_MEMBER_JOIN_TIMEOUT_S,
    )
    group.add(member)
    if group.state is _PREPARING and group.previous_state is _EMPTY:
        group.member_added = True
    _rebalance_or_complete(group, now, effects)


def _rejoin(group: ClassicGroup, request: JoinGroupRequest, reply: Reply, now: ClassicNow, effects: Effects) -> None:
    member = group.member(request.member_id, request.group_instance_id)
    if group.state is _EMPTY:
        raise refusal(ErrorCode.UNKNOWN_MEMBER_ID)
    unchanged = member.protocols == _protocols(request)
    follows = group.leader != member.member_id
    if unchanged and (group.state is _COMPLETING or (group.state is _STABLE and follows)):
        # It did not get its answer, or wants to know where it stands: the generation stays.
        effects.answer(reply, _joined(group, member))
        return
    _update(member, request, reply, effects)
    _rebalance_or_complete(group, now, effects)


def _update(member: Member, request: JoinGroupRequest, reply: Reply, effects: Effects) -> None:
    if member.join_reply is not None:
        effects.answer(member.join_reply, join_error(ErrorCode.UNKNOWN_MEMBER_ID, member.member_id))
    member.protocols = _protocols(request)
    member.rebalance_timeout_ms = rebalance_timeout_ms(request)
    member.session_timeout_ms = request.session_timeout_ms
    member.join_reply = reply


def _replace_static(
    group: ClassicGroup,
    request: JoinGroupRequest,
    joiner: Joiner,
    reply: Reply,
    now: ClassicNow,
    effects: Effects,
) -> None:
    """A static member came back without its id: it gets a new one, and its old self is fenced."""
    assert request.group_instance_id is not None
    old_leader = group.leader
    old_id = group.static_members[request.group_instance_id]
    member = group.replace_static(request.group_instance_id, joiner.new_member_id)
    if member.join_reply is not None:
        effects.answer(member.join_reply, join_error(ErrorCode.FENCED_INSTANCE_ID, old_id))
        member.join_reply = None
    if member.sync_reply is not None:
        effects.answer(member.sync_reply, _sync_error(ErrorCode.FENCED_INSTANCE_ID))
        member.sync_reply = None
    _update(member, request, reply, effects)
    _extend_session(member, now)
    if group.state is _STABLE and group.select_protocol() == group.protocol:
        member.join_reply = None
        effects.records.append(group_record(group))
        answer = _joined(group, member)
        if joiner.knows_skip_assignment:
            answer.skip_assignment = group.leader == member.member_id
        else:
            answer.leader, answer.members = old_leader or "", []
        effects.answer(reply, answer)
    elif group.state is _COMPLETING:
        # The leader may already assign to the id that is gone.
        _prepare_rebalance(group, now, effects)
    else:
        _rebalance_or_complete(group, now, effects)


def rebalance(group: ClassicGroup, now: ClassicNow) -> Effects:
    """Begin a rebalance, whatever the members do."""
    effects = Effects()
    _prepare_rebalance(group, now, effects)
    return effects


def dismissed(group: ClassicGroup) -> Effects:
    """The group goes on as another type: members that wait for an answer are asked to join again."""
    effects = Effects()
    for member in group.members.values():
        if member.join_reply is not None:
            effects.answer(member.join_reply, join_error(ErrorCode.REBALANCE_IN_PROGRESS, member.member_id))
        if member.sync_reply is not None:
            effects.answer(member.sync_reply, _sync_error(ErrorCode.REBALANCE_IN_PROGRESS))
    return effects


def _rebalance_or_complete(group: ClassicGroup, now: ClassicNow, effects: Effects) -> None:
    if group.is_in(_EMPTY, _STABLE, _COMPLETING):
        _prepare_rebalance(group, now, effects)
    elif group.state is _PREPARING and group.previous_state is not _EMPTY and group.have_all_joined:
        _complete_join(group, now, effects)


def _prepare_rebalance(group: ClassicGroup, now: ClassicNow, effects: Effects) -> None:
    if group.state is _COMPLETING:
        for member in group.members.values():
            member.assignment = b""
        _answer_syncs(group, ErrorCode.REBALANCE_IN_PROGRESS, now, effects)
    group.pending_sync.clear()
    is_first = group.state is _EMPTY
    group.move_to(_PREPARING, now.time_ms)
    if is_first:
        delay_ms = now.settings.initial_rebalance_delay_ms
        group.member_added = False
        group.initial_delay_left_ms = max(group.rebalance_timeout_ms - delay_ms, 0)
        group.rebalance_deadline_s = now.monotonic_s + delay_ms / 1000
        if delay_ms == 0:
            _complete_join(group, now, effects)
    elif group.have_all_joined:
        _complete_join(group, now, effects)
    else:
        group.rebalance_deadline_s = now.monotonic_s + group.rebalance_timeout_ms / 1000


def _complete_join(group: ClassicGroup, now: ClassicNow, effects: Effects) -> None:
    """Remove dynamic members that have not joined (static members stay); the rest form the next generation."""
    group.rebalance_deadline_s = NEVER
    for member in list(group.members.values()):
        if member.join_reply is None and not member.is_static:
            group.remove(member.member_id)
    if group.members and not _elect_joined_leader(group):
        # Only static members are left, and none is back: wait until they are, or their sessions end.
        group.rebalance_deadline_s = now.monotonic_s + group.rebalance_timeout_ms / 1000
        return
    group.generation_id = (group.generation_id + 1) & 0x7FFFFFFF
    group.pending_sync.clear()
    if not group.members:
        group.protocol = group.leader = None
        group.move_to(_EMPTY, now.time_ms)
        effects.records.append(group_record(group))
        return
    group.protocol = group.select_protocol()
    group.move_to(_COMPLETING, now.time_ms)
    for member in group.members.values():
        if member.join_reply is not None:
            effects.answer(member.join_reply, _joined(group, member))
            member.join_reply = None
        _extend_session(member, now)
        member.is_new = False
        group.pending_sync.add(member.member_id)
    group.rebalance_deadline_s = now.monotonic_s + group.rebalance_timeout_ms / 1000


def _elect_joined_leader(group: ClassicGroup) -> bool:
    """See that the leader is one who has joined; whether there is one."""
    leader = group.members.get(group.leader) if group.leader is not None else None
    if leader is not None and leader.join_reply is not None:
        return True
    joined = next((member for member in group.members.values() if member.join_reply is not None), None)
    if joined is None:
        return False
    group.leader = joined.member_id
    return True


def _joined(group: ClassicGroup, member: Member) -> JoinGroupResponse:
    leads = group.leader == member.member_id
    return JoinGroupResponse(
        error_code=ErrorCode.NONE,
        generation_id=group.generation_id,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol or "",
        leader=group.leader or "",
        member_id=member.member_id,
        members=[
            JoinGroupResponseMember(
                member_id=other.member_id,
                group_instance_id=other.instance_id,
                metadata=other.metadata_for(group.protocol),
            )
            for other in (group.members.values() if leads else ())
        ],
    )


def join_error(code: ErrorCode, member_id: str) -> JoinGroupResponse:
    """The answer to a member that cannot be in the next generation."""
    return JoinGroupResponse(
        error_code=code, generation_id=-1, protocol_name=None, leader="", member_id=member_id, members=[]
    )


def _protocols(request: JoinGroupRequest) -> list[tuple[str, bytes]]:
    return [(protocol.name, protocol.metadata) for protocol in request.protocols]


def rebalance_timeout_ms(request: JoinGroupRequest) -> int:
    """The rebalance time-out. Version 0 has none: the session time-out is used."""
    return request.rebalance_timeout_ms if request.rebalance_timeout_ms >= 0 else request.session_timeout_ms


def _extend_session(member: Member, now: ClassicNow) -> None:
    member.session_deadline_s = now.monotonic_s + member.session_timeout_ms / 1000


# ---- sync


def sync(group: ClassicGroup, request: SyncGroupRequest, reply: Reply, now: ClassicNow) -> Effects:
    """A member asks for its assignment; the leader sends everyone's."""
    effects = Effects()
    try:
        member = _check_sync(group, request)
    except RemoteError as error:
        if error.code == ErrorCode.REBALANCE_IN_PROGRESS:
            # It has shown that it lives, and may take a while to join again.
            _extend_session(group.members[request.member_id], now)
        effects.answer(reply, _sync_error(ErrorCode(error.code)))
        return effects
    group.pending_sync.discard(member.member_id)
    if not group.pending_sync and group.is_in(_COMPLETING, _STABLE):
        group.rebalance_deadline_s = NEVER
    if group.state is _STABLE:
        _extend_session(member, now)
        effects.answer(reply, _synced(group, member))
        return effects
    if member.sync_reply is not None:
        effects.answer(member.sync_reply, _sync_error(ErrorCode.UNKNOWN_MEMBER_ID))
    member.sync_reply = reply
    if group.leader == member.member_id:
        given: Mapping[str, bytes] = {item.member_id: item.assignment for item in request.assignments}
        for other in group.members.values():
            other.assignment = given.get(other.member_id, b"")
        group.move_to(_STABLE, now.time_ms)
        effects.records.append(group_record(group))
        _answer_syncs(group, ErrorCode.NONE, now, effects)
    return effects


def _check_sync(group: ClassicGroup, request: SyncGroupRequest) -> Member:
    if group.state is GroupState.DEAD:
        raise refusal(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    member = group.member(request.member_id, request.group_instance_id)
    if request.generation_id != group.generation_id:
        raise refusal(ErrorCode.ILLEGAL_GENERATION)
    for theirs, ours in ((request.protocol_type, group.protocol_type), (request.protocol_name, group.protocol)):
        if theirs is not None and ours is not None and theirs != ours:
            raise refusal(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    if group.state is _PREPARING:
        raise refusal(ErrorCode.REBALANCE_IN_PROGRESS)
    if group.state is _EMPTY:
        raise refusal(ErrorCode.UNKNOWN_MEMBER_ID)
    return member


def _answer_syncs(group: ClassicGroup, code: ErrorCode, now: ClassicNow, effects: Effects) -> None:
    for member in group.members.values():
        if member.sync_reply is None:
            continue
        answer = _synced(group, member) if code is ErrorCode.NONE else _sync_error(code)
        effects.answer(member.sync_reply, answer)
        member.sync_reply = None
        _extend_session(member, now)


def _synced(group: ClassicGroup, member: Member) -> SyncGroupResponse:
    return SyncGroupResponse(
        error_code=ErrorCode.NONE,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol,
        assignment=member.assignment,
    )


def _sync_error(code: ErrorCode) -> SyncGroupResponse:
    return SyncGroupResponse(error_code=code, assignment=b"")


# ---- heartbeat, leave


def heartbeat(
    group: ClassicGroup, member_id: str, instance_id: str | None, generation_id: int, now: ClassicNow
) -> ErrorCode:
    """A member says that it lives; the answer says whether it should join again."""
    try:
        if group.state is GroupState.DEAD:
            raise refusal(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        member = group.member(member_id, instance_id)
        if generation_id != group.generation_id:
            raise refusal(ErrorCode.ILLEGAL_GENERATION)
    except RemoteError as error:
        return ErrorCode(error.code)
    if group.state is _EMPTY:
        return ErrorCode.UNKNOWN_MEMBER_ID
    _extend_session(member, now)
    return ErrorCode.REBALANCE_IN_PROGRESS if group.state is _PREPARING else ErrorCode.NONE


def leave(
    group: ClassicGroup,
    request: LeaveGroupRequest,
    reply: Reply,
    now: ClassicNow,
    *,
    leaves_alone: bool = False,
) -> Effects:
    """Members leave, or are removed by their instance ids; the rest share their work again.

    ``leaves_alone``: before version 3 one member leaves, and its error is the answer's.
    """
    effects = Effects()
    if group.state is GroupState.DEAD:
        effects.answer(reply, LeaveGroupResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE))
        return effects
    members = []
    members_before = len(group.members)
    for member_id, instance_id in [(each.member_id, each.group_instance_id) for each in request.members]:
        code = _leave_one(group, member_id, instance_id, effects)
        members.append(MemberResponse(member_id=member_id, group_instance_id=instance_id, error_code=code))
    if len(group.members) < members_before:
        _after_removal(group, now, effects)
    else:
        _maybe_complete(group, now, effects)
    error_code = members[0].error_code if leaves_alone else ErrorCode.NONE
    effects.answer(reply, LeaveGroupResponse(error_code=error_code, members=members))
    return effects


def _leave_one(group: ClassicGroup, member_id: str, instance_id: str | None, effects: Effects) -> ErrorCode:
    if not member_id and instance_id is not None:
        member_id = group.static_members.get(instance_id, "")
    if member_id in group.pending_members:
        group.remove(member_id)
        return ErrorCode.NONE
    try:
        member = group.member(member_id, instance_id)
    except RemoteError as error:
        return ErrorCode(error.code)
    _remove(group, member, effects)
    return ErrorCode.NONE


def _remove(group: ClassicGroup, member: Member, effects: Effects) -> None:
    if member.join_reply is not None:
        effects.answer(member.join_reply, join_error(ErrorCode.UNKNOWN_MEMBER_ID, ""))
        member.join_reply = None
    if member.sync_reply is not None:
        effects.answer(member.sync_reply, _sync_error(ErrorCode.UNKNOWN_MEMBER_ID))
        member.sync_reply = None
    group.remove(member.member_id)


def _after_removal(group: ClassicGroup, now: ClassicNow, effects: Effects) -> None:
    if group.is_in(_STABLE, _COMPLETING):
        _prepare_rebalance(group, now, effects)
    else:
        _maybe_complete(group, now, effects)


def _maybe_complete(group: ClassicGroup, now: ClassicNow, effects: Effects) -> None:
    """Complete the join if all members have joined. Pending ids that were never used are not in the generation."""
    # A new group goes on waiting for more members, unless it has none left.
    waits_for_more = group.previous_state is _EMPTY and group.members
    if group.state is _PREPARING and group.have_all_joined and not waits_for_more:
        _complete_join(group, now, effects)


# ---- time


def expire(group: ClassicGroup, now: ClassicNow) -> Effects:
    """Do what the clock asks for: end sessions, forget unused pending ids, end a phase of a rebalance."""
    effects = Effects()
    removed = False
    for member_id, deadline_s in list(group.pending_members.items()):
        if deadline_s <= now.monotonic_s:
            group.remove(member_id)
    for member in list(group.members.values()):
        if member.session_deadline_s <= now.monotonic_s:
            removed = _expire_member(group, member, effects) or removed
    if removed:
        _after_removal(group, now, effects)
    else:
        _maybe_complete(group, now, effects)
    if group.rebalance_deadline_s <= now.monotonic_s:
        _expire_phase(group, now, effects)
    return effects


def _expire_member(group: ClassicGroup, member: Member, effects: Effects) -> bool:
    waits = member.join_reply is not None or member.sync_reply is not None
    if waits and not member.is_new:
        # It waits for an answer of ours, so it cannot be asked for a heartbeat: the answer sets a new deadline.
        member.session_deadline_s = NEVER
        return False
    _remove(group, member, effects)
    return True


def _expire_phase(group: ClassicGroup, now: ClassicNow, effects: Effects) -> None:
    group.rebalance_deadline_s = NEVER
    if group.state is _PREPARING:
        delay_ms = now.settings.initial_rebalance_delay_ms
        if group.previous_state is _EMPTY and group.member_added and group.initial_delay_left_ms > 0:
            group.member_added = False
            wait_ms = min(delay_ms, group.initial_delay_left_ms)
            group.initial_delay_left_ms = max(group.initial_delay_left_ms - delay_ms, 0)
            group.rebalance_deadline_s = now.monotonic_s + wait_ms / 1000
        else:
            _complete_join(group, now, effects)
    elif group.is_in(_COMPLETING, _STABLE) and group.pending_sync:
        for member_id in list(group.pending_sync):
            _remove(group, group.members[member_id], effects)
        _prepare_rebalance(group, now, effects)
