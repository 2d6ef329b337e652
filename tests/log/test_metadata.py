from __future__ import annotations

import pytest

from mainstem.errors import ConfigError, InputError, StorageError, TopicExistsError, UnknownTopicError
from mainstem.log.node.metadata import METADATA_PARTITION, Metadata
from mainstem.log.partition.config import LogConfig
from mainstem.record.writer import NewRecord, build_batch
from tests.log.support import TOPIC_ID, Node


def metadata_on(node: Node) -> Metadata:
    """The metadata as its log on this node has it."""
    if not node.directory.holds(METADATA_PARTITION):
        node.directory.create(METADATA_PARTITION.topic, 0, TOPIC_ID, LogConfig.of({}))
    return Metadata(node.directory.get(METADATA_PARTITION), node.clock)


def replayed(node: Node) -> Metadata:
    node.cut_power_and_start()
    return metadata_on(node)


def test_a_topic_is_there_after_a_power_cut() -> None:
    node = Node()
    made = metadata_on(node).create_topic("orders", 3, {"retention.ms": "5"})
    again = replayed(node)
    assert again.topic("orders") == made
    assert made.topic_partitions[2].partition == 2


def test_a_deleted_topic_is_gone_and_its_id_remembered() -> None:
    node = Node()
    metadata = metadata_on(node)
    made = metadata.create_topic("orders", 1, {})
    metadata.delete_topic("orders")
    for each in (metadata, replayed(node)):
        assert "orders" not in each.topics
        assert each.was_deleted(made.topic_id)


def test_a_topic_made_again_has_another_id() -> None:
    metadata = metadata_on(Node())
    first = metadata.create_topic("orders", 1, {})
    metadata.delete_topic("orders")
    assert metadata.create_topic("orders", 1, {}).topic_id != first.topic_id


def test_configs_are_replaced() -> None:
    node = Node()
    metadata = metadata_on(node)
    metadata.create_topic("orders", 1, {"retention.ms": "5"})
    metadata.set_topic_configs("orders", {"segment.bytes": "2000"})
    assert dict(replayed(node).topic("orders").configs) == {"segment.bytes": "2000"}


def test_partitions_only_become_more() -> None:
    node = Node()
    metadata = metadata_on(node)
    metadata.create_topic("orders", 2, {})
    assert metadata.create_partitions("orders", 5).partitions == 5
    with pytest.raises(InputError, match="5 partitions"):
        metadata.create_partitions("orders", 5)
    assert replayed(node).topic("orders").partitions == 5


def test_producer_ids_are_never_given_twice() -> None:
    node = Node()
    metadata = metadata_on(node)
    blocks = [
        metadata.allocate_producer_ids(),
        metadata.allocate_producer_ids(),
        replayed(node).allocate_producer_ids(),
    ]
    assert [(block.start, len(block)) for block in blocks] == [(0, 1000), (1000, 1000), (2000, 1000)]


def test_a_change_that_could_not_be_synced_did_not_happen() -> None:
    node = Node()
    metadata = metadata_on(node)
    metadata.create_topic("before", 1, {})
    node.faulty.fail_syncs("*__mainstem_metadata-0*")
    with pytest.raises(StorageError):
        metadata.create_topic("orders", 1, {})
    assert list(metadata.topics) == ["before"]


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a b", "ü", "x" * 250])
def test_an_impossible_name_is_refused(name: str) -> None:
    with pytest.raises(InputError, match="topic name"):
        metadata_on(Node()).create_topic(name, 1, {})


def test_a_name_that_is_taken_is_refused() -> None:
    metadata = metadata_on(Node())
    metadata.create_topic("orders", 1, {})
    for name in ("orders", METADATA_PARTITION.topic):
        with pytest.raises(TopicExistsError):
            metadata.create_topic(name, 1, {})


@pytest.mark.parametrize("partitions", [0, -1, 100_001])
def test_an_impossible_number_of_partitions_is_refused(partitions: int) -> None:
    with pytest.raises(ConfigError):
        metadata_on(Node()).create_topic("orders", partitions, {})


def test_an_unknown_topic_is_an_error() -> None:
    with pytest.raises(UnknownTopicError, match="orders"):
        metadata_on(Node()).delete_topic("orders")


@pytest.mark.parametrize(
    ("value", "word"),
    [(b'{"version": 99}', "newer version"), (b"not json", "not metadata"), (b'{"version": 1}', "not metadata")],
)
def test_a_record_that_makes_no_sense_stops_the_start(value: bytes, word: str) -> None:
    node = Node()
    metadata_on(node)
    log = node.directory.get(METADATA_PARTITION)
    log.append(build_batch([NewRecord(b'{"topic": "x"}', value)]))
    log.flush()
    with pytest.raises(StorageError, match=word):
        metadata_on(node)
