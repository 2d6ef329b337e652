"""Topics and groups as the API and the commands show them. Pure functions."""

from __future__ import annotations

from typing import Any

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
