"""Consumer groups by the Kafka protocol: functions over a ``WireClient``, whose contract they have."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from mainstem.client.failures import error_of
from mainstem.client.wire.cluster.cluster import WireClient
from mainstem.client.wire.cluster.coordinated import GROUP, ask_coordinator, wherever_it_is
from mainstem.model import Position, TopicPartition
from mainstem.protocol.errors import ErrorCode
from mainstem.protocol.messages.list_groups import ListGroupsRequest
from mainstem.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchResponse

_OFFSET_FETCH_VERSION_MAX: Final = 9
"""From version 10 on topics are named by their ids."""


class ListedGroup(NamedTuple):
    """A group as a broker lists it; ``state`` and ``kind`` are empty where an old broker does not say."""

    name: str
    state: str
    kind: str


def list_groups(client: WireClient) -> list[ListedGroup]:
    """The groups of all brokers, by name."""
    return wherever_it_is(client, lambda: _list_groups(client))


def _list_groups(client: WireClient) -> list[ListedGroup]:
    client.metadata([])
    groups = []
    for node in list(client.brokers):
        answer = client.request(ListGroupsRequest(), node, codes=lambda answer: [answer.error_code], moves=True)
        if answer.error_code != ErrorCode.NONE:
            raise error_of(answer.error_code, "the groups cannot be listed")
        groups += [ListedGroup(group.group_id, group.group_state, group.group_type) for group in answer.groups]
    return sorted(groups)


class CommittedEntry(NamedTuple):
    """Where a group goes on in one partition, and the text that it keeps with that."""

    offset: int
    metadata: str


def committed_offsets(client: WireClient, group: str, *, require_stable: bool = False) -> Position:
    """The position that a group has committed; empty for one that never did."""
    entries = committed_entries(client, group, require_stable=require_stable)
    return Position({tp: entry.offset for tp, entry in entries.items()})


def committed_entries(
    client: WireClient, group: str, *, require_stable: bool = False
) -> dict[TopicPartition, CommittedEntry]:
    """All that a group has committed. With ``require_stable`` not before open transactions that change it are ended."""
    request = OffsetFetchRequest(
        group_id=group,
        topics=None,
        groups=[OffsetFetchRequestGroup(group_id=group, topics=None)],
        require_stable=require_stable,
    )
    answer: OffsetFetchResponse = ask_coordinator(
        client, request, group, GROUP, _offset_fetch_codes, version_max=_OFFSET_FETCH_VERSION_MAX
    )
    for code in _offset_fetch_codes(answer):
        if code != ErrorCode.NONE:
            raise error_of(code, f"the committed offsets of group {group!r} cannot be read")
    return {
        TopicPartition(topic.name, partition.partition_index): CommittedEntry(
            partition.committed_offset, partition.metadata or ""
        )
        for topic in _offset_fetch_topics(answer)
        for partition in topic.partitions
        if partition.committed_offset >= 0
    }


def _offset_fetch_topics(answer: OffsetFetchResponse) -> Any:
    return answer.groups[0].topics if answer.groups else answer.topics


def _offset_fetch_codes(answer: OffsetFetchResponse) -> list[int]:
    codes = [answer.error_code, *(group.error_code for group in answer.groups)]
    return codes + [p.error_code for topic in _offset_fetch_topics(answer) for p in topic.partitions]
