"""Topics and groups as the API and the commands show them. Pure functions."""

from __future__ import annotations

from typing import Any

from mainstem.client.admin.group_admin import GroupDescription, OffsetChange
from mainstem.client.admin.inventory import TopicSummary
from mainstem.client.log import GroupInfo, TopicDescription, TopicInfo


def topic_json(info: TopicInfo) -> dict[str, Any]:
    """A topic's name and shape."""
    return {
        "name": info.name,
        "topic_id": str(info.topic_id),
        "partitions": info.partitions,
        "internal": info.is_internal,
    }


def description_json(described: TopicDescription) -> dict[str, Any]:
    """A topic with what it holds and its configs."""
    return {
        **topic_json(described.info),
        "offsets": described.offsets,
        "beginning": str(described.beginning),
        "end": str(described.end),
        "committed_end": str(described.committed_end),
        "configs": dict(described.configs),
    }


def summary_json(summary: TopicSummary) -> dict[str, Any]:
    """A topic at a glance."""
    return {
        "name": summary.topic.name,
        "topic_id": str(summary.topic.topic_id),
        "partitions": len(summary.topic.partitions),
        "internal": summary.topic.is_internal,
        "offsets": summary.offsets,
        "beginning": str(summary.beginning),
        "end": str(summary.end),
        "size_bytes": summary.size_bytes,
        "cleanup": summary.cleanup,
    }


def group_json(group: GroupInfo) -> dict[str, Any]:
    """A consumer group with how far it is."""
    return {"name": group.name, "state": group.state, "committed": str(group.committed), "lag": group.lag}


def group_description_json(description: GroupDescription) -> dict[str, Any]:
    """A group with its members, and how far it is in each partition."""
    group = description.group
    return {
        "group": group.name,
        "type": group.kind,
        "state": group.state,
        "lag": sum(each.lag or 0 for each in description.progress),
        "members": [
            {
                "member": member.member_id,
                "instance": member.instance_id,
                "client": member.client_id,
                "host": member.host,
                "partitions": [str(tp) for tp in sorted(member.assigned)],
            }
            for member in group.members
        ],
        "partitions": [
            {
                "topic": each.topic_partition.topic,
                "partition": each.topic_partition.partition,
                "committed": each.committed,
                "end": each.end,
                "lag": each.lag,
                "member": each.member_id,
                "metadata": each.metadata,
            }
            for each in description.progress
        ],
    }


def offset_change_json(change: OffsetChange) -> dict[str, Any]:
    """The change that a reset makes to one partition."""
    return {
        "topic": change.topic_partition.topic,
        "partition": change.topic_partition.partition,
        "before": change.before,
        "after": change.after,
    }
