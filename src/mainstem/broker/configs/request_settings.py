"""The settings that handlers read: how much one request may ask for, and how large its answer may be."""

from __future__ import annotations

from dataclasses import dataclass

from mainstem.broker.configs.broker_config import BrokerConfig


@dataclass(slots=True)
class RequestSettings:
    """The settings of the node that handlers use; sizes in bytes."""

    fetch_bytes_max: int
    offset_metadata_bytes_max: int
    described_partitions_max: int
    response_bytes_max: int
    group_member_bytes_max: int
    deletes_topics: bool

    @classmethod
    def of(cls, config: BrokerConfig) -> RequestSettings:
        """Take them from the node's settings."""
        return cls(
            fetch_bytes_max=int(config.get("fetch.max.bytes")),
            offset_metadata_bytes_max=int(config.get("offset.metadata.max.bytes")),
            described_partitions_max=int(config.get("max.request.partition.size.limit")),
            response_bytes_max=int(config.get("mainstem.response.max.bytes")),
            group_member_bytes_max=int(config.get("mainstem.group.member.bytes.max")),
            deletes_topics=bool(config.get("delete.topic.enable")),
        )
