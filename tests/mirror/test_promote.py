"""A target opened to writers, planned and unplanned, and the way back."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from mainstem.client.log import Log
from mainstem.client.wire.cluster.cluster import LATEST, WireClient
from mainstem.client.wire.cluster.topics import set_topic_configs
from mainstem.errors import ConditionFailedError, MirrorRefusedError
from mainstem.mirror.link import mirror_text
from mainstem.mirror.promotion import losses, promote, promote_alone
from mainstem.mirror.promotion_record import promotions
from mainstem.model import MIRROR_OF, TopicPartition
from tests.broker.harness import LogProcess, child_environment
from tests.mirror import writing
from tests.mirror.pairs import MirrorProcess, assert_same, copy_all, ends, linked
from tests.support.eventually import eventually

_LONG = {**writing.QUIET, "transaction.timeout.ms": 600_000}  # no test outlasts such a transaction


@pytest.fixture
def a(tmp_path: Path) -> Iterator[LogProcess]:
    with LogProcess(tmp_path / "a") as process:
        yield process


@pytest.fixture
def b(tmp_path: Path) -> Iterator[LogProcess]:
    with LogProcess(tmp_path / "b") as process:
        yield process


def _quiet(_: str) -> None:
    pass


def test_there_and_back_with_a_client_that_goes_along(a: LogProcess, b: LogProcess, tmp_path: Path) -> None:
    writing.create(a.bootstrap, "t", 2)
    writing.produce(a.bootstrap, "t", 40)
    writing.transactions(a.bootstrap, "t", 4, "app")
    tps = [TopicPartition("t", number) for number in range(2)]
    with MirrorProcess(a.bootstrap, b.bootstrap, tmp_path / "mirror.log") as mirror:
        mirror.wait_ready()
        with linked(a.bootstrap, b.bootstrap) as link:
            done = promote(link, _quiet, 30)
        assert dict(done.promotion.position) == ends(a.bootstrap, tps) == ends(b.bootstrap, tps)
        with WireClient(b.bootstrap) as client:
            (known,) = promotions(client).values()
            assert known == done.promotion
        epochs = _epochs(b)
        writing.produce(b.bootstrap, "t", 40, begin=40)
        writing.transactions(b.bootstrap, "t", 4, "app")
        assert _epochs(b) == epochs
        assert not _accepts(a, "t"), "the former source is closed"
        copy_all(b.bootstrap, a.bootstrap, "t")
        assert_same(b.bootstrap, a.bootstrap, "t", 2)
        assert mirror.wait() == 1  # it looks at the topics every ten seconds
        assert "was promoted" in mirror.text
    with linked(b.bootstrap, a.bootstrap, "t") as link:
        assert losses_are_refused_or_none(link) == []
        promote(link, _quiet, 30)
    writing.transactions(a.bootstrap, "t", 4, "app")
    copy_all(a.bootstrap, b.bootstrap, "t")
    assert_same(a.bootstrap, b.bootstrap, "t", 2)
    assert min(_epochs(a).values()) > max(epochs.values())
    b.kill()
    b.start()
    assert_same(a.bootstrap, b.bootstrap, "t", 2)


def losses_are_refused_or_none(link: object) -> list[str]:
    try:
        return [each.text for each in losses(link)]  # type: ignore[arg-type]
    except MirrorRefusedError:
        return []


def _epochs(log: LogProcess) -> dict[int, int]:
    with WireClient(log.bootstrap) as client:
        return {number: each.leader_epoch for number, each in client.metadata(["t"])["t"].partitions.items()}


def _accepts(log: LogProcess, topic: str) -> bool:
    errors = []
    producer = Producer({"bootstrap.servers": log.bootstrap, **writing.QUIET})
    producer.produce(topic, b"x", on_delivery=lambda error, _: errors.append(error))
    producer.flush(30)
    return len(errors) == 1 and errors[0] is None  # comparing an error with None breaks the client


def test_a_planned_promotion_waits_for_open_transactions_and_leaves_all_as_it_was(a: LogProcess, b: LogProcess) -> None:
    producer = Producer({"bootstrap.servers": a.bootstrap, "transactional.id": "open", **_LONG})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce("t", b"open")
    producer.flush(30)
    copy_all(a.bootstrap, b.bootstrap, "t")
    with linked(a.bootstrap, b.bootstrap, "t") as link:
        with pytest.raises(MirrorRefusedError, match="a transaction is open in t/0 from offset 0"):
            promote(link, _quiet, 2)
        assert _accepts(a, "t")
        assert not _accepts(b, "t")
        promotion = subprocess.Popen(
            [sys.executable, "-m", "mainstem.cli.main", "promote", "--from", a.bootstrap, "--to", b.bootstrap],
            env=child_environment(),
        )
        eventually(lambda: not _accepts(a, "t"), "the source is closed")
        producer.commit_transaction()
        assert promotion.wait(60) == 0
    assert _accepts(b, "t")
    assert b"open" in [value for _, _, value in writing.read(b.bootstrap, "t")]


def test_a_lost_source_leaves_named_losses_and_no_hanging_transaction(a: LogProcess, b: LogProcess) -> None:
    writing.produce(a.bootstrap, "t", 20)
    producer = Producer({"bootstrap.servers": a.bootstrap, "transactional.id": "hangs", **_LONG})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce("t", b"hangs")
    producer.flush(30)
    copy_all(a.bootstrap, b.bootstrap, "t")
    writing.produce(a.bootstrap, "t", 15, begin=20)
    tp = TopicPartition("t", 0)
    a.kill()
    with linked(a.bootstrap, b.bootstrap) as link:
        done = promote_alone(link)
    (aborted,) = done.promotion.aborted
    assert (aborted.topic_partition, aborted.first_offset) == (tp, 20)
    assert done.promotion.position[tp] == 21
    a.start()
    with pytest.raises(MirrorRefusedError, match="'t' was promoted at"):
        copy_all(a.bootstrap, b.bootstrap, "t")
    a.kill()
    writing.produce(b.bootstrap, "t", 30, begin=100)
    values = [value for _, _, value in writing.read(b.bootstrap, "t")]
    assert len(values) == 50
    assert b"hangs" not in values
    a.start()
    with linked(a.bootstrap, b.bootstrap) as link:
        hangs = f"t/0:20-20 of producer {aborted.producer_id}, aborted"
        assert [each.text for each in losses(link)] == [hangs, "t/0:21-35"]
    with pytest.raises(MirrorRefusedError, match=r"holds offsets that .* does not: t/0:21-35"):
        copy_all(b.bootstrap, a.bootstrap, "t")
    assert _accepts(a, "t"), "a refused mirror leaves the topic as it was"
    with WireClient(a.bootstrap) as client:
        assert client.list_offsets([tp], LATEST)[tp] == 37


def test_apache_kafka_is_promoted_from_when_its_writers_have_stopped(apache_kafka: object, b: LogProcess) -> None:
    source = str(getattr(apache_kafka, "bootstrap"))  # noqa: B009 - the fixture's type is the conftest's
    writing.create(source, "moved")
    writing.transactions(source, "moved", 4, "moved-app")
    copy_all(source, b.bootstrap, "moved")
    with linked(source, b.bootstrap, "moved") as link:
        promote(link, _quiet, 30)
    assert_same(source, b.bootstrap, "moved")
    with pytest.raises(MirrorRefusedError, match="'moved' was promoted at"):  # a mirror that is started again
        copy_all(source, b.bootstrap, "moved")
    assert _accepts(b, "moved")
    writing.transactions(b.bootstrap, "moved", 4, "moved-app")
    assert len(writing.read(b.bootstrap, "moved")) == 13


def test_log_features_and_new_consumer_groups_begin_with_the_promotion(a: LogProcess, b: LogProcess) -> None:
    writing.create(a.bootstrap, "t", mainstem_key_index="true", mainstem_conditional_append="true")
    writing.produce(a.bootstrap, "t", 30)
    writing.consume_some(a.bootstrap, "t", "readers", 12)
    copy_all(a.bootstrap, b.bootstrap, "t")
    a.kill()
    with linked(a.bootstrap, b.bootstrap) as link:
        promote_alone(link)
    with Log(b.bootstrap) as log:

        def by_index() -> list[int]:
            reader = log.read_key("t", b"k3")
            found = [record.offset for record in reader]
            return found if reader.scan_reason is None else []

        assert eventually(by_index, "the key index is built") == [3, 8, 13, 18, 23, 28]
        with pytest.raises(ConditionFailedError):
            log.append("t", b"x", key=b"k3", expect_key_offset=23)
        log.append("t", b"x", key=b"k3", expect_key_offset=28)
    assert writing.consume_some(b.bootstrap, "t", "readers", 5, **{"group.protocol": "consumer"}) == 17


def test_a_promotion_that_was_killed_is_done_by_another_one(a: LogProcess, b: LogProcess) -> None:
    writing.produce(a.bootstrap, "t", 10)
    copy_all(a.bootstrap, b.bootstrap, "t")
    with linked(a.bootstrap, b.bootstrap, "t") as link:
        link.require_logs()
        closed = {MIRROR_OF: mirror_text(link.target_id, link.source_topics()["t"])}
        set_topic_configs(link.source, "t", closed)  # as far as the killed one came
        for pair in ((a, b), (b, a)):
            with pytest.raises(MirrorRefusedError, match="run mainstem promote again"):
                copy_all(pair[0].bootstrap, pair[1].bootstrap, "t")
        promote(link, _quiet, 30)
    assert _accepts(b, "t")
    assert not _accepts(a, "t")
    copy_all(b.bootstrap, a.bootstrap, "t")
    assert_same(b.bootstrap, a.bootstrap, "t")
