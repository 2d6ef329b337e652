"""The coordinator of consumer groups (KIP-848): runs their steps, writes their records, and watches their deadlines.

``assigned_coordinator`` has what it shares with streams groups. Concurrency: the event loop only.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from mainstem.broker.call import Call
from mainstem.broker.coordinator.effects import StateRecord
from mainstem.broker.error_codes import coordinator_code, refusal
from mainstem.broker.groups.assigned_coordinator import AssignedCoordinator, KindOfGroup
from mainstem.broker.groups.classic.classic_coordinator import ClassicCoordinator
from mainstem.broker.groups.classic.classic_group import ClassicGroup
from mainstem.broker.groups.classic.classic_steps import dismissed
from mainstem.broker.groups.consumer import consumer_steps as steps
from mainstem.broker.groups.consumer.consumer_group import ConsumerGroup
from mainstem.broker.groups.consumer.consumer_records import KEYS, read_record
from mainstem.broker.groups.consumer.consumer_replay import finish_replay, replay_into
from mainstem.broker.groups.group_log import GroupLog
from mainstem.broker.groups.group_types import GroupRegistry
from mainstem.broker.groups.migration import conversion
from mainstem.broker.groups.offsets.offsets import OffsetStore
from mainstem.broker.storage.topics import Topics
from mainstem.clock import Clock
from mainstem.errors import MainstemError
from mainstem.protocol.errors import ErrorCode
from mainstem.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from mainstem.protocol.messages.consumer_group_records import ConsumerGroupMetadataKey
from mainstem.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberResponse
from mainstem.protocol.schema import Message

_MEMBERS_LEAVE_FROM: Final = 3
_LOG: Final = logging.getLogger("mainstem.broker.groups")


_KIND: Final = KindOfGroup(ConsumerGroup, ConsumerGroupMetadataKey, read_record, replay_into, finish_replay)


class ConsumerCoordinator(AssignedCoordinator[ConsumerGroup]):
    """All consumer groups of this node. ``settings_of`` says what a group obeys."""

    record_types = frozenset(KEYS)

    def __init__(
        self,
        log: GroupLog,
        groups: GroupRegistry,
        offsets: OffsetStore,
        classic: ClassicCoordinator,
        topics: Topics,
        clock: Clock,
        settings_of: Callable[[str], steps.ConsumerSettings],
    ) -> None:
        super().__init__(_KIND, log, groups, offsets, topics, clock)
        self._classic = classic
        self._settings_of = settings_of

    def _resume(self, group: ConsumerGroup) -> None:
        step = steps.Step(group, self.now(group.group_id))
        for member in group.members.values():
            steps.extend(step, member)

    # ---- members

    async def heartbeat(self, call: Call, may_see: Callable[[str], bool]) -> Message:
        """ConsumerGroupHeartbeat: answered when what it changed is durable.

        ``may_see`` says whether the sender may know of a topic that its regular expression matches.
        """
        request: ConsumerGroupHeartbeatRequest = call.body
        try:
            await self._resolve_patterns(request)
            step = self._step(request, call, may_see)
            await self._log.until_durable(request.group_id)
        except MainstemError as error:
            return ConsumerGroupHeartbeatResponse(
                error_code=coordinator_code(error), error_message=str(error), member_epoch=0, heartbeat_interval_ms=0
            )
        assert step.answer is not None
        return step.answer

    async def remove(self, group: ConsumerGroup, call: Call) -> Message:
        """Serve LeaveGroup in a consumer group; the answer comes when the change is durable.

        ``group`` is the current one: the caller has looked it up without an ``await`` in between.
        """
        request: LeaveGroupRequest = call.body
        is_one = call.api_version < _MEMBERS_LEAVE_FROM
        asked = [(request.member_id, None)] if is_one else [(i.member_id, i.group_instance_id) for i in request.members]
        try:
            if code := self._log.refusal(request.group_id):
                raise refusal(code)
            step, codes = steps.remove(group, asked, self.now(request.group_id))
            self.keep(step)
            await self._log.until_durable(request.group_id)
        except MainstemError as error:
            return LeaveGroupResponse(error_code=coordinator_code(error))
        members = [
            MemberResponse(member_id=member_id, group_instance_id=instance_id, error_code=code)
            for (member_id, instance_id), code in zip(asked, codes, strict=True)
        ]
        return LeaveGroupResponse(error_code=codes[0] if is_one else ErrorCode.NONE, members=members)

    async def _resolve_patterns(self, request: ConsumerGroupHeartbeatRequest) -> None:
        """Resolve the patterns that the step needs. Raises RemoteError.

        A member that leaves does not wait: its connection may close before the patterns are resolved.
        """
        if request.member_epoch < 0:
            return
        group = self._find(request.group_id)
        patterns = group.wanted_patterns() if group is not None else set()
        if request.subscribed_topic_regex:
            patterns.add(request.subscribed_topic_regex)
        if patterns:
            await self._catalog.resolve(patterns)

    def _step(self, request: ConsumerGroupHeartbeatRequest, call: Call, may_see: Callable[[str], bool]) -> steps.Step:
        now = replace(self.now(request.group_id), may_see=may_see if request.member_epoch >= 0 else None)
        steps.check_request(request, call.api_version, now.settings)
        if code := self._log.refusal(request.group_id):
            raise refusal(code)
        if not request.member_id:
            request.member_id = str(uuid.uuid4())
        group, records = self._find_or_new(request.group_id, request.member_epoch)
        if request.subscribed_topic_names and request.member_epoch >= 0:
            member_id = group.static_members.get(request.instance_id or "", request.member_id)
            self._groups.member_bytes.check_names(group.group_id, member_id, set(request.subscribed_topic_names))
        caller = steps.Caller(call.client_id or "", call.client_host)
        step = steps.heartbeat(group, request, caller, now)
        self.keep(step, records)
        return step

    def _upgraded(self, group: ClassicGroup) -> tuple[ConsumerGroup, Sequence[StateRecord]]:
        now = self.now(group.group_id)
        conversion.check_upgrade(group, now.settings)
        return conversion.upgraded(group, now)

    def keep(self, step: steps.Step, first: Sequence[StateRecord] = (), *, replaced_last: bool = False) -> None:
        """Write the records, and let the group be what the step made of it. Raises the log's errors: it stays then.

        ``first`` are records that come before those of the step. The group goes on as a classic one when the last
        member that spoke the consumer protocol is out, or another took its place (``replaced_last``).
        """
        is_last_out = step.fenced or replaced_last
        if is_last_out and conversion.may_downgrade(step.group, step.now.settings, self._classic.settings.members_max):
            self._downgrade(step)
            return
        self._write(step.group, step.records, first)

    def _apply(self, group: ConsumerGroup) -> None:
        before = self._groups.get(group.group_id)
        super()._apply(group)
        if isinstance(before, ClassicGroup):
            self._classic.forgotten(group.group_id)
            for reply, answer in dismissed(before).answers:
                reply(answer)

    def _downgrade(self, step: steps.Step) -> None:
        """The group goes on as a classic one. Raises the log's errors: it stays a consumer group then."""
        group_id = step.group.group_id
        before = self._find(group_id)
        assert before is not None
        settled = not step.fenced and step.group.state_name == "Stable"
        classic, records = conversion.downgraded(
            step.group, before.epoch, step.now, self._classic.now(), settled=settled
        )

        def apply() -> None:
            self._timers.forget(group_id)
            self._classic.adopt(classic)

        self._log.change(group_id, [*before.tombstones(), *records], apply)
        _LOG.info("group %r goes on as a classic group", group_id)

    def default_assignor(self, group_id: str) -> str:
        """The assignor of a group whose members ask for none."""
        return self._settings_of(group_id).assignors[0]

    # ---- time

    def now(self, group_id: str) -> steps.ConsumerNow:
        """The time, the settings and the topics of a step."""
        settings = self._settings_of(group_id)
        return steps.ConsumerNow(self._clock.monotonic_s(), self._clock.time_ms(), settings, self._catalog)

    def _pass_time(self, group: ConsumerGroup) -> None:
        self.keep(steps.expire(group, self.now(group.group_id)))
