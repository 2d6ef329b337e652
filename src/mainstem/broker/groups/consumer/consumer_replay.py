"""Rebuilds consumer groups from their records, in log order. The log may be compacted."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Final
from uuid import UUID

from mainstem.broker.groups.consumer.assignors import Assignment
from mainstem.broker.groups.consumer.consumer_group import (
    ClassicSide,
    ConsumerGroup,
    ConsumerMember,
    MatchedTopics,
    MemberState,
    assignment_of,
)
from mainstem.errors import FrameError
from mainstem.protocol.messages import consumer_group_records as kafka

_LOG: Final = logging.getLogger("mainstem.broker.groups")


def replay_into(group: ConsumerGroup, key: Any, value: Any) -> None:
    """Apply one record; ``value`` None is a tombstone. ``finish_replay`` finds the owners of partitions at the end.

    Raises FrameError for a value that cannot be.
    """
    _REPLAY[type(key)](group, key, value)


def _epoch(group: ConsumerGroup, _key: Any, value: Any) -> None:
    group.epoch = value.epoch if value is not None else 0
    group.metadata_hash = value.metadata_hash if value is not None else 0


def _target_epoch(group: ConsumerGroup, _key: Any, value: Any) -> None:
    group.assignment_epoch = value.assignment_epoch if value is not None else 0


def _pattern(group: ConsumerGroup, key: Any, value: Any) -> None:
    if value is None:
        group.patterns.pop(key.regular_expression, None)
    else:
        matched = MatchedTopics(frozenset(value.topics), value.version, value.timestamp)
        group.patterns[key.regular_expression] = matched


def _target(group: ConsumerGroup, key: Any, value: Any) -> None:
    if value is None:
        group.targets.pop(key.member_id, None)
    else:
        group.targets[key.member_id] = _assignment(value.topic_partitions)


def _member(group: ConsumerGroup, key: Any, value: Any) -> None:
    if value is None:
        group.members.pop(key.member_id, None)
        return
    group.members[key.member_id] = replace(
        group.members.get(key.member_id, ConsumerMember(key.member_id)),
        instance_id=value.instance_id,
        rack_id=value.rack_id,
        client_id=value.client_id,
        client_host=value.client_host,
        topic_names=frozenset(value.subscribed_topic_names),
        topic_regex=value.subscribed_topic_regex,
        rebalance_timeout_ms=value.rebalance_timeout_ms,
        server_assignor=value.server_assignor,
        classic=_classic(key, value.classic_member_metadata),
    )


def _classic(key: Any, value: Any) -> ClassicSide | None:
    # Logs from before groups changed their protocol with members have no tag, which reads as a struct of defaults.
    if value is None or value == kafka.ClassicMemberMetadata.of_defaults():
        return None
    if not value.supported_protocols:
        raise FrameError(f"classic member {key.member_id!r} of group {key.group_id!r} supports no protocol")
    protocols = tuple((each.name, bytes(each.metadata)) for each in value.supported_protocols)
    return ClassicSide(value.session_timeout_ms, protocols)


def _current(group: ConsumerGroup, key: Any, value: Any) -> None:
    member = group.members.get(key.member_id)
    if value is None:
        # It comes before the member's own tombstone; what it had is free from here on.
        if member is not None:
            without = replace(member, assigned={}, pending_revocation={}, assignment_epochs={})
            group.members[key.member_id] = replace(without, member_epoch=0, previous_member_epoch=0)
        return
    try:
        state = MemberState(value.state)
    except ValueError as error:
        raise FrameError(f"member {key.member_id!r} of group {key.group_id!r} is in state {value.state}") from error
    # After a compaction a member's assignment may come before what says who it is.
    group.members[key.member_id] = replace(
        member or ConsumerMember(key.member_id),
        member_epoch=value.member_epoch,
        previous_member_epoch=value.previous_member_epoch,
        state=state,
        assigned=_assignment(value.assigned_partitions),
        pending_revocation=_assignment(value.partitions_pending_revocation),
        assignment_epochs=_epochs([*value.assigned_partitions, *value.partitions_pending_revocation]),
    )


def _assignment(items: Any) -> Assignment:
    return assignment_of((item.topic_id, item.partitions) for item in items)


def _epochs(items: Any) -> dict[tuple[UUID, int], int]:
    """The epochs of a member's partitions; records from before KIP-1251 have none."""
    return {
        (item.topic_id, number): epoch
        for item in items
        for number, epoch in zip(item.partitions, item.assignment_epochs or (), strict=False)
    }


def finish_replay(group: ConsumerGroup) -> None:
    """After the last record: compute the owners of partitions, and the static members.

    A member whose partition has another owner, which a correct log never contains, is left out: it has to join again.
    """
    members, group.members = group.members, {}
    for member in members.values():
        if any(partition in group.owners for partition in member.owned()):
            _LOG.error(
                "member %r of group %r owns a partition of another member: removed", member.member_id, group.group_id
            )
        else:
            group.put(member)
    group.targets = {member_id: target for member_id, target in group.targets.items() if member_id in group.members}


_REPLAY: Final[Mapping[type, Callable[[ConsumerGroup, Any, Any], None]]] = MappingProxyType(
    {
        kafka.ConsumerGroupMetadataKey: _epoch,
        kafka.ConsumerGroupMemberMetadataKey: _member,
        kafka.ConsumerGroupTargetAssignmentMetadataKey: _target_epoch,
        kafka.ConsumerGroupTargetAssignmentMemberKey: _target,
        kafka.ConsumerGroupCurrentMemberAssignmentKey: _current,
        kafka.ConsumerGroupRegularExpressionKey: _pattern,
    }
)
