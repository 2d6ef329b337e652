"""The group coordinator: runs the steps of groups, writes their records, and answers when those are durable.

The state is a replay of ``__consumer_offsets``, which is created when the first group needs it. Of a rebalance under
way nothing is written: after a restart its members join again. What is in memory never runs ahead of an answer: every
answer waits until all that the group's partition held when it was made is durable, so that no client saw what a power
cut takes back.

Concurrency: the event loop only.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

from mainstem.broker.failures import refusal
from mainstem.broker.groups import classic_steps, offsets
from mainstem.broker.groups.classic import NEVER, ClassicGroup, GroupState, Member
from mainstem.broker.groups.effects import Effects, GroupRecord, Reply
from mainstem.broker.groups.records import (
    CommittedOffset,
    GroupChange,
    OffsetChange,
    OffsetKey,
    group_tombstone,
    offset_record,
    partition_of,
    read_change,
)
from mainstem.broker.topics import OFFSETS_TOPIC
from mainstem.errors import CorruptBatchError, FrameError, MainstemError, PartitionOfflineError, RemoteError
from mainstem.protocol.errors import ErrorCode
from mainstem.protocol.messages.group_records import GroupMetadataValue
from mainstem.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from mainstem.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from mainstem.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from mainstem.protocol.schema import Message
from mainstem.record.header import iter_headers
from mainstem.record.reader import read_records
from mainstem.record.writer import NewRecord, build_batch

if TYPE_CHECKING:
    from mainstem.broker.api import Call
    from mainstem.broker.group_commit import GroupCommit
    from mainstem.broker.topics import Topics
    from mainstem.clock import Clock
    from mainstem.log.partition_log import PartitionLog

_LOG: Final = logging.getLogger("mainstem.broker.groups")
_REPLAY_BYTES: Final = 4 * 1024 * 1024
_MEMBER_ID_REQUIRED_FROM: Final = 4
_SKIP_ASSIGNMENT_FROM: Final = 9


class GroupCoordinator:
    """All groups of this node."""

    def __init__(self, topics: Topics, commit: GroupCommit, clock: Clock, settings: classic_steps.Settings) -> None:
        self._topics = topics
        self._commit = commit
        self._clock = clock
        self._settings = settings
        self._groups: dict[str, ClassicGroup] = {}
        self._offsets = offsets.OffsetStore()
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._damaged: set[PartitionLog] = set()

    # ---- start and stop

    def load(self) -> None:
        """Replay ``__consumer_offsets``. Members of a generation get a whole session to show that they live."""
        topic = self._topics.get(OFFSETS_TOPIC)
        for log in topic.logs if topic is not None else ():
            try:
                self._replay(log)
            except (CorruptBatchError, FrameError) as error:
                # What comes after the damage is not known, and to answer without it could send readers back.
                _LOG.error("the groups of %s cannot be served: %s", log.topic_partition, error)
                self._damaged.add(log)
        now = self._now()
        for group in self._groups.values():
            for member in group.members.values():
                member.session_deadline_s = now.monotonic_s + member.session_timeout_ms / 1000
            self._watch(group)

    def _replay(self, log: PartitionLog) -> None:
        offset = log.log_start_offset
        while offset < log.high_watermark:
            result = log.read(offset, _REPLAY_BYTES)
            if not result.buffers:
                return
            for buffer in result.buffers:
                for file_position, header in iter_headers(buffer):
                    for record in read_records(buffer[file_position : file_position + header.size_bytes]):
                        self._apply(record.key or b"", record.value)
                    offset = header.next_offset

    def stop(self) -> None:
        """Forget all timers."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    def refusal(self, group_id: str) -> ErrorCode:
        """Why nothing can be said of a group: it has no name, or its partition is damaged or offline."""
        if not group_id:
            return ErrorCode.INVALID_GROUP_ID
        try:
            log = self._find(group_id)
        except PartitionOfflineError:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        return ErrorCode.COORDINATOR_NOT_AVAILABLE if log in self._damaged else ErrorCode.NONE

    # ---- membership

    def join(self, call: Call) -> asyncio.Future[Message]:
        """JoinGroup: answered when the next generation begins."""
        request: JoinGroupRequest = call.body
        future, reply = self._reply()
        if code := self.refusal(request.group_id):
            reply(_join_refused(code, request.member_id))
            return future
        group = self._groups.get(request.group_id)
        if group is None:
            if request.member_id:
                reply(_join_refused(ErrorCode.UNKNOWN_MEMBER_ID, request.member_id))
                return future
            group = self._groups[request.group_id] = ClassicGroup(request.group_id)
        prefix = request.group_instance_id or call.client_id or "member"
        joiner = classic_steps.Joiner(
            client_id=call.client_id or "",
            client_host=call.client_host,
            new_member_id=f"{prefix}-{uuid.uuid4()}",
            knows_member_id_required=call.api_version >= _MEMBER_ID_REQUIRED_FROM,
            knows_skip_assignment=call.api_version >= _SKIP_ASSIGNMENT_FROM,
        )
        self._run(group, classic_steps.join(group, request, joiner, reply, self._now()))
        return future

    def sync(self, call: Call) -> asyncio.Future[Message]:
        """SyncGroup: answered when the leader has brought the assignment."""
        request: SyncGroupRequest = call.body
        future, reply = self._reply()
        group = self._groups.get(request.group_id)
        if group is None:
            code = self.refusal(request.group_id) or ErrorCode.UNKNOWN_MEMBER_ID
            reply(SyncGroupResponse(error_code=code, assignment=b""))
        else:
            self._run(group, classic_steps.sync(group, request, reply, self._now()))
        return future

    def heartbeat(self, group_id: str, member_id: str, instance_id: str | None, generation_id: int) -> ErrorCode:
        """Heartbeat: nothing is written, so the answer is at once."""
        group = self._groups.get(group_id)
        if group is None:
            return self.refusal(group_id) or ErrorCode.UNKNOWN_MEMBER_ID
        code = classic_steps.heartbeat(group, member_id, instance_id, generation_id, self._now())
        self._watch(group)
        return code

    def leave(self, call: Call) -> asyncio.Future[Message]:
        """LeaveGroup."""
        request: LeaveGroupRequest = call.body
        future, reply = self._reply()
        group = self._groups.get(request.group_id)
        if group is None:
            code = self.refusal(request.group_id) or ErrorCode.UNKNOWN_MEMBER_ID
            reply(LeaveGroupResponse(error_code=code))
        else:
            self._run(group, classic_steps.leave(group, request, reply, self._now()))
        return future

    # ---- committed offsets

    def check_commit(self, group_id: str, member_id: str, instance_id: str | None, generation_id: int) -> ErrorCode:
        """Whether this member may commit offsets; it has then shown that it lives."""
        if code := self.refusal(group_id):
            return code
        group = self._groups.get(group_id)
        try:
            offsets.check_commit(group, member_id, instance_id, generation_id)
        except RemoteError as error:
            return ErrorCode(error.code)
        if group is not None and member_id in group.members:
            member = group.members[member_id]
            member.session_deadline_s = self._now().monotonic_s + member.session_timeout_ms / 1000
        return ErrorCode.NONE

    async def commit_offsets(self, group_id: str, committed: Mapping[tuple[str, int], CommittedOffset]) -> None:
        """Keep offsets; returns when they are durable. Raises the log's errors: then nothing is kept."""
        keys = [(OffsetKey(group_id, topic, number), value) for (topic, number), value in committed.items()]
        log = self._write(group_id, [offset_record(key, value) for key, value in keys])
        for key, value in keys:
            self._offsets.apply(OffsetChange(key, value))
        self._groups.setdefault(group_id, ClassicGroup(group_id))
        await self._commit.durable(log, log.log_end_offset)

    async def fetch_offsets(self, group_id: str) -> Mapping[tuple[str, int], CommittedOffset]:
        """All that a group committed, once it is durable. Raises RemoteError when that is not known."""
        if code := self.refusal(group_id):
            raise refusal(code)
        held = dict(self._offsets.of_group(group_id))
        if held:
            await self._settled(group_id)
        return held

    async def delete_offsets(self, keys: Iterable[OffsetKey]) -> None:
        """Remove committed offsets; returns when that is durable."""
        for group_id, of_group in _by_group(keys).items():
            log = self._write(group_id, [offset_record(key, None) for key in of_group])
            for key in of_group:
                self._offsets.apply(OffsetChange(key, None))
            self._drop_if_unused(group_id)
            await self._commit.durable(log, log.log_end_offset)

    async def topic_deleted(self, topic: str) -> None:
        """Committed offsets in a deleted topic are gone with it: a new topic of that name begins anew."""
        await self.delete_offsets(list(self._offsets.keys_of_topic(topic)))

    # ---- what admins see and do

    def group(self, group_id: str) -> ClassicGroup | None:
        return self._groups.get(group_id)

    def groups(self) -> list[ClassicGroup]:
        return list(self._groups.values())

    async def delete_group(self, group_id: str) -> ErrorCode:
        """Remove a group without members, and its offsets; the answer comes when that is durable."""
        group = self._groups.get(group_id)
        if group is None:
            return self.refusal(group_id) or ErrorCode.GROUP_ID_NOT_FOUND
        if group.state is not GroupState.EMPTY:
            return ErrorCode.NON_EMPTY_GROUP
        keys = [OffsetKey(group_id, topic, number) for topic, number in self._offsets.of_group(group_id)]
        log = self._write(group_id, [*(offset_record(key, None) for key in keys), group_tombstone(group_id)])
        for key in keys:
            self._offsets.apply(OffsetChange(key, None))
        self._forget(group)
        await self._commit.durable(log, log.log_end_offset)
        return ErrorCode.NONE

    # ---- running steps

    def _now(self) -> classic_steps.Now:
        return classic_steps.Now(self._clock.monotonic_s(), self._clock.time_ms(), self._settings)

    @staticmethod
    def _reply() -> tuple[asyncio.Future[Message], Reply]:
        future: asyncio.Future[Message] = asyncio.get_running_loop().create_future()

        def reply(answer: Message) -> None:
            if not future.done():
                future.set_result(answer)

        return future, reply

    def _run(self, group: ClassicGroup, effects: Effects) -> None:
        """Write a step's records, and give its answers when all that its group's partition holds is durable."""
        self._watch(group)
        self._drop_if_unused(group.group_id)
        try:
            log = self._write(group.group_id, effects.records) if effects.records else self._find(group.group_id)
        except MainstemError as error:
            _refuse(effects, error)
            return

        def settled(error: MainstemError | None) -> None:
            if error is not None:
                _refuse(effects, error)
            else:
                for reply, answer in effects.answers:
                    reply(answer)

        if log is None or not effects.answers:
            settled(None)
        else:
            self._commit.when_durable(log, log.log_end_offset, settled)

    def _watch(self, group: ClassicGroup) -> None:
        """See that the group is looked at when its next deadline comes: a timer that is early is left as it is."""
        deadline_s = group.next_deadline_s()
        timer = self._timers.get(group.group_id)
        if deadline_s == NEVER:
            if timer is not None:
                timer.cancel()
                del self._timers[group.group_id]
            return
        loop = asyncio.get_running_loop()
        delay_s = max(0.0, deadline_s - self._clock.monotonic_s())
        if timer is not None:
            if timer.when() <= loop.time() + delay_s:
                return
            timer.cancel()
        self._timers[group.group_id] = loop.call_later(delay_s, self._expire, group)

    def _expire(self, group: ClassicGroup) -> None:
        self._timers.pop(group.group_id, None)
        if self._groups.get(group.group_id) is group:
            self._run(group, classic_steps.expire(group, self._now()))

    def _forget(self, group: ClassicGroup) -> None:
        group.state = GroupState.DEAD
        del self._groups[group.group_id]
        timer = self._timers.pop(group.group_id, None)
        if timer is not None:
            timer.cancel()

    def _drop_if_unused(self, group_id: str) -> None:
        """A group that was never written, and that nothing refers to any more, is not there."""
        group = self._groups.get(group_id)
        if group is None or group.members or group.pending_members or group.state is not GroupState.EMPTY:
            return
        if group.protocol_type is None and not self._offsets.has(group_id):
            self._forget(group)

    # ---- the log

    def _log_of(self, group_id: str) -> PartitionLog:
        """The partition that keeps the group; the topic is created when it is not there. Raises the log's errors."""
        topic = self._topics.ensure_internal(OFFSETS_TOPIC)
        return topic.partition(partition_of(group_id, len(topic.partitions)))

    def _find(self, group_id: str) -> PartitionLog | None:
        """The partition that keeps the group; None while there is no such topic. Raises PartitionOfflineError."""
        topic = self._topics.get(OFFSETS_TOPIC)
        return None if topic is None else topic.partition(partition_of(group_id, len(topic.partitions)))

    def _write(self, group_id: str, records: list[GroupRecord]) -> PartitionLog:
        log = self._log_of(group_id)
        if records:
            time_ms = self._clock.time_ms()
            log.append(build_batch([NewRecord(record.key, record.value, (), time_ms) for record in records]))
            self._commit.appended(log)
        return log

    async def _settled(self, group_id: str) -> None:
        log = self._find(group_id)
        if log is not None:
            await self._commit.durable(log, log.log_end_offset)

    def _apply(self, key: bytes, value: bytes | None) -> None:
        change = read_change(key, value)
        if isinstance(change, OffsetChange):
            self._offsets.apply(change)
            if change.committed is not None:
                self._groups.setdefault(change.key.group_id, ClassicGroup(change.key.group_id))
            elif change.key.group_id in self._groups:
                self._drop_if_unused(change.key.group_id)
        elif isinstance(change, GroupChange):
            self._groups.pop(change.group_id, None)
            if change.value is not None:
                self._groups[change.group_id] = _replayed(change.group_id, change.value)
            elif self._offsets.has(change.group_id):
                self._groups[change.group_id] = ClassicGroup(change.group_id)


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


def _by_group(keys: Iterable[OffsetKey]) -> dict[str, list[OffsetKey]]:
    by_group: dict[str, list[OffsetKey]] = {}
    for key in keys:
        by_group.setdefault(key.group_id, []).append(key)
    return by_group


def _join_refused(code: ErrorCode, member_id: str) -> JoinGroupResponse:
    return JoinGroupResponse(
        error_code=code, generation_id=-1, protocol_name="", leader="", member_id=member_id, members=[]
    )


def _refuse(effects: Effects, error: MainstemError) -> None:
    """The records could not be kept: whoever waits is told to look for the coordinator again."""
    _LOG.error("a group's records could not be written: %s", error)
    for reply, answer in effects.answers:
        answer.error_code = ErrorCode.NOT_COORDINATOR  # type: ignore[attr-defined]
        reply(answer)
