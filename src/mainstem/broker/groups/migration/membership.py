"""JoinGroup, SyncGroup, Heartbeat and LeaveGroup: of classic groups, and of consumer groups that have members.

A coroutine runs some time after the request that it serves was read. Another request may have replaced the group by
then, even by one of the other type, so the coroutine looks the group up itself.

Concurrency: the event loop only.
"""

from __future__ import annotations

from collections.abc import Awaitable

from mainstem.broker.call import Call
from mainstem.broker.error_codes import coordinator_code, refusal
from mainstem.broker.groups.classic.classic_coordinator import ClassicCoordinator
from mainstem.broker.groups.classic.classic_steps import check_session, join_error
from mainstem.broker.groups.consumer.consumer_coordinator import ConsumerCoordinator
from mainstem.broker.groups.consumer.consumer_group import ConsumerGroup
from mainstem.broker.groups.group_log import GroupLog
from mainstem.broker.groups.group_types import GroupRegistry
from mainstem.broker.groups.migration import mixed_steps
from mainstem.errors import MainstemError, RemoteError
from mainstem.protocol.errors import ErrorCode
from mainstem.protocol.messages.join_group import JoinGroupRequest
from mainstem.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from mainstem.protocol.schema import Message


class Membership:
    """The APIs of the classic protocol, whatever the type of the group."""

    def __init__(
        self, log: GroupLog, groups: GroupRegistry, classic: ClassicCoordinator, consumer: ConsumerCoordinator
    ) -> None:
        self._log = log
        self._groups = groups
        self._classic = classic
        self._consumer = consumer

    def join(self, call: Call) -> Awaitable[Message]:
        """JoinGroup: answered when the next generation begins; in a consumer group, when the change is durable."""
        return self._classic.join(call) if self._consumer_group(call.body.group_id) is None else self._join(call)

    async def _join(self, call: Call) -> Message:
        request: JoinGroupRequest = call.body
        group = self._consumer_group(request.group_id)
        if group is None or group.is_empty:  # an empty one goes on as a classic group
            return await self._classic.join(call)
        joiner = self._classic.joiner(call)
        try:
            self._check(request.group_id)
            check_session(request, self._classic.settings)
            member_id = request.member_id or group.static_members.get(request.group_instance_id or "", "")
            protocols = [(each.name, each.metadata) for each in request.protocols]
            self._groups.member_bytes.check_names(request.group_id, member_id, protocols)
            now, members_max = self._consumer.now(request.group_id), self._classic.settings.members_max
            joined = mixed_steps.join(group, request, joiner, now, members_max)
            self._consumer.keep(joined.step, replaced_last=joined.replaced_last)
            await self._log.until_durable(request.group_id)
        except MainstemError as error:
            code = coordinator_code(error)
            named = {
                ErrorCode.MEMBER_ID_REQUIRED: joiner.new_member_id,
                ErrorCode.INVALID_SESSION_TIMEOUT: request.member_id,
            }
            return self._classic.fill_in(join_error(code, named.get(code, "")), call.api_version)
        return joined.answer

    def sync(self, call: Call) -> Awaitable[Message]:
        """SyncGroup: answered when the leader has sent the assignment; in a consumer group at once."""
        return self._classic.sync(call) if self._consumer_group(call.body.group_id) is None else self._sync(call)

    async def _sync(self, call: Call) -> Message:
        request: SyncGroupRequest = call.body
        group = self._consumer_group(request.group_id)
        if group is None:
            return await self._classic.sync(call)
        try:
            self._check(request.group_id)
            answer = mixed_steps.sync(group, request, self._consumer.now(request.group_id))
            await self._log.until_durable(request.group_id)
        except MainstemError as error:
            answer = SyncGroupResponse(error_code=coordinator_code(error), assignment=b"")
        self._consumer.watch(request.group_id)
        return answer

    def heartbeat(self, group_id: str, member_id: str, instance_id: str | None, generation_id: int) -> ErrorCode:
        """Heartbeat: nothing is written, so the answer is at once."""
        group = self._consumer_group(group_id)
        if group is None:
            return self._classic.heartbeat(group_id, member_id, instance_id, generation_id)
        try:
            self._check(group_id)
            now = self._consumer.now(group_id)
            code = mixed_steps.heartbeat(group, member_id, instance_id, generation_id, now)
        except RemoteError as error:
            code = ErrorCode(error.code)
        self._consumer.watch(group_id)
        return code

    def leave(self, call: Call) -> Awaitable[Message]:
        """LeaveGroup."""
        return self._classic.leave(call) if self._consumer_group(call.body.group_id) is None else self._leave(call)

    async def _leave(self, call: Call) -> Message:
        group = self._consumer_group(call.body.group_id)
        return await (self._classic.leave(call) if group is None else self._consumer.remove(group, call))

    def _consumer_group(self, group_id: str) -> ConsumerGroup | None:
        group = self._groups.get(group_id)
        return group if isinstance(group, ConsumerGroup) else None

    def _check(self, group_id: str) -> None:
        if code := self._log.refusal(group_id):
            raise refusal(code)
