"""Topics and groups as the API and the commands show them. Pure functions."""

from __future__ import annotations

from typing import Any

from mainstem.client.admin.group_admin import GroupDescription, OffsetChange
from mainstem.client.admin.inventory import TopicSummary
from mainstem.client.admin.record_deletion import RecordDeletion
from mainstem.client.admin.topic_consumers import TopicGroup
from mainstem.client.log import GroupInfo, TopicDescription, TopicInfo
from mainstem.client.wire.admin.configs import TopicSetting
from mainstem.client.wire.admin.partitions import PartitionDetails


def topic_json(info: TopicInfo) -> dict[str, Any]:
    """A topic's name and shape."""
    return {
        "name": info.name,
        "topic_id": str(info.topic_id),
        "partitions": info.partitions,
        "internal": info.is_internal,
    }


def description_json(described: TopicDescription, size_bytes: int | None) -> dict[str, Any]:
    """A topic with what it holds and its configs; ``set_configs`` names those with a value of its own."""
    return {
        **topic_json(described.info),
        "offsets": described.offsets,
        "beginning": str(described.beginning),
        "end": str(described.end),
        "committed_end": str(described.committed_end),
        "size_bytes": size_bytes,
        "configs": dict(described.configs),
        "set_configs": sorted(described.set_configs),
    }


def partition_state_json(state: PartitionDetails) -> dict[str, Any]:
    """One partition; ``error`` only where its offsets are not known."""
    known = state.beginning is not None and state.end is not None
    return {
        "partition": state.topic_partition.partition,
        "beginning": state.beginning,
        "end": state.end,
        "committed_end": state.committed_end,
        "offsets": state.end - state.beginning if known else None,  # type: ignore[operator]
        "size_bytes": state.size_bytes,
        "leader": state.leader_id,
        "leader_epoch": state.leader_epoch,
        "newest_ms": state.newest_ms,
        **({} if state.error is None else {"error": state.error}),
    }


def topic_setting_json(setting: TopicSetting) -> dict[str, Any]:
    """A config of a topic. ``set``: it has a value of the topic's own."""
    return {
        "name": setting.name,
        "value": setting.value,
        "default": setting.default,
        "source": setting.source,
        "set": setting.is_set,
        "sensitive": setting.is_sensitive,
        "read_only": setting.is_read_only,
        "documentation": setting.documentation,
    }


def deletion_json(deletion: RecordDeletion) -> dict[str, Any]:
    """The deletion of records in one partition."""
    return {
        "partition": deletion.topic_partition.partition,
        "before": deletion.before,
        "after": deletion.after,
        "offsets": deletion.offsets,
    }


def consuming_group_json(group: TopicGroup, *, with_partitions: bool) -> dict[str, Any]:
    """A group with its lag in one topic; ``partitions`` is null when it is left out."""
    partitions = [
        {
            "partition": each.topic_partition.partition,
            "committed": each.committed,
            "end": each.end,
            "lag": each.lag,
        }
        for each in group.progress
    ]
    return {
        "group": group.name,
        "type": group.kind,
        "state": group.state,
        "lag": group.lag,
        "partitions": partitions if with_partitions else None,
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
