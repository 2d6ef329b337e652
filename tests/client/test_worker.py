"""Workers: each request is answered once, whatever else runs, restarts or stands in the topic."""

from __future__ import annotations

import pytest

from mainstem.client.log import Log
from mainstem.client.records import NewRecord
from mainstem.client.request_reply import CORRELATION_ID, REPLY_TOPIC, reply_topic_of
from mainstem.client.worker import Worker
from mainstem.errors import UnknownTopicError
from mainstem.model import Record
from mainstem.testing.embedded import EmbeddedBroker
from tests.gateway.answering import working


def put_requests(log: Log, topic: str, count: int, reply_topic: str | None = None) -> None:
    log.create_topic(reply_topic_of(topic), partitions=1, exist_ok=True)
    for number in range(count):
        headers = {CORRELATION_ID: f"c{number}", REPLY_TOPIC: reply_topic or reply_topic_of(topic)}
        log.append(topic, number, key=str(number), headers=headers)


def replies(log: Log, topic: str, count: int) -> list[Record]:
    """The first ``count`` replies, waited for."""
    follower = log.follow(reply_topic_of(topic), start="earliest")
    found = [next(follower) for _ in range(count)]
    follower.close()
    return found


def test_two_workers_of_a_group_answer_each_request_once(mainstem_log: Log, mainstem_topic: str) -> None:
    topic = f"{mainstem_topic}-shared"
    mainstem_log.create_topic(topic, partitions=2)
    put_requests(mainstem_log, topic, 20)
    with working(mainstem_log, topic, lambda r: r.offset), working(mainstem_log, topic, lambda r: r.offset):
        found = replies(mainstem_log, topic, 20)
    assert sorted(record.key or b"" for record in found) == sorted(f"c{n}".encode() for n in range(20))
    assert len(list(mainstem_log.read(reply_topic_of(topic)))) == 20


def test_a_worker_goes_on_where_the_last_one_ended(mainstem_log: Log, mainstem_topic: str) -> None:
    put_requests(mainstem_log, mainstem_topic, 3)
    for expected in (3, 6):
        with working(mainstem_log, mainstem_topic, lambda r: r.value):
            found = replies(mainstem_log, mainstem_topic, expected)
        assert len(found) == expected
        put_requests(mainstem_log, mainstem_topic, 3)
    assert len(list(mainstem_log.read(reply_topic_of(mainstem_topic)))) == 6


def test_a_worker_goes_on_when_the_log_is_started_again() -> None:
    with EmbeddedBroker() as broker, Log(broker.bootstrap) as log:
        log.create_topic("requests", partitions=1)
        with working(log, "requests", lambda r: r.offset):
            for expected in (2, 4, 6):
                with Log(broker.bootstrap) as anew:
                    put_requests(anew, "requests", 2)
                    assert len(replies(anew, "requests", expected)) == expected
                broker.restart()
        with Log(broker.bootstrap) as anew:
            assert len(list(anew.read(reply_topic_of("requests")))) == 6


def test_a_topic_that_is_not_there_is_told(mainstem_log: Log) -> None:
    with Worker(mainstem_log, "worker-of-nothing", lambda r: r.value) as worker:
        with pytest.raises(UnknownTopicError, match="worker-of-nothing"):
            worker.run()


def test_what_is_no_request_is_passed_over(mainstem_log: Log, mainstem_topic: str) -> None:
    mainstem_log.append(mainstem_topic, "no request")
    put_requests(mainstem_log, mainstem_topic, 1, reply_topic="somewhere-else")
    put_requests(mainstem_log, mainstem_topic, 1)
    with working(mainstem_log, mainstem_topic, lambda r: r.offset):
        assert [record.value for record in replies(mainstem_log, mainstem_topic, 1)] == [b"2"]


def test_a_reply_may_have_headers_and_may_not_be_too_large(mainstem_log: Log, mainstem_topic: str) -> None:
    answers = iter([NewRecord({"a": 1}, headers={"kind": "quote"}), "x" * 2_000_000, float("nan")])
    put_requests(mainstem_log, mainstem_topic, 3)
    with working(mainstem_log, mainstem_topic, lambda _: next(answers)):
        first, second, third = (dict(r.headers) for r in replies(mainstem_log, mainstem_topic, 3))
    assert (first["kind"], first[CORRELATION_ID]) == (b"quote", b"c0")
    assert (second["mainstem-error"] or b"").startswith(b"RecordTooLargeError")
    assert (third["mainstem-error"] or b"").startswith(b"SchemaError")
