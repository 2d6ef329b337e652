from __future__ import annotations

import random

import pytest

from mainstem.errors import ConfigError, StorageError, TopicExistsError, UnknownTopicError
from mainstem.log.node.metadata import METADATA_PARTITION
from mainstem.log.node.node_log import NodeLog
from mainstem.model import TopicPartition
from mainstem.testing.clock import ManualClock
from mainstem.testing.disk import FaultyDisk, PowerCutError
from tests.log.support import DATA, batch, values

EVENTS = TopicPartition("events", 0)


@pytest.fixture
def disk() -> FaultyDisk:
    return FaultyDisk()


def open_node(disk: FaultyDisk, **defaults: str) -> NodeLog:
    return NodeLog.open(disk, ManualClock(), DATA, {name.replace("_", "."): value for name, value in defaults.items()})


def append(node: NodeLog, topic_partition: TopicPartition, value: bytes) -> None:
    log = node.get(topic_partition)
    log.append(batch(value))
    log.flush()


def test_a_topic_with_its_records_is_there_after_a_power_cut(disk: FaultyDisk) -> None:
    node = open_node(disk)
    node.create_topic("events", 2, {})
    append(node, TopicPartition("events", 1), b"a")
    disk.power_cut()
    again = open_node(disk)
    assert values(again.get(TopicPartition("events", 1))) == [b"a"]
    assert values(again.get(EVENTS)) == []


def test_partitions_that_a_crash_left_out_are_made(disk: FaultyDisk) -> None:
    node = open_node(disk)
    node.metadata.create_topic("events", 3, {})
    disk.power_cut()
    again = open_node(disk)
    assert all(again.directory.holds(TopicPartition("events", number)) for number in range(3))
    assert again.get(EVENTS).topic_id == again.metadata.topic("events").topic_id


def test_files_of_a_topic_that_was_being_deleted_go(disk: FaultyDisk) -> None:
    node = open_node(disk)
    node.create_topic("events", 1, {})
    append(node, EVENTS, b"a")
    node.metadata.delete_topic("events")
    disk.power_cut()
    open_node(disk)
    assert not any(name.startswith("events") for name in disk.list(DATA))


def test_a_directory_that_no_topic_knows_is_kept_aside(disk: FaultyDisk) -> None:
    open_node(disk).close()
    disk.make_directory(DATA / "foreign-0")
    disk.create(DATA / "foreign-0" / "00000000000000000000.log").write(0, [b"precious"])
    open_node(disk)
    (kept,) = [name for name in disk.list(DATA) if name.startswith("foreign")]
    assert kept.endswith("-stray")
    assert disk.content(DATA / kept / "00000000000000000000.log") == b"precious"


def test_a_rotten_topic_id_gives_no_data_up(disk: FaultyDisk) -> None:
    node = open_node(disk)
    node.create_topic("events", 1, {})
    append(node, EVENTS, b"a")
    topic_id = node.metadata.topic("events").topic_id
    node.close()
    disk.flip_bit(DATA / "events-0" / "partition.metadata", 25)
    again = open_node(disk)
    assert (values(again.get(EVENTS)), again.get(EVENTS).topic_id) == ([b"a"], topic_id)


def test_a_rotten_topic_id_of_a_name_that_was_used_before_gives_no_data_up(disk: FaultyDisk) -> None:
    node = open_node(disk)
    node.create_topic("events", 1, {})
    node.delete_topic("events")
    node.create_topic("events", 1, {})
    append(node, EVENTS, b"a")
    node.close()
    disk.flip_bit(DATA / "events-0" / "partition.metadata", 25)
    assert values(open_node(disk).get(EVENTS)) == [b"a"]


def calls_of_a_start(partitions: int) -> int:
    """How many storage calls a start after a crash makes."""
    disk = FaultyDisk()
    node = open_node(disk)
    node.create_topic("events", partitions, {})
    for number in range(partitions):
        append(node, TopicPartition("events", number), b"a")
    disk.kill()
    before = disk.calls
    open_node(disk)
    return disk.calls - before


def test_what_a_start_costs_does_not_grow_with_the_partitions() -> None:
    assert calls_of_a_start(2) == calls_of_a_start(40)


def test_a_partition_that_was_not_asked_for_keeps_what_is_known_of_it(disk: FaultyDisk) -> None:
    node = open_node(disk)
    node.create_topic("events", 2, {})
    append(node, EVENTS, b"a")
    node.get(EVENTS).delete_records(1)
    node.close()
    for _ in range(2):
        again = open_node(disk)
        append(again, TopicPartition("events", 1), b"b")
        again.close()
    assert open_node(disk).get(EVENTS).log_start_offset == 1


def test_a_partition_that_was_not_asked_for_after_a_crash_is_recovered_later(disk: FaultyDisk) -> None:
    node = open_node(disk)
    node.create_topic("events", 1, {})
    append(node, EVENTS, b"a")
    node.get(EVENTS).append(batch(b"written, not synced"))
    disk.kill()
    open_node(disk).close()
    again = open_node(disk)
    assert not again.directory.was_clean
    assert values(again.get(EVENTS)) == [b"a", b"written, not synced"]


def test_a_topic_made_again_does_not_see_the_old_records(disk: FaultyDisk) -> None:
    node = open_node(disk)
    node.create_topic("events", 1, {})
    append(node, EVENTS, b"old")
    node.delete_topic("events")
    node.create_topic("events", 1, {})
    append(node, EVENTS, b"new")
    disk.power_cut()
    assert values(open_node(disk).get(EVENTS)) == [b"new"]


def test_configs_hold_from_the_next_append_on(disk: FaultyDisk) -> None:
    node = open_node(disk)
    node.create_topic("events", 1, {})
    node.set_topic_configs("events", {"flush": "os"})
    node.get(EVENTS).append(batch(b"a"))
    assert values(node.get(EVENTS)) == [b"a"]


def test_configs_outlast_a_restart_over_the_nodes_defaults(disk: FaultyDisk) -> None:
    node = open_node(disk, segment_bytes="5000")
    node.create_topic("events", 1, {"retention.ms": "7"})
    node.close()
    config = open_node(disk, segment_bytes="6000").get(EVENTS).config
    assert (config.segment_bytes, config.retention_ms) == (6000, 7)


def test_a_topic_with_a_wrong_config_is_not_made(disk: FaultyDisk) -> None:
    node = open_node(disk)
    with pytest.raises(ConfigError):
        node.create_topic("events", 1, {"segment.bytes": "no"})
    assert "events" not in node.metadata.topics


def test_wrong_defaults_stop_the_start_before_anything_is_touched(disk: FaultyDisk) -> None:
    with pytest.raises(ConfigError):
        open_node(disk, segment_bytes="no")
    open_node(disk)


def test_more_partitions_are_there_at_once(disk: FaultyDisk) -> None:
    node = open_node(disk)
    node.create_topic("events", 1, {})
    node.create_partitions("events", 3)
    append(node, TopicPartition("events", 2), b"a")


def test_the_metadata_is_no_topic(disk: FaultyDisk) -> None:
    node = open_node(disk)
    with pytest.raises(UnknownTopicError):
        node.get(METADATA_PARTITION)
    with pytest.raises(TopicExistsError):
        node.create_topic(METADATA_PARTITION.topic, 1, {})


def test_damaged_metadata_stops_the_start_and_changes_nothing(disk: FaultyDisk) -> None:
    node = open_node(disk)
    node.create_topic("events", 1, {})
    node.get(EVENTS)
    node.close()
    log = DATA / "__mainstem_metadata-0" / "00000000000000000000.log"
    disk.flip_bit(log, 70)
    content = disk.content(log)
    with pytest.raises(StorageError, match="metadata is damaged"):
        open_node(disk)
    assert disk.content(log) == content
    assert "events-0" in disk.list(DATA)


class Topics:
    """A seeded history of topics that are made, grown, written and deleted, with what must be true of them."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.disk = FaultyDisk(seed)
        self.certain: dict[str, int] = {}
        self.uncertain: str | None = None

    def live(self, steps: int) -> None:
        node = open_node(self.disk)
        self.check(node)
        for _ in range(steps):
            self.step(node)
        node.close()

    def step(self, node: NodeLog) -> None:
        name = self.chance.choice("abc")
        self.uncertain = name
        if name not in self.certain:
            node.create_topic(name, 2, {})
            self.certain[name] = 0
        elif self.chance.random() < 0.3:
            node.delete_topic(name)
            del self.certain[name]
        else:
            append(node, TopicPartition(name, 1), b"%d" % self.certain[name])
            self.certain[name] += 1
        self.uncertain = None

    def check(self, node: NodeLog) -> None:
        for name in "abc":
            if name == self.uncertain:
                self.certain.pop(name, None)
                if name in node.metadata.topics:
                    self.certain[name] = node.get(TopicPartition(name, 1)).high_watermark
                continue
            assert (name in node.metadata.topics) == (name in self.certain)
            if name in self.certain:
                found = values(node.get(TopicPartition(name, 1)))
                assert found == [b"%d" % number for number in range(self.certain[name])]
        self.uncertain = None


@pytest.mark.parametrize("seed", range(30))
def test_topics_survive_power_cuts_as_they_were_acknowledged(seed: int) -> None:
    topics = Topics(seed)
    for _ in range(6):
        topics.disk.cut_power_at_call = topics.chance.randint(1, 400)
        try:
            topics.live(steps=topics.chance.randint(1, 12))
        except PowerCutError:
            if topics.chance.random() < 0.7:
                topics.disk.power_cut()
        topics.disk.kill()
    topics.live(steps=0)


def test_a_partition_is_made_when_it_is_first_asked_for(disk: FaultyDisk) -> None:
    node = open_node(disk)
    node.create_topic("events", 20_000, {})
    calls = disk.calls
    assert disk.list(DATA).count("events-7") == 0
    node.get(TopicPartition("events", 7)).append(batch(b"v"))
    assert [name for name in disk.list(DATA) if name.startswith("events-")] == ["events-7"]
    assert disk.calls - calls < 50
    node.close()
    node = open_node(disk)
    assert values(node.get(TopicPartition("events", 7))) == [b"v"]
    assert node.get(TopicPartition("events", 8)).log_end_offset == 0
    node.delete_topic("events")
    assert [name for name in disk.list(DATA) if name.startswith("events-") and "delete" not in name] == []


def test_a_partition_that_cannot_be_made_now_is_made_when_there_is_room(disk: FaultyDisk) -> None:
    node = open_node(disk)
    node.create_topic("events", 1, {})
    disk.capacity_bytes = disk.used_bytes()
    with pytest.raises(StorageError):
        node.get(EVENTS)
    disk.capacity_bytes = None
    assert node.get(EVENTS).log_end_offset == 0
