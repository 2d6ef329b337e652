"""The coordinator of streams groups (KIP-1071): runs their steps, writes their records, and makes internal topics.

Internal topics of a program (repartition topics, changelogs) that are missing are made before the heartbeat that needs
them is answered, in the name of who sends it. Kafka makes them beside the answer, and the next heartbeat finds them.

The coordinator writes a step's records before it replaces the group, so memory is never ahead of the log, even when a
write fails. Concurrency: the event loop only.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from mainstem.broker.call import Call
from mainstem.broker.coordinator.effects import StateRecord
from mainstem.broker.coordinator.timers import GroupTimers
from mainstem.broker.error_codes import coordinator_code, refusal
from mainstem.broker.groups.catalog import TopicCatalog
from mainstem.broker.groups.classic.classic_group import ClassicGroup
from mainstem.broker.groups.consumer.consumer_steps import Caller
from mainstem.broker.groups.group_log import GroupLog
from mainstem.broker.groups.group_types import GroupRegistry
from mainstem.broker.groups.offsets.offsets import OffsetStore
from mainstem.broker.groups.streams import streams_steps as steps
from mainstem.broker.groups.streams import topology as topologies
from mainstem.broker.groups.streams.streams_group import StreamsGroup
from mainstem.broker.groups.streams.streams_records import KEYS, read_record
from mainstem.broker.groups.streams.streams_replay import finish_replay, replay_into
from mainstem.broker.storage.topics import Topics
from mainstem.clock import Clock
from mainstem.errors import MainstemError
from mainstem.protocol.errors import ErrorCode
from mainstem.protocol.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
)
from mainstem.protocol.messages.streams_group_records import StreamsGroupMetadataKey

_LOG: Final = logging.getLogger("mainstem.broker.groups")


class StreamsCoordinator:
    """All streams groups of this node; a ``GroupKind``. ``settings_of`` says what a group obeys."""

    record_types = frozenset(KEYS)

    def __init__(
        self,
        log: GroupLog,
        groups: GroupRegistry,
        offsets: OffsetStore,
        topics: Topics,
        clock: Clock,
        settings_of: Callable[[str], steps.StreamsSettings],
    ) -> None:
        self._log = log
        self._groups = groups
        self._offsets = offsets
        self._topics = topics
        self._clock = clock
        self._settings_of = settings_of
        self._catalog = TopicCatalog(topics)
        self._timers = GroupTimers(clock, self._expire)

    # ---- start and stop

    def replay(self, key: bytes, value: bytes | None) -> None:
        """Take a record in when the node starts. Raises FrameError for one that is damaged."""
        name, body = read_record(key, value)
        group_id: str = name.group_id  # type: ignore[attr-defined]
        group = self._groups.get(group_id)
        if isinstance(name, StreamsGroupMetadataKey) and body is None:
            if isinstance(group, StreamsGroup):
                self._groups.remove(group_id)
                if self._offsets.has(group_id):
                    self._groups.put(ClassicGroup(group_id))
            return
        if not isinstance(group, StreamsGroup):
            if body is None:
                return
            group = StreamsGroup(group_id)
            self._groups.put(group)
        replay_into(group, name, body)

    def loaded(self) -> None:
        """Members get a whole session to show that they live, and a whole time-out for what they have to give up."""
        for group in self._groups:
            if isinstance(group, StreamsGroup):
                finish_replay(group)
                now = self._now(group.group_id)
                if group.topology is not None:
                    group.configured = topologies.configured(group.topology, self._catalog)
                    group.catalog_version = self._catalog.version
                for member in group.members.values():
                    steps.extend(group, member.member_id, now)
                    if member.pending_revocation:
                        deadline_s = now.monotonic_s + member.rebalance_timeout_ms / 1000
                        group.revocations[member.member_id] = (member.member_epoch, deadline_s)
                self._watch(group)

    def stop(self) -> None:
        """Forget all timers."""
        self._timers.stop()

    def forgotten(self, group_id: str) -> None:
        """A streams group was deleted."""
        self._timers.forget(group_id)

    # ---- members

    async def heartbeat(self, call: Call, may_create: Callable[[str], bool]) -> StreamsGroupHeartbeatResponse:
        """StreamsGroupHeartbeat: answered when what it changed is durable.

        ``may_create`` says whether the sender may create a topic.
        """
        request: StreamsGroupHeartbeatRequest = call.body
        try:
            step = self._step(request, call, may_create)
            await self._log.until_durable(request.group_id)
        except MainstemError as error:
            return refused(coordinator_code(error), str(error))
        assert step.answer is not None
        return step.answer

    def _step(
        self, request: StreamsGroupHeartbeatRequest, call: Call, may_create: Callable[[str], bool]
    ) -> steps.StreamsStep:
        steps.check_request(request)
        if code := self._log.refusal(request.group_id):
            raise refusal(code)
        group, first = self._find_or_create(request)
        if request.topology is not None:
            texts = topologies.texts_of(request.topology)
            self._groups.member_bytes.check_names(request.group_id, request.member_id, texts)
        failed = self._make_topics(group, request, may_create)
        caller = Caller(call.client_id or "", call.client_host)
        step = steps.heartbeat(group, request, caller, self._now(request.group_id, failed))
        self._keep(step, first)
        return step

    def _find_or_create(self, request: StreamsGroupHeartbeatRequest) -> tuple[StreamsGroup, list[StateRecord]]:
        """The group, and the records that create it in place of an empty classic group."""
        group = self._groups.get(request.group_id)
        if isinstance(group, StreamsGroup):
            return group, []
        if request.member_epoch != 0:
            raise refusal(ErrorCode.GROUP_ID_NOT_FOUND, f"group {request.group_id!r} is not a streams group")
        if group is None:
            return StreamsGroup(request.group_id), []
        if isinstance(group, ClassicGroup) and group.is_empty:
            return StreamsGroup(request.group_id), list(group.tombstones())
        raise refusal(
            ErrorCode.GROUP_ID_NOT_FOUND,
            f"group {request.group_id!r} is a {group.group_type.value} group in state {group.state_name}",
        )

    def _make_topics(
        self, group: StreamsGroup, request: StreamsGroupHeartbeatRequest, may_create: Callable[[str], bool]
    ) -> str:
        """Make the internal topics that are missing; why that failed, or nothing."""
        if request.member_epoch in steps.LEAVES:
            return ""
        topology = steps.wanted_topology(group, request)
        is_known = topology == group.topology and group.catalog_version == self._catalog.version
        if topology is None or (is_known and not group.configured.missing):
            return ""
        for topic in topologies.configured(topology, self._catalog).missing:
            if not may_create(topic.name):
                return f"the client may not create topic {topic.name}: it needs Create on it, or on the cluster"
            try:
                self._topics.create(topic.name, topic.partitions, dict(topic.configs))
            except MainstemError as error:
                _LOG.warning("topic %s of group %r is not made: %s", topic.name, group.group_id, error)
                return f"topic {topic.name} cannot be created: {error}"
        return ""

    def _keep(self, step: steps.StreamsStep, first: list[StateRecord]) -> None:
        """Write the records, and let the group be what the step made of it. Raises the log's errors: it stays then."""
        records = [*first, *step.records] if step.records else []
        self._log.change(step.group.group_id, records, lambda: self._apply(step.group))

    def _apply(self, group: StreamsGroup) -> None:
        self._groups.put(group)
        self._watch(group)

    def _watch(self, group: StreamsGroup) -> None:
        self._timers.watch(group.group_id, group.next_deadline_s())

    # ---- time

    def _now(self, group_id: str, failed: str = "") -> steps.StreamsNow:
        settings = self._settings_of(group_id)
        return steps.StreamsNow(self._clock.monotonic_s(), self._clock.time_ms(), settings, self._catalog, failed)

    def _expire(self, group_id: str) -> None:
        group = self._groups.get(group_id)
        if isinstance(group, StreamsGroup):
            self._keep(steps.expire(group, self._now(group_id)), [])


def refused(code: int, why: str) -> StreamsGroupHeartbeatResponse:
    """The answer that refuses a heartbeat."""
    return StreamsGroupHeartbeatResponse(
        error_code=code,
        error_message=why,
        member_id="",
        member_epoch=0,
        heartbeat_interval_ms=0,
        acceptable_recovery_lag=0,
        task_offset_interval_ms=0,
        status=None,
        endpoint_information_epoch=0,
    )
