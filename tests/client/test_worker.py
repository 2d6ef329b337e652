"""Workers: each request is answered once, whatever else runs, restarts or stands in the topic."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer, TopicPartition

from mainstem.client.http.request_reply import CORRELATION_ID, REPLY_TOPIC, reply_topic_of
from mainstem.client.http.worker import Worker
from mainstem.client.log import Log
from mainstem.client.records import NewRecord
from mainstem.clock import SystemClock
from mainstem.errors import LogUnavailableError, UnknownTopicError
from mainstem.model import Record
from mainstem.testing.clock import ManualClock
from mainstem.testing.embedded import EmbeddedBroker
from tests.gateway.answering import working

HICCUP = KafkaException(KafkaError(KafkaError._TIMED_OUT, "a hiccup", txn_requires_abort=True))


class Hiccuping(Worker):
    """Fails every second round, when its replies are sent and not yet committed."""

    rounds = 0

    def _commit(self, producer: Producer) -> None:
        self.rounds += 1
        if self.rounds % 2:
            producer.flush(60)
            raise HICCUP
        super()._commit(producer)


class Failing(Worker):
    """Fails every round."""

    def _commit(self, producer: Producer) -> None:
        raise HICCUP


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


def test_a_worker_outlives_any_number_of_hiccups_with_a_good_round_between(
    mainstem_log: Log, mainstem_topic: str
) -> None:
    with working(mainstem_log, mainstem_topic, lambda r: r.offset, Hiccuping) as worker:
        for expected in range(1, 7):
            put_requests(mainstem_log, mainstem_topic, 1)
            found = replies(mainstem_log, mainstem_topic, expected)
    assert isinstance(worker, Hiccuping)
    assert worker.rounds == 12
    assert [record.value for record in found] == [str(offset).encode() for offset in range(6)]


def test_a_worker_whose_rounds_all_fail_says_so_and_leaves_the_requests(mainstem_log: Log, mainstem_topic: str) -> None:
    put_requests(mainstem_log, mainstem_topic, 2)
    with Failing(mainstem_log, mainstem_topic, lambda r: r.value) as worker:
        with pytest.raises(LogUnavailableError, match="cannot be answered: a hiccup"):
            worker.run()
    with working(mainstem_log, mainstem_topic, lambda r: r.value):
        assert [record.value for record in replies(mainstem_log, mainstem_topic, 2)] == [b"0", b"1"]


def test_a_log_that_is_away_while_a_round_is_given_up_ends_no_worker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mainstem.client.http.worker._ABORT_S", 0.1)
    broker = EmbeddedBroker(tmp_path).start()

    class LosesItsLog(Worker):
        is_lost = False

        def _commit(self, producer: Producer) -> None:
            if not self.is_lost:
                self.is_lost = True
                producer.flush(60)
                broker.stop()
                raise HICCUP
            super()._commit(producer)

        def _go_back(self, start: TopicPartition) -> None:
            broker.start()
            super()._go_back(start)

    with Log(broker.bootstrap, timeout_s=60) as log:
        log.create_topic("requests", partitions=1)
        put_requests(log, "requests", 2)
        with working(log, "requests", lambda r: r.offset, LosesItsLog):
            assert [record.value for record in replies(log, "requests", 2)] == [b"0", b"1"]
    broker.stop()


KILLED_IN_ITS_TRANSACTION = """
import os, signal, sys
from mainstem.client.http import worker
from mainstem.client.log import Log

worker._TAKEN_OVER_MS = 4000  # another takes over after that time

class Killed(worker.Worker):
    def _commit(self, producer):
        producer.flush(60)
        os.kill(os.getpid(), signal.SIGKILL)

Killed(Log(sys.argv[1]), "requests", lambda request: "of the killed").run()
"""


def test_a_worker_that_is_killed_in_its_transaction_leaves_no_reply_and_no_request_unanswered() -> None:
    clock = ManualClock(SystemClock().time_ms())
    settings = {"group.initial.rebalance.delay.ms": "0", "group.min.session.timeout.ms": "1000"}
    with EmbeddedBroker(settings=settings, clock=clock) as broker, Log(broker.bootstrap, timeout_s=60) as log:
        log.create_topic("requests", partitions=1)
        put_requests(log, "requests", 3)
        argv = [sys.executable, "-c", KILLED_IN_ITS_TRANSACTION, broker.bootstrap]
        assert subprocess.run(argv, timeout=120, check=False).returncode == -signal.SIGKILL
        clock.advance(11)  # the log ends its transaction
        with working(log, "requests", lambda r: r.offset):
            assert [record.value for record in replies(log, "requests", 3)] == [b"0", b"1", b"2"]
        assert len(list(log.read(reply_topic_of("requests")))) == 3


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
