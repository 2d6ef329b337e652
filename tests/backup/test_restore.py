"""Backup and restore of a running log: bytes, records, groups, transactions, moments."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from mainstem.backup.manifest import BackupTakenError
from mainstem.backup.moments import time_text
from mainstem.client.log import Log
from mainstem.model import Position
from mainstem.testing.embedded import EmbeddedBroker
from tests.backup.support import (
    backed_up,
    require_prefix,
    require_same_segments,
    require_sound,
    restored,
    values,
    values_of,
)
from tests.support.eventually import eventually


def test_a_restored_directory_has_the_same_segments_and_records(
    broker: EmbeddedBroker, log: Log, store_url: str, tmp_path: Path
) -> None:
    log.create_topic("orders", partitions=3)
    for first in range(0, 300, 100):
        end = log.append_many("orders", [(str(n), f"{n:03d}") for n in range(first, first + 100)])
        backed_up(broker.directory, store_url, end)
    done = restored(store_url, tmp_path / "restored")
    assert done.ends.restrict(["orders"]) == log.end("orders")
    require_same_segments(tmp_path / "restored", broker.directory)
    require_sound(store_url)
    assert values(tmp_path / "restored", "orders") == [f"{n:03d}" for n in range(300)]


def test_every_moment_is_a_replay_up_to_it(broker: EmbeddedBroker, log: Log, tmp_path: Path) -> None:
    url = str(tmp_path / "copies")
    log.create_topic("orders", partitions=2)
    moments: list[tuple[str, Position, int]] = []
    for count in range(4):
        end = log.append_many("orders", [(str(n), f"{count:03d}-{n}") for n in range(20)])
        state = backed_up(broker.directory, url, log.end("orders"))
        moments.append((time_text(state.time_ms), end, (count + 1) * 20))
    ends = log.end("orders")
    for slot, (time_, _, records) in enumerate(moments):
        target = tmp_path / f"at-{slot}"
        done = restored(url, target, time_)
        require_prefix(target, broker.directory)
        assert sum(offset for _, offset in done.ends.items()) == records
        assert done.newest == ends
    position = str(done.ends)
    assert restored(url, tmp_path / "by-position", position).ends == done.ends
    first = restored(url, tmp_path / "first", moments[0][0])
    assert len(values(tmp_path / "first", "orders")) == 20
    assert restored(url, tmp_path / "before", f"orders/0:{dict(first.ends)[next(iter(first.ends))]}").number


def test_groups_and_transactions_are_as_they_were(
    broker: EmbeddedBroker, log: Log, store_url: str, tmp_path: Path
) -> None:
    log.create_topic("orders", partitions=1)
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": "t"})
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "g", "enable.auto.commit": False})
    producer.init_transactions(30)
    for commits in (True, False):
        producer.begin_transaction()
        producer.produce("orders", f"{commits}".encode())
        producer.flush(30)
        if commits:
            producer.commit_transaction(30)
            consumer.commit(offsets=[TopicPartition("orders", 0, 1)], asynchronous=False)
    backed_up(broker.directory, store_url, Position.of("orders", 0, 3))
    consumer.commit(offsets=[TopicPartition("orders", 0, 2)], asynchronous=False)
    producer.abort_transaction(30)
    producer.begin_transaction()
    producer.produce("orders", b"later")
    producer.commit_transaction(30)
    consumer.close()

    restored(store_url, tmp_path / "restored")
    with EmbeddedBroker(tmp_path / "restored") as second:
        again = Consumer({"bootstrap.servers": second.bootstrap, "group.id": "g"})
        (committed,) = eventually(lambda: again.committed([TopicPartition("orders", 0)], 30), "the group is there")
        again.close()
        assert committed.offset == 1
        fenced = Producer({"bootstrap.servers": second.bootstrap, "transactional.id": "t"})
        fenced.init_transactions(30)  # it ends the one that was open at the moment
        with Log(second.bootstrap) as other:
            assert values_of(other, "orders") == ["True"]


def test_a_deleted_topic_is_there_at_the_moments_before(broker: EmbeddedBroker, log: Log, tmp_path: Path) -> None:
    url = str(tmp_path / "copies")
    log.create_topic("orders", partitions=1)
    end = log.append_many("orders", [("k", "old")] * 5)
    before = backed_up(broker.directory, url, end)
    log.delete_topic("orders")
    log.create_topic("orders", partitions=1)
    end = log.append_many("orders", [("k", "new")] * 7)
    backed_up(broker.directory, url, end)
    restored(url, tmp_path / "now")
    restored(url, tmp_path / "then", time_text(before.time_ms))
    assert values(tmp_path / "now", "orders") == ["new"] * 7
    assert values(tmp_path / "then", "orders") == ["old"] * 5
    require_sound(url)


def test_a_restored_log_goes_on_and_is_backed_up_elsewhere(broker: EmbeddedBroker, log: Log, tmp_path: Path) -> None:
    url, other = str(tmp_path / "copies"), str(tmp_path / "others")
    log.create_topic("orders", partitions=1)
    end = log.append_many("orders", [("k", "one")])
    backed_up(broker.directory, url, end)
    restored(url, tmp_path / "restored")
    with EmbeddedBroker(tmp_path / "restored") as second, Log(second.bootstrap) as client:
        end = client.append_many("orders", [("k", "two")])
        with pytest.raises(BackupTakenError, match="URL of its own"):
            backed_up(second.directory, url, end)
        backed_up(second.directory, other, end)
    restored(other, tmp_path / "again")
    assert values(tmp_path / "again", "orders") == ["one", "two"]
