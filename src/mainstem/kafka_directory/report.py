"""The report of a graduation or an adoption: all that goes along, as plain values for people."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from mainstem.kafka_directory.cluster_state import ClusterState
from mainstem.kafka_directory.directory_files import PartitionTransfer, TransferSizes
from mainstem.kafka_directory.left_behind import Left
from mainstem.kafka_directory.stored_coordination import read_coordination
from mainstem.log.files.names import parse_partition_directory
from mainstem.log.partition.checkpoints import encode_uuid


class TopicRow(NamedTuple):
    """One topic. ``size_bytes`` is that of its files which go along."""

    topic: str
    id: str
    partitions: int
    size_bytes: int
    configs: str


class TransferReport(NamedTuple):
    """All that goes along, and the notes about what does not."""

    cluster_id: str
    topics: list[TopicRow]
    offsets: dict[str, int]
    transactions: dict[str, str]
    users: list[str]
    acls: int
    quotas: int
    sizes: TransferSizes
    notes: list[Left]


def transfer_report(
    source: Path,
    cluster_id: str,
    cluster: ClusterState,
    transfers: Sequence[PartitionTransfer],
    sizes: TransferSizes,
    notes: Sequence[Left],
) -> TransferReport:
    """The report of these files of ``source`` under this metadata. Raises StorageError when it cannot be read."""
    bytes_of: dict[str, int] = {}
    for transfer in transfers:
        topic_partition = parse_partition_directory(transfer.directory)
        if topic_partition is not None:
            size_bytes = sum(file.size_bytes for file in transfer.files)
            bytes_of[topic_partition.topic] = bytes_of.get(topic_partition.topic, 0) + size_bytes
    rows = [
        TopicRow(
            topic.name,
            encode_uuid(topic.topic_id),
            topic.partitions,
            bytes_of.get(topic.name, 0),
            " ".join(f"{name}={value}" for name, value in sorted(topic.configs.items())),
        )
        for topic in sorted(cluster.topics.values())
    ]
    coordination = read_coordination(source)
    return TransferReport(
        cluster_id,
        rows,
        coordination.offsets,
        coordination.transactions,
        cluster.users,
        len(cluster.acls),
        len(cluster.quotas),
        sizes,
        list(notes),
    )
