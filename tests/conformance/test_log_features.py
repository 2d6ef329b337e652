"""The log features by record headers, from clients that know nothing of them."""

from __future__ import annotations

import uuid
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from kafka import KafkaProducer
from kafka.errors import InvalidRecordError, KafkaError

from mainstem.client.log import Log
from tests.broker.harness import LogProcess
from tests.support.apache_kafka import run_tool

TIMEOUT_S = 100
_CONFIGS = {
    "mainstem.key.index": "true",
    "mainstem.conditional.append": "true",
    "mainstem.idempotency.window.ms": "600000",
}


def new_topic(log: LogProcess) -> str:
    name = f"f-{uuid.uuid4().hex[:12]}"
    admin = AdminClient({"bootstrap.servers": log.bootstrap})
    for future in admin.create_topics([NewTopic(name, 1, 1, config=_CONFIGS)]).values():
        future.result(TIMEOUT_S)
    return name


class Sender:
    """A librdkafka producer that sends one record and waits for its report."""

    def __init__(self, log: LogProcess, topic: str, **settings: Any) -> None:
        options = {"bootstrap.servers": log.bootstrap, **{k.replace("_", "."): v for k, v in settings.items()}}
        self._producer = Producer(options)
        self._topic = topic

    def send(self, value: str, **headers: str) -> int | str:
        """The offset, or the error's name."""
        reports: list[Any] = []
        named = [(f"mainstem-{name.replace('_', '-')}", text) for name, text in headers.items()]
        self._producer.produce(
            self._topic, value, b"k", partition=0, headers=named, on_delivery=lambda *report: reports.append(report)
        )
        assert self._producer.flush(TIMEOUT_S) == 0
        [(error, message)] = reports
        return int(message.offset()) if error is None else str(error.name())


def values(log: LogProcess, topic: str) -> list[bytes | None]:
    with Log(log.bootstrap, timeout_s=TIMEOUT_S) as client:
        return [record.value for record in client.read(topic)]


def test_librdkafka_is_refused_on_a_wrong_expectation(log: LogProcess) -> None:
    topic = new_topic(log)
    plain = Sender(log, topic)
    assert plain.send("a", expect_key_offset="-1") == 0
    assert plain.send("b", expect_key_offset="-1") == "INVALID_RECORD"
    assert plain.send("b", expect_key_offset="0", expect_end="1") == 1
    assert plain.send("c", expect_end="1") == "INVALID_RECORD"
    assert values(log, topic) == [b"a", b"b"]


def test_librdkafkas_idempotent_producer_goes_on_after_a_refusal(log: LogProcess) -> None:
    topic = new_topic(log)
    idempotent = Sender(log, topic, enable_idempotence=True)
    assert idempotent.send("a", expect_key_offset="-1") == 0
    assert idempotent.send("b", expect_key_offset="-1") == "INVALID_RECORD"
    assert idempotent.send("b", expect_key_offset="0") == 1
    assert idempotent.send("c") == 2


def test_librdkafka_gets_the_first_offset_for_an_idempotency_key(log: LogProcess) -> None:
    topic = new_topic(log)
    for settings in ({}, {"enable_idempotence": True}):
        sender = Sender(log, topic, **settings)
        assert sender.send("a", idempotency_key="x") == 0
        assert sender.send("a", idempotency_key="x") == 0
    assert isinstance(sender.send("b"), int)
    assert sender.send("a", idempotency_key="x") == 0
    assert values(log, topic) == [b"a", b"b"]


def test_of_many_writers_one_wins_each_round(log: LogProcess) -> None:
    """Four librdkafka producers count one key up: each round one of them is taken, whichever it is."""
    topic = new_topic(log)
    senders = [Sender(log, topic) for _ in range(4)]
    for round_ in range(10):
        with ThreadPoolExecutor(len(senders)) as threads:
            sent = [threads.submit(each.send, "v", expect_key_offset=str(round_ - 1)) for each in senders]
            results = [future.result(TIMEOUT_S) for future in sent]
        assert sorted(map(str, results)) == sorted([str(round_), *["INVALID_RECORD"] * 3])


def test_kafka_python_is_told_what_is_wrong(log: LogProcess) -> None:
    """Not with its idempotent producer, which takes no more records once a batch was refused, whatever the reason."""
    topic = new_topic(log)
    producer = KafkaProducer(bootstrap_servers=log.bootstrap, enable_idempotence=False)

    def send(value: bytes, **headers: bytes) -> int | KafkaError:
        named = [(f"mainstem-{name.replace('_', '-')}", text) for name, text in headers.items()]
        try:
            return int(producer.send(topic, value, key=b"k", headers=named).get(TIMEOUT_S).offset)
        except KafkaError as error:
            return error

    assert send(b"a", expect_key_offset=b"-1") == 0
    refused = send(b"b", expect_key_offset=b"-1")
    assert isinstance(refused, InvalidRecordError)
    assert "expected -1, actual 0" in str(refused)
    assert send(b"b", expect_key_offset=b"0") == 1
    assert send(b"c", idempotency_key=b"x") == 2
    assert send(b"c", idempotency_key=b"x") == 2
    assert send(b"d") is not None
    producer.close(TIMEOUT_S)
    assert values(log, topic) == [b"a", b"b", b"c", b"d"]


@pytest.mark.maven
@pytest.mark.usefixtures("kafka_jars")
def test_the_java_producer_is_told_what_is_wrong_and_goes_on(log: LogProcess) -> None:
    topic = new_topic(log)
    lines = [f"mainstem-expect-key-offset:{offset}\tk\t{value}" for offset, value in ((-1, "a"), (-1, "b"), (0, "c"))]
    done = run_tool(
        "org.apache.kafka.tools.ConsoleProducer",
        *("--bootstrap-server", log.bootstrap, "--topic", topic, "--producer-property", "batch.size=0"),
        *("--reader-property", "parse.key=true", "--reader-property", "parse.headers=true"),
        stdin="\n".join(lines) + "\n",
    )
    assert values(log, topic) == [b"a", b"c"], done.stdout + done.stderr
    sync = run_tool(
        "org.apache.kafka.tools.ConsoleProducer",
        *("--bootstrap-server", log.bootstrap, "--topic", topic, "--sync"),
        *("--reader-property", "parse.key=true", "--reader-property", "parse.headers=true"),
        stdin=lines[1] + "\n",
    )
    assert "InvalidRecordException: mainstem-expect-key-offset: expected -1, actual 1" in sync.stdout + sync.stderr
