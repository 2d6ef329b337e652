"""A Mainstem log mirrored to another one: real clients on both ends, batches compared byte by byte."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from confluent_kafka import KafkaException, Producer

from mainstem.client.wire.admin.groups import committed_offsets
from mainstem.client.wire.admin.partitions import delete_records
from mainstem.client.wire.cluster.cluster import EARLIEST, WireClient
from mainstem.client.wire.cluster.topics import delete_topic, set_partition_count, set_topic_configs, topic_configs
from mainstem.errors import StorageError
from mainstem.mirror.mirror import Mirror
from mainstem.mirror.status import copy_status
from mainstem.model import Position, TopicPartition
from tests.broker.harness import LogProcess
from tests.mirror import writing
from tests.mirror.pairs import QUICK, MirrorProcess, assert_same, copy_all, ends, linked
from tests.support.eventually import eventually


def test_everything_that_clients_wrote_is_there_at_the_same_offsets(source: LogProcess, target: LogProcess) -> None:
    writing.create(source.bootstrap, "all", 2, retention_ms="-1", compression_type="gzip")
    writing.produce(source.bootstrap, "all", 200, **{"compression.type": "zstd"})
    writing.transactions(source.bootstrap, "all", 6, "mirror-all")
    copy_all(source.bootstrap, target.bootstrap, "all")
    assert assert_same(source.bootstrap, target.bootstrap, "all", 2) > 20
    for committed in (True, False):
        there, here = (
            writing.read(each.bootstrap, "all", committed=committed, partitions=2) for each in (source, target)
        )
        assert here == there
    with WireClient(source.bootstrap) as one, WireClient(target.bootstrap) as two:
        assert one.metadata(["all"])["all"].topic_id == two.metadata(["all"])["all"].topic_id
        assert topic_configs(two, "all")["retention.ms"] == "-1"


def test_a_group_goes_on_at_the_other_log_where_it_was(source: LogProcess, target: LogProcess) -> None:
    writing.create(source.bootstrap, "groups")
    writing.produce(source.bootstrap, "groups", 100)
    offset = writing.consume_some(source.bootstrap, "groups", "readers", 40)
    copy_all(source.bootstrap, target.bootstrap, "groups")
    with WireClient(target.bootstrap) as client:
        assert committed_offsets(client, "readers") == Position.of("groups", 0, offset)
    assert writing.consume_some(target.bootstrap, "groups", "readers", 10) == offset + 10


def test_new_topics_partitions_and_configs_are_followed(source: LogProcess, target: LogProcess) -> None:
    writing.create(source.bootstrap, "follow-1")
    with linked(source.bootstrap, target.bootstrap, "follow-.*") as link:
        mirror = Mirror(link, QUICK, lambda _: None)
        mirror.begin()
        writing.create(source.bootstrap, "follow-2")
        set_partition_count(link.source, "follow-1", 3)
        set_topic_configs(link.source, "follow-1", {"cleanup.policy": "compact"})
        writing.produce(source.bootstrap, "follow-1", 60)

        def is_followed() -> bool:
            mirror.round()
            there = link.target.metadata(["follow-1", "follow-2"])
            return len(there) == 2 and len(there["follow-1"].partitions) == 3

        eventually(is_followed, "the new topic and the new partitions are there")
        mirror.close()
        assert topic_configs(link.target, "follow-1")["cleanup.policy"] == "compact"
    copy_all(source.bootstrap, target.bootstrap, "follow-.*")
    assert_same(source.bootstrap, target.bootstrap, "follow-1", 3)


def test_a_source_that_begins_late_is_copied_from_there_on(source: LogProcess, target: LogProcess) -> None:
    writing.create(source.bootstrap, "late", 2)
    writing.produce(source.bootstrap, "late", 100)
    tps = [TopicPartition("late", number) for number in range(2)]
    ended = ends(source.bootstrap, tps)
    with WireClient(source.bootstrap) as client:  # one amid a batch, the other has nothing left
        delete_records(client, "late", {0: 7, 1: ended[tps[1]]})
    copy_all(source.bootstrap, target.bootstrap, "late")
    assert_same(source.bootstrap, target.bootstrap, "late", 2)


def test_deletions_of_records_are_followed_and_deletions_of_topics_are_not(
    source: LogProcess, target: LogProcess
) -> None:
    writing.produce(source.bootstrap, "deleted", 50)
    writing.produce(source.bootstrap, "deleted-not", 5)
    said: list[str] = []
    with linked(source.bootstrap, target.bootstrap, "deleted.*") as link:
        mirror = Mirror(link, QUICK, said.append)
        mirror.begin()
        tp = TopicPartition("deleted", 0)

        def begins_at(offset: int) -> bool:
            mirror.round()
            return link.target.list_offsets([tp], EARLIEST)[tp] == offset and not mirror.state().lag_records

        eventually(lambda: begins_at(0), "all is copied")
        delete_records(link.source, "deleted", {0: 30})
        eventually(lambda: begins_at(30), "the copy begins where the source does")
        with WireClient(source.bootstrap) as client:
            delete_topic(client, "deleted")
        eventually(lambda: mirror.round() or bool(said), "the mirror has seen it")
        assert said == ["topic deleted was deleted at the source; its copy stays at the target"]
        assert mirror.state().topics == 1
        mirror.close()
    assert len(writing.read(target.bootstrap, "deleted")) == 20


def test_no_one_else_writes_to_a_mirror(source: LogProcess, target: LogProcess) -> None:
    writing.create(source.bootstrap, "closed")
    writing.produce(source.bootstrap, "closed", 5)
    copy_all(source.bootstrap, target.bootstrap, "closed")
    refusals = []
    producer = Producer({"bootstrap.servers": target.bootstrap, **writing.QUIET})
    producer.produce("closed", b"x", on_delivery=lambda error, _: refusals.append(error.name()))
    producer.flush(30)
    assert refusals == ["POLICY_VIOLATION"]
    assert_same(source.bootstrap, target.bootstrap, "closed")
    writing.transactions(source.bootstrap, "closed", 2, "closed-source")
    copy_all(source.bootstrap, target.bootstrap, "closed")
    transactional = Producer({"bootstrap.servers": target.bootstrap, "transactional.id": "t", **writing.QUIET})
    transactional.init_transactions(30)
    transactional.begin_transaction()
    transactional.produce("closed", b"x", on_delivery=lambda error, _: refusals.append(error.name()))
    transactional.flush(30)
    with suppress(KafkaException):  # the log knows of no transaction: nothing was added to it
        transactional.abort_transaction(30)
    assert len(refusals) == 2
    assert_same(source.bootstrap, target.bootstrap, "closed")


def test_the_process_runs_for_ever_and_says_how_far_it_is(
    source: LogProcess, target: LogProcess, tmp_path: Path
) -> None:
    writing.create(source.bootstrap, "ever")
    writing.produce(source.bootstrap, "ever", 50)
    argv = ("--topics", "ever", "--rate", "50M")
    with MirrorProcess(source.bootstrap, target.bootstrap, tmp_path / "mirror.log", *argv) as mirror:
        mirror.wait_ready()
        tp = TopicPartition("ever", 0)
        eventually(lambda: ends(target.bootstrap, [tp]) == ends(source.bootstrap, [tp]) != {tp: 0}, "it is level")
        writing.produce(source.bootstrap, "ever", 50, begin=50)
        eventually(lambda: ends(target.bootstrap, [tp]) == ends(source.bootstrap, [tp]), "it is level again")
        assert mirror.end() == 0, mirror.text
        assert " records to copy, lag " in mirror.text
    with linked(source.bootstrap, target.bootstrap, "ever") as link:
        (status,) = copy_status(link)
        assert (status.state, status.lag_records, status.lag_s) == ("mirror", 0, 0.0)
        writing.produce(source.bootstrap, "ever", 10)
        (status,) = copy_status(link)
        assert status.lag_records == 10
        assert status.lag_s is not None


def test_two_mirrors_of_the_same_logs_do_no_harm(source: LogProcess, target: LogProcess) -> None:
    writing.create(source.bootstrap, "two", 2)
    with linked(source.bootstrap, target.bootstrap, "two") as one, linked(*_pair(source, target), "two") as other:
        mirrors = [Mirror(link, QUICK, lambda _: None) for link in (one, other)]
        for mirror in mirrors:
            mirror.begin()
        for number in range(4):
            writing.produce(source.bootstrap, "two", 40, begin=40 * number)
            for mirror in mirrors:
                mirror.round()

        def are_level() -> bool:
            for mirror in mirrors:
                mirror.round()
            return not any(mirror.state().lag_records for mirror in mirrors)

        eventually(are_level, "both mirrors are level")
        assert not any(mirror.state().set_aside for mirror in mirrors)
        for mirror in mirrors:
            mirror.close()
    assert_same(source.bootstrap, target.bootstrap, "two", 2)


def _pair(source: LogProcess, target: LogProcess) -> tuple[str, str]:
    return source.bootstrap, target.bootstrap


def test_a_copy_with_a_partition_that_fails_is_not_level(source: LogProcess, target: LogProcess) -> None:
    writing.produce(source.bootstrap, "failing", 10)
    with linked(source.bootstrap, target.bootstrap, "failing") as link:
        mirror = Mirror(link, QUICK, lambda _: None)
        try:
            mirror.begin()

            def is_level() -> bool:
                mirror.round()
                return mirror.state().lag_s == 0.0

            eventually(is_level, "the copy is level")
            [progress] = mirror._copying.partitions.values()
            progress.failure = StorageError("a batch of the source is damaged")
            assert mirror.state().lag_s != 0.0
        finally:
            mirror.close()
