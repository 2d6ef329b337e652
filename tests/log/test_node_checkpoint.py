from __future__ import annotations

from uuid import UUID

from mainstem.log.recovery.node_checkpoint import (
    NodeCheckpoint,
    PartitionOffsets,
    decode_node_checkpoint,
    encode_node_checkpoint,
)
from mainstem.model import TopicPartition

CHECKPOINT = NodeCheckpoint(
    7,
    {
        TopicPartition("a", 0): PartitionOffsets(UUID(int=1), 100, 5),
        TopicPartition("b.c", 12): PartitionOffsets(None, 2**62, 0),
    },
)


def test_it_is_read_back() -> None:
    assert decode_node_checkpoint(encode_node_checkpoint(CHECKPOINT)) == CHECKPOINT


def test_without_partitions_it_is_read_back() -> None:
    assert decode_node_checkpoint(encode_node_checkpoint(NodeCheckpoint(0, {}))) == NodeCheckpoint(0, {})


def test_any_flipped_bit_is_found() -> None:
    data = encode_node_checkpoint(CHECKPOINT)
    for at in range(len(data) * 8):
        rotten = bytearray(data)
        rotten[at // 8] ^= 1 << at % 8
        assert decode_node_checkpoint(bytes(rotten)) is None


def test_any_missing_end_is_found() -> None:
    data = encode_node_checkpoint(CHECKPOINT)
    assert all(decode_node_checkpoint(data[:length]) is None for length in range(len(data)))


def test_no_file_is_none() -> None:
    assert decode_node_checkpoint(None) is None
