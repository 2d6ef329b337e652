"""``mainstem-checkpoint``: what the node remembers of its partitions, with a checksum.

A recovery point that is too high would let damage pass for durable, and Kafka's checkpoint files carry no checksum. So
this one is what a start believes; Kafka's three are written beside it for Kafka's tools, and read only when this one is
missing. It also holds the node's leader epoch, and ties each line to a topic's id, so that a topic that was deleted and
recreated does not inherit offsets.

Text: version; ``leader-epoch N``; for each partition ``topic partition topic-id recovery-point log-start-offset``; and
``crc32c`` with the checksum of all before, in hexadecimal. Pure functions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple
from uuid import UUID

from mainstem.log.partition.checkpoints import decode_uuid, encode_uuid
from mainstem.model import TopicPartition
from mainstem.record.checksum import crc32c

_VERSION: Final = "1"
_CRC_LINE_BYTES: Final = len("crc32c 00000000\n")


class PartitionOffsets(NamedTuple):
    """One line. ``topic_id`` is None when it came from Kafka's files, which do not have it."""

    topic_id: UUID | None
    recovery_point: int
    log_start_offset: int


class NodeCheckpoint(NamedTuple):
    """``leader_epoch`` is what all partitions are led with; a start after a crash raises it."""

    leader_epoch: int
    partitions: Mapping[TopicPartition, PartitionOffsets]


def encode_node_checkpoint(checkpoint: NodeCheckpoint) -> bytes:
    """The file's bytes."""
    lines = [_VERSION, f"leader-epoch {checkpoint.leader_epoch}"]
    for tp, offsets in sorted(checkpoint.partitions.items()):
        topic_id = encode_uuid(offsets.topic_id) if offsets.topic_id else "-"
        lines.append(f"{tp.topic} {tp.partition} {topic_id} {offsets.recovery_point} {offsets.log_start_offset}")
    body = ("\n".join(lines) + "\n").encode()
    return body + f"crc32c {crc32c(body):08x}\n".encode()


def decode_node_checkpoint(data: bytes | None) -> NodeCheckpoint | None:
    """Read the file's bytes; None when they are not exactly what was written."""
    if data is None or len(data) < _CRC_LINE_BYTES:
        return None
    body, crc_line = data[:-_CRC_LINE_BYTES], data[-_CRC_LINE_BYTES:]
    if crc_line != f"crc32c {crc32c(body):08x}\n".encode():
        return None
    version, leader_epoch, *lines = body.decode().splitlines()
    if version != _VERSION:
        return None
    partitions = {}
    for line in lines:
        topic, partition, topic_id, recovery_point, log_start = line.split(" ")
        offsets = PartitionOffsets(decode_uuid(topic_id), int(recovery_point), int(log_start))
        partitions[TopicPartition(topic, int(partition))] = offsets
    return NodeCheckpoint(int(leader_epoch.split(" ")[1]), partitions)
