"""Groups whose members are replaced one after another by members of the other protocol, while records come (KIP-848).

The members are librdkafka's, and those of the Java client. No partition may have two of them at a time, and no record
may be left out.
"""

from __future__ import annotations

import itertools
import json
import logging
import subprocess
import threading
import time
import uuid
from collections import deque
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, ConsumerGroupType, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.broker.harness import LogProcess
from tests.support.apache_kafka import tool_argv
from tests.support.eventually import eventually
from tests.support.kafka_or_skip import kafka_or_skip, with_controls

PARTITIONS = 6
TIMEOUT_S = 60
_SETTINGS = {
    "group_consumer_heartbeat_interval_ms": "100",
    "group_consumer_min_heartbeat_interval_ms": "100",
    "group_min_session_timeout_ms": "1000",
    "group_initial_rebalance_delay_ms": "0",
    "group_consumer_assignment_interval_ms": "0",
}


class Book(logging.Handler):
    """The holder of each partition, by what the members' callbacks say, and the records that came.

    ``told`` is what they say, and what librdkafka writes about its groups, with times: a failure shows it.
    """

    def __init__(self) -> None:
        super().__init__()
        self.lock = threading.Lock()
        self.told: deque[str] = deque(maxlen=4_000)
        self.holders: dict[int, str] = {}
        self.seen: set[bytes] = set()
        self.wrong: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if "DUMP" not in (said := record.getMessage()):
            self.told.append(f"{record.created:.3f} {record.name}: {said}")

    def assigned(self, name: str, partitions: list[TopicPartition]) -> None:
        self._told(name, "got", partitions)
        with self.lock:
            for each in partitions:
                holder = self.holders.setdefault(each.partition, name)
                if holder != name:
                    self.wrong.append(f"{each.partition} went to {name} while {holder} had it")

    def revoked(self, name: str, partitions: list[TopicPartition]) -> None:
        self._told(name, "gave up", partitions)
        with self.lock:
            for each in partitions:
                if self.holders.get(each.partition) == name:
                    del self.holders[each.partition]

    def _told(self, name: str, what: str, partitions: list[TopicPartition]) -> None:
        self.told.append(f"{time.time():.3f} {name}: {what} {[each.partition for each in partitions]}")

    def is_shared_by(self, names: list[str]) -> bool:
        with self.lock:
            return len(self.holders) == PARTITIONS and set(self.holders.values()) == set(names)


class Worker:
    """A member in a thread of its own, until it is stopped: then it commits and leaves."""

    def __init__(self, name: str, bootstrap: str, group: str, topic: str, book: Book, **settings: Any) -> None:
        self.name, self._topic, self._book = name, topic, book
        base = {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "auto.commit.interval.ms": 100,
            "fetch.wait.max.ms": 50,
            "reconnect.backoff.max.ms": 100,
            "debug": "cgrp",
        }
        logger = logging.Logger(name)
        logger.addHandler(book)
        self._client = Consumer(base | settings, logger=logger)
        self._stops = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        self._client.subscribe(
            [self._topic],
            on_assign=lambda _, partitions: self._book.assigned(self.name, partitions),
            on_revoke=lambda _, partitions: self._book.revoked(self.name, partitions),
            on_lost=lambda _, partitions: self._book.revoked(self.name, partitions),
        )
        while not self._stops.is_set():
            message = self._client.poll(0.05)
            if message is not None and message.error() is None:
                with self._book.lock:
                    self._book.seen.add(message.value())
            elif message is not None and message.error().fatal():
                self._book.wrong.append(f"{self.name}: {message.error()}")
                break
        self._client.close()

    def stop(self) -> None:
        self._stops.set()
        self._thread.join(TIMEOUT_S)
        assert not self._thread.is_alive()


@contextmanager
def load(bootstrap: str, topic: str) -> Iterator[list[bytes]]:
    """Records that come all the time; their values, once all are acknowledged."""
    producer, stops, values = Producer({"bootstrap.servers": bootstrap, "linger.ms": 1}), threading.Event(), []

    def produce() -> None:
        for number in itertools.count():
            if stops.wait(0.005):
                return
            value = b"%d" % number
            producer.produce(topic, value, partition=number % PARTITIONS)
            values.append(value)
            producer.poll(0)

    thread = threading.Thread(target=produce)
    thread.start()
    try:
        yield values
    finally:
        stops.set()
        thread.join()
        assert producer.flush(TIMEOUT_S) == 0


@pytest.fixture(scope="module", params=with_controls())
def bootstrap(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a Mainstem whose groups have quick heartbeats, and of such an Apache Kafka as a control."""
    with ExitStack() as stack:
        if request.param == "mainstem":
            path = tmp_path_factory.mktemp("log") / "data"
            yield stack.enter_context(LogProcess(path, **_SETTINGS)).bootstrap
            return
        yield stack.enter_context(kafka_or_skip(**_SETTINGS)).bootstrap


def type_of(admin: AdminClient, group: str) -> ConsumerGroupType | None:
    listed = admin.list_consumer_groups().result(TIMEOUT_S)
    return next((each.type for each in listed.valid if each.group_id == group), None)


@pytest.mark.parametrize("assignor", ["range", "cooperative-sticky"])
def test_a_group_is_rolled_to_the_other_protocol_and_back(
    bootstrap: str, assignor: str, request: pytest.FixtureRequest
) -> None:
    if assignor == "cooperative-sticky" and "kafka" in request.node.callspec.id:
        pytest.skip("Kafka 4.3 refuses the upgrade: librdkafka's assignments have data of the assignor in them")
    topic, group, book = f"t{uuid.uuid4().hex[:8]}", uuid.uuid4().hex, Book()
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result(TIMEOUT_S)
    classic = {
        "group.protocol": "classic",
        "partition.assignment.strategy": assignor,
        "session.timeout.ms": 10_000,
        "heartbeat.interval.ms": 100,
    }
    names = map(str, itertools.count())

    def start(settings: dict[str, Any]) -> Worker:
        return Worker(next(names), bootstrap, group, topic, book, **settings)

    def settle() -> None:
        names = [worker.name for worker in workers]
        eventually(lambda: book.wrong or book.is_shared_by(names), "all have a share", TIMEOUT_S)
        assert book.wrong == []

    workers = [start(classic) for _ in range(3)]
    try:
        with load(bootstrap, topic) as values:
            settle()
            for settings, expected in (
                ({"group.protocol": "consumer"}, ConsumerGroupType.CONSUMER),
                (classic, ConsumerGroupType.CLASSIC),
            ):
                for at in range(len(workers)):
                    workers[at].stop()
                    workers[at] = start(settings)
                    settle()
                assert type_of(admin, group) == expected
        eventually(lambda: book.seen >= set(values), "every record came", TIMEOUT_S)
        assert book.wrong == []
    except AssertionError as error:
        error.add_note("\n".join(book.told))
        raise
    finally:
        for worker in workers:
            worker.stop()


# ---- the Java client


class JavaWorker:
    """Kafka's VerifiableConsumer: it says in lines of JSON, with times, what it was given and what it read."""

    def __init__(self, bootstrap: str, group: str, topic: str, *settings: str) -> None:
        common = ("--bootstrap-server", bootstrap, "--group-id", group, "--topic", topic, "--reset-policy", "earliest")
        argv = tool_argv("org.apache.kafka.tools.VerifiableConsumer", *common, *settings)
        self.events: list[dict[str, Any]] = []
        self._process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self._thread = threading.Thread(target=self._read)
        self._thread.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("{"):
                self.events.append(json.loads(line))

    def holds(self) -> set[int]:
        held: set[int] = set()
        for event in list(self.events):
            numbers = {each["partition"] for each in event.get("partitions", ())}
            if event["name"] == "partitions_assigned":
                held |= numbers
            elif event["name"] == "partitions_revoked":
                held -= numbers
        return held

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait(TIMEOUT_S)
        self._thread.join(TIMEOUT_S)


def check_holders(workers: list[JavaWorker]) -> None:
    """No partition went to a member while another had it, by the times of what they said."""
    order = {"partitions_revoked": 0, "partitions_assigned": 1}
    events = [
        (event["timestamp"], order[event["name"]], at, {each["partition"] for each in event["partitions"]})
        for at, worker in enumerate(workers)
        for event in worker.events
        if event["name"] in order
    ]
    holders: dict[int, int] = {}
    for time_ms, is_assigned, at, numbers in sorted(events, key=lambda event: event[:3]):
        for number in numbers:
            if is_assigned:
                assert holders.setdefault(number, at) == at, (time_ms, number, at, holders)
            elif holders.get(number) == at:
                del holders[number]


def offsets_read(workers: list[JavaWorker]) -> dict[int, set[int]]:
    """The offsets of each partition that came to a member."""
    read: dict[int, set[int]] = {number: set() for number in range(PARTITIONS)}
    for worker in workers:
        for event in list(worker.events):
            for each in event["partitions"] if event["name"] == "records_consumed" else ():
                read[each["partition"]].update(range(each["minOffset"], each["maxOffset"] + 1))
    return read


@pytest.mark.maven
@pytest.mark.slow
@pytest.mark.usefixtures("kafka_jars")
@pytest.mark.parametrize("assignor", ["Range", "CooperativeSticky"])
def test_a_group_of_java_clients_is_rolled_to_the_other_protocol_and_back(
    bootstrap: str, assignor: str, tmp_path: Path
) -> None:
    topic, group = f"t{uuid.uuid4().hex[:8]}", uuid.uuid4().hex
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result(TIMEOUT_S)
    (tmp_path / "classic").write_text("heartbeat.interval.ms=100\n")
    strategy = ("--assignment-strategy", f"org.apache.kafka.clients.consumer.{assignor}Assignor")
    classic = ("--group-protocol", "classic", "--command-config", str(tmp_path / "classic"), *strategy)
    ever: list[JavaWorker] = []

    def start(*settings: str) -> JavaWorker:
        ever.append(JavaWorker(bootstrap, group, topic, *settings))
        return ever[-1]

    def settle() -> None:
        everything = set(range(PARTITIONS))

        def is_settled() -> bool:
            held = [worker.holds() for worker in workers]
            return all(held) and set().union(*held) == everything and sum(map(len, held)) == PARTITIONS

        eventually(is_settled, "all have a share", TIMEOUT_S)

    try:
        with load(bootstrap, topic) as values:
            workers = [start(*classic), start(*classic)]
            settle()
            for settings in (("--group-protocol", "consumer"), classic):
                for at in range(len(workers)):
                    workers[at].stop()
                    workers[at] = start(*settings)
                    settle()
            assert type_of(admin, group) == ConsumerGroupType.CLASSIC
        ends = {number: len(values[number::PARTITIONS]) for number in range(PARTITIONS)}
        expected = {number: set(range(end)) for number, end in ends.items()}
        eventually(lambda: offsets_read(ever) == expected, "every record came", TIMEOUT_S)
    finally:
        for worker in ever:
            worker.stop()
    check_holders(ever)
