from __future__ import annotations

from uuid import UUID

import pytest

from mainstem.errors import (
    DirectoryLockedError,
    PartitionOfflineError,
    StorageError,
    TopicExistsError,
    UnknownTopicError,
)
from mainstem.log.node.directory import LogDirectory
from mainstem.log.partition.checkpoints import decode_offsets, decode_properties
from mainstem.log.partition.config import LogConfig
from mainstem.model import TopicPartition
from mainstem.testing.clock import ManualClock
from mainstem.testing.disk import FaultyDisk
from tests.log.support import DATA, DIRECTORY, PARTITION, TOPIC_ID, Node, batch, values

OTHER = TopicPartition("events", 1)


def test_a_directory_has_one_owner() -> None:
    node = Node()
    with pytest.raises(DirectoryLockedError):
        node.start()


def test_a_closed_directory_is_free() -> None:
    node = Node()
    node.directory.close()
    node.start()


def test_the_identity_is_kept() -> None:
    node = Node()
    cluster_id = node.directory.cluster_id
    node.restart()
    assert node.directory.cluster_id == cluster_id
    assert len(cluster_id) == 22


def test_meta_properties_are_kafkas() -> None:
    node = Node()
    properties = decode_properties(node.faulty.content(DATA / "meta.properties"))
    assert list(properties) == ["version", "cluster.id", "node.id", "directory.id"]
    assert (properties["version"], properties["node.id"]) == ("1", "1")


def test_meta_properties_that_cannot_be_read_stop_the_start() -> None:
    node = Node()
    node.directory.close()
    node.overwrite(DATA / "meta.properties", b"version=9\n")
    with pytest.raises(StorageError, match=r"meta\.properties"):
        node.start()
    node.overwrite(DATA / "meta.properties", b"version=1\ncluster.id=x\n")
    node.start()


def test_a_partition_has_kafkas_metadata_file() -> None:
    node = Node()
    assert node.faulty.content(DIRECTORY / "partition.metadata") == b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAABw"


def test_the_topic_id_is_kept() -> None:
    node = Node()
    assert node.restart().topic_id == TOPIC_ID


def test_the_same_partition_cannot_be_made_twice() -> None:
    node = Node()
    with pytest.raises(TopicExistsError):
        node.directory.create("events", 0, UUID(int=9), LogConfig.of({}))


def test_an_unknown_partition_is_an_error() -> None:
    with pytest.raises(UnknownTopicError):
        Node().directory.get(OTHER)


# Deleting


def test_a_deleted_partition_stays_deleted() -> None:
    node = Node()
    node.commit(b"a")
    node.directory.delete(PARTITION)
    node.faulty.power_cut()
    directory = node._open()
    assert not directory.holds(PARTITION)
    assert not any(name.startswith("events") for name in node.disk.list(DATA))


def test_deleting_does_not_wait_for_the_files_to_go() -> None:
    node = Node()
    node.directory.delete(PARTITION)
    assert [name for name in node.disk.list(DATA) if name.endswith("-delete")]
    node.directory.write_checkpoints()
    assert not [name for name in node.disk.list(DATA) if name.endswith("-delete")]


def test_a_topic_that_is_made_again_begins_at_offset_0() -> None:
    node = Node()
    node.commit(b"a", b"b")
    node.directory.write_checkpoints()
    node.directory.delete(PARTITION)
    again = node.directory.create("events", 0, UUID(int=99), LogConfig.of({}))
    again.append(batch(b"new"))
    again.flush()
    node.cut_power_and_start()
    assert (node.log.log_start_offset, values(node.log)) == (0, [b"new"])


def test_deleting_an_unknown_partition_deletes_none() -> None:
    node = Node()
    with pytest.raises(UnknownTopicError):
        node.directory.delete(PARTITION, OTHER)
    assert node.directory.get(PARTITION) is node.log


def test_a_deleted_partition_takes_no_writes_and_outlives_its_flush() -> None:
    node = Node()
    node.append(b"a")
    flush = node.log.start_flush()
    assert flush is not None
    node.directory.delete(PARTITION)
    with pytest.raises(StorageError, match="events-0") as failure:
        flush.run()
    node.log.finish_flush(flush, failure.value)
    with pytest.raises(PartitionOfflineError, match="deleted"):
        node.append(b"b")


# Checkpoints and the end


def test_the_checkpoint_files_are_kafkas() -> None:
    node = Node()
    node.commit(b"a", b"b", b"c")
    node.append(b"d")
    node.log.delete_records(1)
    node.directory.write_checkpoints()
    read = {
        name: decode_offsets(node.faulty.content(DATA / name))
        for name in node.disk.list(DATA)
        if "offset-checkpoint" in name
    }
    assert read == {
        "recovery-point-offset-checkpoint": {PARTITION: 3},
        "log-start-offset-checkpoint": {PARTITION: 1},
        "replication-offset-checkpoint": {PARTITION: 3},
    }


def test_kafkas_checkpoints_do_where_there_is_no_other() -> None:
    node = Node()
    node.commit(b"a", b"b", b"c")
    node.log.delete_records(1)
    node.directory.write_checkpoints()
    node.disk.remove(DATA / "mainstem-checkpoint")
    node.kill_and_start()
    assert node.log.log_start_offset == 1


def test_a_checkpoint_is_written_only_when_something_changed() -> None:
    node = Node()
    node.commit(b"a")
    node.directory.write_checkpoints()
    assert node.directory.start_checkpoint() is None
    node.commit(b"b")
    assert node.directory.start_checkpoint() is not None


def test_a_checkpoint_that_failed_is_written_again() -> None:
    node = Node()
    node.commit(b"a")
    node.faulty.fail_syncs("*mainstem-checkpoint.tmp")
    with pytest.raises(StorageError):
        node.directory.write_checkpoints()
    assert node.directory.start_checkpoint() is not None


def test_an_older_checkpoint_does_not_overtake_a_newer_one() -> None:
    node = Node()
    node.commit(b"a")
    older = node.directory.start_checkpoint()
    node.commit(b"b")
    newer = node.directory.start_checkpoint()
    assert older is not None
    assert newer is not None
    newer.run()
    older.run()
    assert decode_offsets(node.faulty.content(DATA / "recovery-point-offset-checkpoint")) == {PARTITION: 2}


def test_a_clean_end_is_marked_as_in_kafka_and_the_mark_is_taken_down_at_once() -> None:
    node = Node()
    node.directory.close()
    assert b"brokerEpoch" in node.faulty.content(DATA / ".kafka_cleanshutdown")
    node.start()
    assert node.directory.was_clean
    assert not node.disk.exists(DATA / ".kafka_cleanshutdown")


def test_an_end_with_an_offline_partition_is_not_clean() -> None:
    node = Node()
    node.append(b"a")
    node.faulty.fail_syncs("*.log")
    with pytest.raises(StorageError):
        node.log.flush()
    node.directory.close()
    node.start()
    assert not node.directory.was_clean


def test_an_end_whose_last_flush_fails_says_so_and_frees_the_directory() -> None:
    node = Node()
    node.append(b"a")
    node.faulty.fail_syncs("*.log")
    with pytest.raises(StorageError):
        node.directory.close()
    node.start()
    assert not node.directory.was_clean


def test_all_partitions_are_led_with_one_epoch_above_any_before() -> None:
    node = Node()
    node.directory.create("events", 1, TOPIC_ID, LogConfig.of({}))
    node.commit(b"a")
    for _ in range(3):
        node.kill_and_start()
    assert {node.directory.get(each).leader_epoch for each in (PARTITION, OTHER)} == {3}


def test_a_partition_that_cannot_be_opened_is_offline_and_keeps_its_place_in_the_checkpoint() -> None:
    node = Node()
    node.commit(b"a", b"b")
    node.append(b"c")
    node.faulty.fail_syncs("*.log")
    node.faulty.kill()
    directory = node._open()
    with pytest.raises(PartitionOfflineError, match="Input/output error"):
        directory.get(PARTITION)
    directory.write_checkpoints()
    directory.close()
    assert values(node.start()) == [b"a", b"b", b"c"]


def test_a_full_directory_of_partitions_opens_again() -> None:
    disk, clock = FaultyDisk(), ManualClock()
    directory = LogDirectory.open(disk, clock, DATA, {})
    for number in range(50):
        directory.create("t", number, TOPIC_ID, LogConfig.of({})).append(batch(b"%d" % number))
    directory.close()
    again = LogDirectory.open(disk, clock, DATA, {})
    assert all(values(again.get(TopicPartition("t", number))) == [b"%d" % number] for number in range(50))
