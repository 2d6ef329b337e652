"""Several promotions from one source, and promotions that were killed: what each of them says stays known."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import Producer

from mainstem.client.wire.cluster.cluster import LATEST, Isolation, WireClient
from mainstem.client.wire.cluster.topics import set_topic_configs
from mainstem.errors import MirrorRefusedError
from mainstem.mirror import promotion
from mainstem.mirror.link import mirror_of
from mainstem.mirror.promotion import Promoted, losses, promote_alone
from mainstem.mirror.promotion_record import promotions
from mainstem.model import Position, TopicPartition
from tests.broker.harness import LogProcess
from tests.mirror import writing
from tests.mirror.pairs import copy_all, linked


class _KilledError(BaseException):
    """As a kill: nothing catches it."""


def _killed(*_: object, **__: object) -> Any:
    raise _KilledError


def _open_transaction(log: LogProcess, topic: str) -> Producer:
    """A transaction of one record that nobody ends before the test does; keep what is returned."""
    producer = Producer(
        {
            "bootstrap.servers": log.bootstrap,
            "transactional.id": f"of-{topic}",
            "transaction.timeout.ms": 600_000,
            **writing.QUIET,
        }
    )
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topic, b"open")
    producer.flush(30)
    return producer


def _promote_alone(source: LogProcess, target: LogProcess, topics: str) -> Promoted:
    with linked(source.bootstrap, target.bootstrap, topics) as link:
        return promote_alone(link)


def _losses(source: LogProcess, target: LogProcess, topic: str) -> list[str]:
    with linked(source.bootstrap, target.bootstrap) as link:
        return [each.text for each in losses(link) if each.topic_partition.topic == topic]


def _is_mirror(log: LogProcess, topic: str) -> bool:
    with WireClient(log.bootstrap) as client:
        return bool(mirror_of(client, topic))


def _hangs(log: LogProcess, topic: str) -> bool:
    """Whether readers of committed records cannot come to the end."""
    tp = TopicPartition(topic, 0)
    with WireClient(log.bootstrap) as client:
        client.metadata([topic])
        return client.list_offsets([tp], LATEST, Isolation.READ_COMMITTED) != client.list_offsets([tp], LATEST)


def test_a_second_promotion_keeps_what_the_first_one_says(source: LogProcess, target: LogProcess) -> None:
    for topic in ("first", "second"):
        writing.produce_plainly(source.bootstrap, topic, 10)
    open_transaction = _open_transaction(source, "first")
    copy_all(source.bootstrap, target.bootstrap, "first|second")
    writing.produce_plainly(source.bootstrap, "first", 5, begin=20)
    (aborted,) = _promote_alone(source, target, "first").promotion.aborted
    lost = [f"first/0:10-10 of producer {aborted.producer_id}, aborted", "first/0:11-15"]
    assert _losses(source, target, "first") == lost
    second = _promote_alone(source, target, "second").promotion
    assert second.position.topics == {"second"}, "what is printed is of this promotion alone"
    assert not second.aborted
    assert _losses(source, target, "first") == lost
    with pytest.raises(MirrorRefusedError, match="'first' was promoted at"):
        copy_all(source.bootstrap, target.bootstrap, "first")
    assert not _is_mirror(target, "first")
    open_transaction.abort_transaction(30)


def test_a_promotion_that_was_killed_before_it_ended_transactions_is_done_by_another_one(
    source: LogProcess, target: LogProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    writing.produce_plainly(source.bootstrap, "hanging", 3)
    open_transaction = _open_transaction(source, "hanging")
    copy_all(source.bootstrap, target.bootstrap, "hanging")
    with monkeypatch.context() as patch:
        patch.setattr(promotion, "_abort", _killed)
        with pytest.raises(_KilledError):
            _promote_alone(source, target, "hanging")
    assert not _is_mirror(target, "hanging")
    later = _open_transaction(target, "hanging")
    done = _promote_alone(source, target, "hanging")
    assert done.topics == ()
    assert [(each.topic_partition.topic, each.first_offset) for each in done.promotion.aborted] == [("hanging", 3)]
    later.commit_transaction(30)  # one that began after the promotion is left alone
    assert not _hangs(target, "hanging")
    with pytest.raises(MirrorRefusedError, match="was promoted already"):
        _promote_alone(source, target, "hanging")
    open_transaction.abort_transaction(30)


def test_a_run_that_only_ends_transactions_says_nothing_of_other_topics(
    source: LogProcess, target: LogProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    for topic in ("before", "unfinished", "after"):
        writing.produce_plainly(source.bootstrap, topic, 3)
    open_transaction = _open_transaction(source, "unfinished")
    copy_all(source.bootstrap, target.bootstrap, "before|unfinished|after")
    _promote_alone(source, target, "before")
    with monkeypatch.context() as patch:
        patch.setattr(promotion, "_abort", _killed)
        with pytest.raises(_KilledError):
            _promote_alone(source, target, "unfinished")
    with WireClient(target.bootstrap) as client:
        (killed,) = promotions(client).values()
    _promote_alone(source, target, "after")
    done = _promote_alone(source, target, "before|unfinished").promotion
    assert done.position == Position.of("unfinished", 0, 4)
    assert done.time_of("unfinished") == killed.time_ms
    assert set(done.earlier_ms) == {"unfinished"}
    open_transaction.abort_transaction(30)


def test_a_promotion_that_was_killed_between_two_topics_is_done_by_another_one(
    source: LogProcess, target: LogProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    topics = ("one", "two")
    for topic in topics:
        writing.produce_plainly(source.bootstrap, topic, 3)
    open_transactions = [_open_transaction(source, topic) for topic in topics]
    copy_all(source.bootstrap, target.bootstrap, "one|two")

    def open_one(client: WireClient, name: str, *arguments: Any, **options: Any) -> None:
        set_topic_configs(client, name, *arguments, **options)
        raise _KilledError

    with monkeypatch.context() as patch:
        patch.setattr(promotion, "set_topic_configs", open_one)
        with pytest.raises(_KilledError):
            _promote_alone(source, target, "one|two")
    opened, left = sorted(topics, key=lambda topic: _is_mirror(target, topic))
    done = _promote_alone(source, target, "one|two")
    assert done.topics == (left,)
    assert not any(_hangs(target, topic) for topic in topics)
    with WireClient(target.bootstrap) as client:
        (known,) = promotions(client).values()
    assert known.position.topics.issuperset(topics)
    aborted = [each.topic_partition.topic for each in known.aborted if each.topic_partition.topic in topics]
    assert sorted(aborted) == sorted(topics)
    for topic in topics:
        (text,) = _losses(source, target, topic)
        assert text.startswith(f"{topic}/0:3-3 of producer")
    with pytest.raises(MirrorRefusedError, match=f"'{opened}' was promoted at"):
        copy_all(source.bootstrap, target.bootstrap, opened)
    for producer in open_transactions:
        producer.abort_transaction(30)


def test_the_way_back_of_one_topic_leaves_the_others_promoted(source: LogProcess, target: LogProcess) -> None:
    """Each topic has its own time: a later promotion of another one makes it neither younger nor older."""
    for topic in ("back", "stays", "later"):
        writing.produce_plainly(source.bootstrap, topic, 3)
    copy_all(source.bootstrap, target.bootstrap, "back|stays|later")
    first = _promote_alone(source, target, "back|stays").promotion
    copy_all(target.bootstrap, source.bootstrap, "back")
    _promote_alone(target, source, "back")
    _promote_alone(source, target, "later")  # the source's `back` is still the later one
    copy_all(source.bootstrap, target.bootstrap, "back")
    with pytest.raises(MirrorRefusedError, match="'stays' was promoted at"):
        copy_all(source.bootstrap, target.bootstrap, "stays")
    writing.produce_plainly(source.bootstrap, "last", 3)
    copy_all(source.bootstrap, target.bootstrap, "last")
    _promote_alone(source, target, "last")
    with WireClient(target.bootstrap) as client:
        (known,) = promotions(client).values()
    assert known.position.topics.issuperset({"stays", "later", "last"})
    assert known.time_of("stays") == first.time_ms
    assert known.time_of("back") is None, "it is a mirror again"
