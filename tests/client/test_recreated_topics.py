"""Topics that are deleted and created again while clients know them: nothing old is taken for something new."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from mainstem.client.log import Log
from mainstem.errors import TopicExistsError, UnknownTopicError
from tests.support.eventually import eventually

NewTopic = Callable[..., str]
KEYS = [f"k{number}" for number in range(10)]


def recreate(log: Log, topic: str, partitions: int) -> None:
    """Apache Kafka deletes a topic in the background."""
    log.delete_topic(topic)

    def is_created() -> bool:
        try:
            log.create_topic(topic, partitions=partitions)
        except TopicExistsError:
            return False
        return True

    eventually(is_created, "the topic is created again")


def test_a_record_is_placed_by_the_partitions_that_the_topic_has_now(log: Log, new_topic: NewTopic) -> None:
    topic = new_topic()
    log.append(topic, "old", key="k0")
    recreate(log, topic, 8)
    for key in KEYS:
        log.append(topic, key, key=key)
    assert [[record.value for record in log.read(topic, key=key)] for key in KEYS] == [[key.encode()] for key in KEYS]


def test_a_transaction_over_a_topic_that_is_recreated_is_aborted(log: Log, new_topic: NewTopic) -> None:
    topic = new_topic()
    transaction = log.transaction()
    transaction.__enter__().append(topic, "a", key="k0")
    recreate(log, topic, 8)
    with pytest.raises(UnknownTopicError):
        transaction.__exit__(None, None, None)
    with log.transaction() as tx:
        for key in KEYS:
            tx.append(topic, key, key=key)

    def found() -> list[list[bytes | None]]:
        return [[record.value for record in log.read(topic, key=key)] for key in KEYS]

    eventually(lambda: found() == [[key.encode()] for key in KEYS], "Kafka has ended the transaction everywhere")


def test_a_follower_does_not_go_on_in_the_middle_of_a_recreated_topic(log: Log, new_topic: NewTopic) -> None:
    topic = new_topic()
    log.append_many(topic, KEYS)
    with log.follow(topic, start="earliest") as follower:
        assert [next(follower).value for _ in KEYS] == [key.encode() for key in KEYS]
        recreate(log, topic, 1)
        log.append_many(topic, KEYS * 2)
        follower._looked_s = float("-inf")  # it looks for new partitions, and so learns the topic's new id
        with pytest.raises(UnknownTopicError, match="recreated"):
            next(follower)


def test_a_reader_takes_a_connection_that_knew_the_topic_from_before(log: Log, new_topic: NewTopic) -> None:
    topic = new_topic()
    with log._pool.borrow() as one, log._pool.borrow() as other:
        for client in (one, other):
            client.metadata([topic])
    recreate(log, topic, 1)
    log.append(topic, "new")
    reader = log.read(topic)
    with log._pool.borrow():  # the one that has asked
        assert [record.value for record in reader] == [b"new"]
