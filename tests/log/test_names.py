from __future__ import annotations

import pytest

from mainstem.log.files.names import (
    DELETED_DIRECTORY,
    offset_file,
    parse_offset_file,
    parse_partition_directory,
    partition_directory,
    set_aside_directory,
)
from mainstem.model import TopicPartition


def test_offset_files_have_twenty_digits() -> None:
    assert offset_file(42, ".log") == "00000000000000000042.log"


def test_an_offset_file_name_is_read_back() -> None:
    assert parse_offset_file(offset_file(2**62, ".timeindex")) == (2**62, ".timeindex")


@pytest.mark.parametrize(
    "name", ["42.log", "00000000000000000042.log.tmp", "leader-epoch-checkpoint", "x" * 20 + ".log"]
)
def test_other_names_are_not_offset_files(name: str) -> None:
    assert parse_offset_file(name) is None


@pytest.mark.parametrize("topic", ["events", "a-1", "a.b_c-", "__mainstem_metadata"])
def test_a_partition_directory_is_read_back(topic: str) -> None:
    topic_partition = TopicPartition(topic, 17)
    assert parse_partition_directory(partition_directory(topic_partition)) == topic_partition


@pytest.mark.parametrize(
    "name", ["events", "events-", "events-01", "events-0.abc-delete", "-0", ".-0", "a b-0", "e-2147483648"]
)
def test_other_directories_are_not_partitions(name: str) -> None:
    assert parse_partition_directory(name) is None


def test_a_deleted_directory_keeps_within_the_file_systems_limit() -> None:
    name = set_aside_directory(TopicPartition("t" * 249, 99_999), "f" * 32, DELETED_DIRECTORY)
    assert len(name) == 255
    assert parse_partition_directory(name) is None
