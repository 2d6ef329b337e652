from __future__ import annotations

from uuid import UUID

import pytest

from mainstem.log.partition import checkpoints
from mainstem.log.partition.leader_epochs import EpochEntry
from mainstem.model import TopicPartition

OFFSETS = {TopicPartition("a-b", 3): 17, TopicPartition("a", 0): 0}


def test_offset_checkpoints_are_kafkas_text() -> None:
    assert checkpoints.encode_offsets(OFFSETS) == b"0\n2\na 0 0\na-b 3 17\n"


def test_offset_checkpoints_are_read_back() -> None:
    assert checkpoints.decode_offsets(checkpoints.encode_offsets(OFFSETS)) == OFFSETS


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"0\n",
        b"1\n0\n",
        b"0\n2\na 0 0\n",
        b"0\n1\na 0\n",
        b"0\n1\na 0 x\n",
        b"x\n0\n",
        b"0\n0\na 0 0\n",
        b"\xff\n0\n",
    ],
)
def test_damaged_checkpoints_are_as_good_as_absent(data: bytes) -> None:
    assert checkpoints.decode_offsets(data) is None


def test_leader_epochs_are_read_back() -> None:
    entries = [EpochEntry(0, 0), EpochEntry(3, 100)]
    data = checkpoints.encode_leader_epochs(entries)
    assert data == b"0\n2\n0 0\n3 100\n"
    assert checkpoints.decode_leader_epochs(data) == entries


def test_ids_are_kafkas_text() -> None:
    identifier = UUID(bytes=bytes(range(16)))
    assert checkpoints.encode_uuid(identifier) == "AAECAwQFBgcICQoLDA0ODw"
    assert checkpoints.decode_uuid("AAECAwQFBgcICQoLDA0ODw") == identifier


@pytest.mark.parametrize("text", ["", "AAEC", "!", "A" * 23])
def test_what_is_not_an_id_is_none(text: str) -> None:
    assert checkpoints.decode_uuid(text) is None


def test_partition_metadata_is_read_back() -> None:
    data = checkpoints.encode_partition_metadata(UUID(int=5))
    assert data == b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAABQ"
    assert checkpoints.decode_partition_metadata(data) == UUID(int=5)


@pytest.mark.parametrize("data", [b"", b"version: 1\ntopic_id: AAAAAAAAAAAAAAAAAAAABQ", b"version: 0\n", b"\xff\xfe"])
def test_damaged_partition_metadata_is_none(data: bytes) -> None:
    assert checkpoints.decode_partition_metadata(data) is None


def test_properties_are_read_with_comments_and_spaces() -> None:
    data = b"# a comment\n\nversion = 1\ncluster.id=abc=\n"
    assert checkpoints.decode_properties(data) == {"version": "1", "cluster.id": "abc="}


def test_properties_are_read_back() -> None:
    properties = {"version": "1", "node.id": "1"}
    assert checkpoints.decode_properties(checkpoints.encode_properties(properties)) == properties
