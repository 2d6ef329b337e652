"""Rebuilds streams groups from their records, in log order. The log may be compacted."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Final

from mainstem.broker.groups.streams.streams_group import ClientEndpoint, StreamsGroup, StreamsMember, TaskState
from mainstem.broker.groups.streams.streams_records import STANDBYS
from mainstem.broker.groups.streams.tasks import Task, TaskSet
from mainstem.broker.groups.streams.topology import texts_of
from mainstem.errors import FrameError
from mainstem.protocol.messages import streams_group_records as kafka

_LOG: Final = logging.getLogger("mainstem.broker.groups")


def replay_into(group: StreamsGroup, key: Any, value: Any) -> None:
    """Apply one record; ``value`` None is a tombstone. ``finish_replay`` checks the owners of tasks at the end.

    Raises FrameError for a value that cannot be.
    """
    _REPLAY[type(key)](group, key, value)


def _epoch(group: StreamsGroup, _key: Any, value: Any) -> None:
    if value is None:
        group.epoch = group.metadata_hash = 0
        return
    group.epoch, group.metadata_hash = value.epoch, value.metadata_hash
    group.validated_topology_epoch = value.validated_topology_epoch
    configs = {each.key: each.value for each in value.last_assignment_configs or ()}
    text = configs.get(STANDBYS, "0")
    group.standbys = int(text) if text.isdecimal() and len(text) < 10 else 0


def _topology(group: StreamsGroup, _key: Any, value: Any) -> None:
    group.topology = value


def _target_epoch(group: StreamsGroup, _key: Any, value: Any) -> None:
    group.assignment_epoch = value.assignment_epoch if value is not None else 0


def _target(group: StreamsGroup, key: Any, value: Any) -> None:
    if value is None:
        group.targets.pop(key.member_id, None)
    else:
        group.targets[key.member_id] = TaskSet.of(value.active_tasks, value.standby_tasks, value.warmup_tasks)


def _member(group: StreamsGroup, key: Any, value: Any) -> None:
    if value is None:
        group.members.pop(key.member_id, None)
        return
    endpoint = value.user_endpoint
    group.members[key.member_id] = replace(
        group.members.get(key.member_id, StreamsMember(key.member_id)),
        rack_id=value.rack_id,
        client_id=value.client_id,
        client_host=value.client_host,
        rebalance_timeout_ms=value.rebalance_timeout_ms,
        topology_epoch=value.topology_epoch,
        process_id=value.process_id,
        endpoint=None if endpoint is None else ClientEndpoint(endpoint.host, endpoint.port),
        client_tags=tuple((each.key, each.value) for each in value.client_tags),
    )


def _current(group: StreamsGroup, key: Any, value: Any) -> None:
    member = group.members.get(key.member_id)
    if value is None:
        # It comes before the member's own tombstone; what it had is free from here on.
        if member is not None:
            without = replace(member, assigned=TaskSet(), pending_revocation=TaskSet(), assignment_epochs={})
            group.members[key.member_id] = replace(without, member_epoch=0, previous_member_epoch=0)
        return
    try:
        state = TaskState(value.state)
    except ValueError as error:
        raise FrameError(f"member {key.member_id!r} of group {key.group_id!r} is in state {value.state}") from error
    # After a compaction a member's tasks may come before what says who it is.
    group.members[key.member_id] = replace(
        member or StreamsMember(key.member_id),
        member_epoch=value.member_epoch,
        previous_member_epoch=value.previous_member_epoch,
        state=state,
        assigned=TaskSet.of(value.active_tasks, value.standby_tasks, value.warmup_tasks),
        pending_revocation=TaskSet.of(
            value.active_tasks_pending_revocation,
            value.standby_tasks_pending_revocation,
            value.warmup_tasks_pending_revocation,
        ),
        assignment_epochs=_epochs([*value.active_tasks, *value.active_tasks_pending_revocation], value.member_epoch),
    )


def _epochs(items: Any, member_epoch: int) -> dict[Task, int]:
    """The epochs of a member's active tasks; records from before Kafka had them name none."""
    return {
        (item.subtopology_id, number): epoch
        for item in items
        for number, epoch in zip(
            item.partitions, item.assignment_epochs or [member_epoch] * len(item.partitions), strict=False
        )
    }


def finish_replay(group: StreamsGroup) -> None:
    """After the last record: see that each active task has one owner.

    A member whose task has another owner, which a correct log never contains, is left out: it has to join again.
    """
    owners: set[Task] = set()
    texts = () if group.topology is None else texts_of(group.topology)
    group.members = {name: replace(each, topology_texts=texts) for name, each in group.members.items()}
    for member in list(group.members.values()):
        tasks = set(member.active_tasks())
        if tasks & owners:
            _LOG.error("member %r of group %r has a task of another member: removed", member.member_id, group.group_id)
            del group.members[member.member_id]
        owners |= tasks
    group.targets = {member_id: target for member_id, target in group.targets.items() if member_id in group.members}


_REPLAY: Final[Mapping[type, Callable[[StreamsGroup, Any, Any], None]]] = MappingProxyType(
    {
        kafka.StreamsGroupMetadataKey: _epoch,
        kafka.StreamsGroupTopologyKey: _topology,
        kafka.StreamsGroupMemberMetadataKey: _member,
        kafka.StreamsGroupTargetAssignmentMetadataKey: _target_epoch,
        kafka.StreamsGroupTargetAssignmentMemberKey: _target,
        kafka.StreamsGroupCurrentMemberAssignmentKey: _current,
    }
)
