"""The coordinator of streams groups (KIP-1071): runs their steps, writes their records, and makes internal topics.

Internal topics of a program (repartition topics, changelogs) that are missing are made before the heartbeat that needs
them is answered, in the name of who sends it. Kafka makes them beside the answer, and the next heartbeat finds them.

``assigned_coordinator`` has what it shares with consumer groups. Concurrency: the event loop only.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from mainstem.broker.call import Call
from mainstem.broker.error_codes import coordinator_code, refusal
from mainstem.broker.groups.assigned_coordinator import AssignedCoordinator, KindOfGroup
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
from mainstem.protocol.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
)
from mainstem.protocol.messages.streams_group_records import StreamsGroupMetadataKey

_LOG: Final = logging.getLogger("mainstem.broker.groups")


_KIND: Final = KindOfGroup(StreamsGroup, StreamsGroupMetadataKey, read_record, replay_into, finish_replay)


class StreamsCoordinator(AssignedCoordinator[StreamsGroup]):
    """All streams groups of this node. ``settings_of`` says what a group obeys."""

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
        super().__init__(_KIND, log, groups, offsets, topics, clock)
        self._topics = topics
        self._settings_of = settings_of

    def _resume(self, group: StreamsGroup) -> None:
        now = self._now(group.group_id)
        if group.topology is not None:
            group.configured = topologies.configured(group.topology, self._catalog)
            group.catalog_version = self._catalog.version
        for member_id in group.members:
            steps.extend(group, member_id, now)

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
        group, first = self._find_or_new(request.group_id, request.member_epoch)
        if request.topology is not None:
            texts = topologies.texts_of(request.topology)
            self._groups.member_bytes.check_names(request.group_id, request.member_id, texts)
        failed = self._make_topics(group, request, may_create)
        caller = Caller(call.client_id or "", call.client_host)
        step = steps.heartbeat(group, request, caller, self._now(request.group_id, failed))
        self._write(step.group, step.records, first)
        return step

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

    # ---- time

    def _now(self, group_id: str, failed: str = "") -> steps.StreamsNow:
        settings = self._settings_of(group_id)
        return steps.StreamsNow(self._clock.monotonic_s(), self._clock.time_ms(), settings, self._catalog, failed)

    def _pass_time(self, group: StreamsGroup) -> None:
        step = steps.expire(group, self._now(group.group_id))
        self._write(step.group, step.records)


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
