"""The coordinator of classic groups: runs their steps, writes their records, and watches their deadlines.

A step that may write runs on a copy of its group. The copy replaces the group when its records are written, so memory
is never ahead of the log, even when a write fails. A rebalance in progress is not written: after a restart its members
join again. Concurrency: the event loop only.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable
from typing import Final, TypeAlias

from mainstem.broker.call import Call
from mainstem.broker.coordinator.effects import Effects, new_reply
from mainstem.broker.coordinator.timers import GroupTimers
from mainstem.broker.error_codes import coordinator_code, refusal
from mainstem.broker.groups.classic import classic_steps
from mainstem.broker.groups.classic.classic_group import ClassicGroup, GroupState, Member, copy_group
from mainstem.broker.groups.group_log import GroupLog
from mainstem.broker.groups.group_types import GroupRegistry, GroupType
from mainstem.broker.groups.offsets.offsets import OffsetStore
from mainstem.broker.groups.records import GROUP_KEY_TYPE, read_group_change
from mainstem.clock import Clock
from mainstem.errors import MainstemError, RemoteError
from mainstem.protocol.errors import ErrorCode
from mainstem.protocol.messages.group_records import GroupMetadataValue
from mainstem.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from mainstem.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity, MemberResponse
from mainstem.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from mainstem.protocol.schema import Message

_Step: TypeAlias = "Callable[[ClassicGroup], Effects]"
_MEMBER_ID_REQUIRED_FROM: Final = 4
_MEMBER_ID_PREFIX_MAX: Final = 1000  # so that the id is a string that the protocol can carry
_SKIP_ASSIGNMENT_FROM: Final = 9
_NULL_PROTOCOL_FROM: Final = 7
_MEMBERS_LEAVE_FROM: Final = 3


class ClassicCoordinator:
    """All classic groups of this node; a ``GroupKind``. A group that only has committed offsets is one of them."""

    record_types = frozenset({GROUP_KEY_TYPE})

    def __init__(
        self,
        log: GroupLog,
        groups: GroupRegistry,
        offsets: OffsetStore,
        clock: Clock,
        settings: classic_steps.ClassicSettings,
    ) -> None:
        self._log = log
        self._groups = groups
        self._offsets = offsets
        self._clock = clock
        self.settings = settings
        self._timers = GroupTimers(clock, self._expire)
        self._leaderless: set[str] = set()

    # ---- start and stop

    def replay(self, key: bytes, value: bytes | None) -> None:
        """Take a record in when the node starts. Raises FrameError for one that is damaged."""
        change = read_group_change(key, value)
        self._leaderless.discard(change.group_id)
        if change.value is not None:
            if change.value.members and change.value.leader is None:
                self._leaderless.add(change.group_id)
            self._groups.put(_replayed(change.group_id, change.value))
        elif self._offsets.has(change.group_id):
            self._groups.put(ClassicGroup(change.group_id))
        else:
            self._groups.remove(change.group_id)

    def loaded(self) -> None:
        """Members of a generation get a whole session to show that they live."""
        now = self.now()
        for group in self._groups:
            if isinstance(group, ClassicGroup):
                for member in group.members.values():
                    member.session_deadline_s = now.monotonic_s + member.session_timeout_ms / 1000
                if group.group_id in self._leaderless:
                    # It was a consumer group, and the rebalance that its change began had not ended.
                    classic_steps.rebalance(group, now)
                self._watch(group)
        self._leaderless.clear()

    def stop(self) -> None:
        """Forget all timers."""
        self._timers.stop()

    # ---- membership

    def join(self, call: Call) -> asyncio.Future[Message]:
        """JoinGroup: answered when the next generation begins."""
        request: JoinGroupRequest = call.body
        future, reply_with = new_reply()

        def reply(answer: Message) -> None:
            assert isinstance(answer, JoinGroupResponse)
            reply_with(self.fill_in(answer, call.api_version))

        try:
            group = self._find_to_join(request)
        except MainstemError as error:
            code = coordinator_code(error)
            is_other_type = code is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
            reply(classic_steps.join_error(code, "" if is_other_type else request.member_id))
            return future
        joiner = self.joiner(call)
        self._run(
            group,
            lambda group: classic_steps.join(group, request, joiner, reply, self.now()),
            writes=request.group_instance_id in group.static_members,
        )
        return future

    def joiner(self, call: Call) -> classic_steps.Joiner:
        """The sender of a JoinGroup, with a new member id for it."""
        prefix = (call.body.group_instance_id or call.client_id or "member")[:_MEMBER_ID_PREFIX_MAX]
        return classic_steps.Joiner(
            client_id=call.client_id or "",
            client_host=call.client_host,
            new_member_id=f"{prefix}-{uuid.uuid4()}",
            knows_member_id_required=call.api_version >= _MEMBER_ID_REQUIRED_FROM,
            knows_skip_assignment=call.api_version >= _SKIP_ASSIGNMENT_FROM,
        )

    def fill_in(self, answer: JoinGroupResponse, api_version: int) -> JoinGroupResponse:
        """The answer as a client of this version reads it."""
        if not answer.protocol_name:
            answer.protocol_name = None if api_version >= _NULL_PROTOCOL_FROM else ""
        return answer

    def _find_to_join(self, request: JoinGroupRequest) -> ClassicGroup:
        if code := self._log.refusal(request.group_id):
            raise refusal(code)
        classic_steps.check_session(request, self.settings)
        group = self._groups.get(request.group_id)
        member_id = request.member_id
        if isinstance(group, ClassicGroup) and not member_id:
            member_id = group.static_members.get(request.group_instance_id or "", "")
        protocols = [(each.name, each.metadata) for each in request.protocols]
        self._groups.member_bytes.check_names(request.group_id, member_id, protocols)
        if isinstance(group, ClassicGroup):
            return group
        if group is not None and not (group.group_type is GroupType.CONSUMER and group.is_empty):
            raise refusal(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        if request.member_id:
            raise refusal(ErrorCode.UNKNOWN_MEMBER_ID)
        if group is not None:
            # The group goes on with the classic protocol, which it may while it is empty.
            self._log.change(request.group_id, group.tombstones())
        return self.create(request.group_id)

    def sync(self, call: Call) -> asyncio.Future[Message]:
        """SyncGroup: answered when the leader has sent the assignment."""
        request: SyncGroupRequest = call.body
        future, reply = new_reply()
        try:
            group = self._find(request.group_id)
            if request.member_id == group.leader:
                assignments = [each.assignment for each in request.assignments]
                self._groups.member_bytes.check_assignments(request.group_id, assignments)
        except RemoteError as error:
            reply(SyncGroupResponse(error_code=error.code, assignment=b""))
        else:
            self._run(
                group,
                lambda group: classic_steps.sync(group, request, reply, self.now()),
                writes=request.member_id == group.leader,
            )
        return future

    def heartbeat(self, group_id: str, member_id: str, instance_id: str | None, generation_id: int) -> ErrorCode:
        """Heartbeat: nothing is written, so the answer is at once."""
        try:
            group = self._find(group_id)
        except RemoteError as error:
            return ErrorCode(error.code)
        code = classic_steps.heartbeat(group, member_id, instance_id, generation_id, self.now())
        self._watch(group)
        return code

    def leave(self, call: Call) -> asyncio.Future[Message]:
        """LeaveGroup."""
        request: LeaveGroupRequest = call.body
        if call.api_version < _MEMBERS_LEAVE_FROM:
            request.members = [MemberIdentity(member_id=request.member_id)]
        future, reply = new_reply()
        try:
            group = self._find(request.group_id)
        except RemoteError as error:
            reply(_left_no_group(request, call.api_version, ErrorCode(error.code)))
        else:
            alone = call.api_version < _MEMBERS_LEAVE_FROM

            def leave(group: ClassicGroup) -> Effects:
                return classic_steps.leave(group, request, reply, self.now(), leaves_alone=alone)

            self._run(group, leave, writes=True)
        return future

    def _find(self, group_id: str) -> ClassicGroup:
        """The group. Raises RemoteError: the group does not exist (UNKNOWN_MEMBER_ID), or its partition is unusable."""
        if code := self._log.refusal(group_id):
            raise refusal(code)
        group = self._groups.get(group_id)
        if not isinstance(group, ClassicGroup):
            raise refusal(ErrorCode.UNKNOWN_MEMBER_ID)
        return group

    # ---- for the coordinator of all groups

    def create(self, group_id: str) -> ClassicGroup:
        """A new group without members; its first record is written when it has more than that."""
        group = ClassicGroup(group_id)
        self._groups.put(group)
        return group

    def adopt(self, group: ClassicGroup) -> None:
        """A group of another type goes on as this one; its records are written."""
        self._apply(group)

    def alive(self, group: ClassicGroup, member_id: str) -> None:
        """A member has shown by another request than a heartbeat that it lives."""
        member = group.members.get(member_id)
        if member is not None:
            member.session_deadline_s = self._clock.monotonic_s() + member.session_timeout_ms / 1000

    def forgotten(self, group_id: str) -> None:
        """A classic group was deleted."""
        self._timers.forget(group_id)

    def drop_if_unused(self, group_id: str) -> None:
        """Forget a group that was never written and that nothing refers to. Until then admins see it, as in Kafka."""
        group = self._groups.get(group_id)
        if not isinstance(group, ClassicGroup) or not group.is_unused or self._offsets.has(group_id):
            return
        group.state = GroupState.DEAD
        self._groups.remove(group_id)
        self._timers.forget(group_id)

    # ---- running steps

    def now(self) -> classic_steps.ClassicNow:
        """The time and the settings of a step."""
        return classic_steps.ClassicNow(self._clock.monotonic_s(), self._clock.time_ms(), self.settings)

    def _run(self, group: ClassicGroup, step: _Step, *, writes: bool) -> MainstemError | None:
        """Run a step, write its records, and then let the group be what the step made of it; an error if it stays.

        ``writes``: the step may write records. One that does not changes the group in place, which costs no copy.
        """
        changed = copy_group(group) if writes else group
        effects = step(changed)
        assert writes or not effects.records
        error = self._log.run(group.group_id, effects, lambda: self._apply(changed))
        if error is not None:
            self.drop_if_unused(group.group_id)
        return error

    def _apply(self, group: ClassicGroup) -> None:
        self._groups.put(group)
        self._watch(group)

    def _watch(self, group: ClassicGroup) -> None:
        self._timers.watch(group.group_id, group.next_deadline_s())

    def _expire(self, group_id: str) -> None:
        group = self._groups.get(group_id)
        if isinstance(group, ClassicGroup):
            error = self._run(group, lambda group: classic_steps.expire(group, self.now()), writes=True)
            if error is not None:
                raise error


def _left_no_group(request: LeaveGroupRequest, version: int, code: ErrorCode) -> LeaveGroupResponse:
    """Members leave a group that is not there: from version 3 on each of them is unknown, and the request is served."""
    if version < _MEMBERS_LEAVE_FROM or code is not ErrorCode.UNKNOWN_MEMBER_ID:
        return LeaveGroupResponse(error_code=code)
    members = [
        MemberResponse(member_id=each.member_id, group_instance_id=each.group_instance_id, error_code=code)
        for each in request.members
    ]
    return LeaveGroupResponse(error_code=ErrorCode.NONE, members=members)


def _replayed(group_id: str, value: GroupMetadataValue) -> ClassicGroup:
    group = ClassicGroup(
        group_id,
        state=GroupState.STABLE if value.members else GroupState.EMPTY,
        generation_id=value.generation,
        protocol_type=value.protocol_type or None,
        protocol=value.protocol,
        leader=value.leader,
        state_timestamp_ms=value.current_state_timestamp,
    )
    for held in value.members:
        group.add(
            Member(
                held.member_id,
                held.group_instance_id,
                held.client_id,
                held.client_host,
                held.rebalance_timeout if held.rebalance_timeout >= 0 else held.session_timeout,
                held.session_timeout,
                value.protocol_type,
                [(value.protocol or "", held.subscription)],
                assignment=held.assignment,
            )
        )
    return group
