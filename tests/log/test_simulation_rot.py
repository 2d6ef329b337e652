"""Seeded histories after which one bit has flipped: in a file that is worked out from the log, no answer may change."""

from __future__ import annotations

import logging
import random
from collections.abc import Iterator
from contextlib import suppress
from uuid import UUID

import pytest

from mainstem.errors import StorageError
from mainstem.log.files.names import partition_directory
from mainstem.log.node.metadata import METADATA_PARTITION
from mainstem.log.node.node_log import NodeLog
from mainstem.model import TopicPartition
from mainstem.testing.clock import ManualClock
from mainstem.testing.disk import FaultyDisk
from tests.log.simulation.rot import DERIVED, flip_derived, flip_log
from tests.log.support import DATA, NOW_MS


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """What the log says of each damage would cost a third of the time."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize("kind", DERIVED)
def test_a_flipped_bit_in_a_file_that_is_worked_out_from_the_log_changes_no_answer(kind: str) -> None:
    flipped = sum(flip_derived(seed, kind) for seed in range(20))
    assert flipped >= 5


@pytest.mark.parametrize("seeds", [range(start, start + 50) for start in range(0, 150, 50)], ids=str)
def test_a_flipped_bit_in_a_batch_costs_that_batch_alone(seeds: range) -> None:
    assert sum(flip_log(seed) for seed in seeds) > 40


def topics_of(node: NodeLog) -> dict[str, tuple[UUID, int, dict[str, str]]]:
    return {
        topic.name: (topic.topic_id, topic.partitions, dict(topic.configs)) for topic in node.metadata.topics.values()
    }


@pytest.mark.parametrize("seed", range(100))
def test_a_flipped_bit_in_the_metadata_stops_the_start_or_changes_nothing(seed: int) -> None:
    disk, clock, chance = FaultyDisk(seed), ManualClock(NOW_MS), random.Random(seed)
    node = NodeLog.open(disk, clock, DATA, {})
    for number in range(4):
        node.create_topic(f"topic-{number}", 1, {"retention.ms": str(number)})
        node.get(TopicPartition(f"topic-{number}", 0))  # made when it is asked for
    node.delete_topic("topic-1")
    node.directory.write_checkpoints()
    topics = topics_of(node)
    disk.kill()
    directory = DATA / partition_directory(METADATA_PARTITION)
    names = [name for name in disk.list(directory) if disk.content(directory / name)]
    path = directory / chance.choice(names)
    disk.flip_bit(path, chance.randrange(len(disk.content(path))), chance.randrange(8))
    found = None
    with suppress(StorageError):
        found = topics_of(NodeLog.open(disk, clock, DATA, {}))
    assert found == topics or (found is None and path.suffix == ".log")
    assert set(disk.list(DATA)) >= {f"topic-{number}-0" for number in (0, 2, 3)}
