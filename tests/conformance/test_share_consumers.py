"""Share groups with foreign clients: librdkafka's share consumer, Kafka's Java ones, and Kafka's tools for admins.

Last comes what a SIGKILL in the middle of the work leaves.
"""

from __future__ import annotations

import json
import threading
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import (
    AcknowledgeType,
    Consumer,
    KafkaException,
    Message,
    Producer,
    ShareConsumer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic

from tests.broker.harness import LogProcess
from tests.support.apache_kafka import run_tool

TIMEOUT_S = 60
KILLS = 2
TOOLS = "org.apache.kafka.tools."
SHARE_GROUPS = TOOLS + "consumer.group.ShareGroupCommand"


def name_of_new_topic(log: LogProcess, partitions: int = 1) -> str:
    """A topic, and a group of the same name that begins at its beginning."""
    name = f"s-{uuid.uuid4().hex[:12]}"
    admin = AdminClient({"bootstrap.servers": log.bootstrap})
    admin.create_topics([NewTopic(name, partitions, 1)])[name].result(TIMEOUT_S)
    entry = ConfigEntry("share.auto.offset.reset", "earliest", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.GROUP, name, incremental_configs=[entry])
    admin.incremental_alter_configs([resource])[resource].result(TIMEOUT_S)
    return name


def produce(log: LogProcess, topic: str, count: int, *, first: int = 0, **settings: Any) -> None:
    client = Producer({"bootstrap.servers": log.bootstrap, "linger.ms": 5, **settings})
    for number in range(first, first + count):
        client.produce(topic, value=b"%d" % number)
    assert client.flush(TIMEOUT_S) == 0


@contextmanager
def consumer(log: LogProcess, topic: str, mode: str = "explicit", **settings: Any) -> Iterator[ShareConsumer]:
    client = ShareConsumer(
        {
            "bootstrap.servers": log.bootstrap,
            "group.id": topic,
            "share.acknowledgement.mode": mode,
            "reconnect.backoff.max.ms": 200,
            **settings,
        }
    )
    client.subscribe([topic])
    try:
        yield client
    finally:
        client.close()


def poll(*clients: ShareConsumer) -> Iterator[tuple[ShareConsumer, Message]]:
    """What the clients get, for as long as they are asked for more; an error is raised."""
    deadline = time.monotonic() + TIMEOUT_S
    while time.monotonic() < deadline:
        for client in clients:
            messages = list(client.poll(timeout=0.2))
            for message in messages:
                assert message.error() is None, message.error()
                yield client, message
    raise TimeoutError(f"nothing more within {TIMEOUT_S} s")


def value_of(message: Message) -> int:
    return int(message.value() or b"")


def test_members_share_the_records_of_one_partition(log: LogProcess) -> None:
    topic = name_of_new_topic(log)
    produce(log, topic, 1000, **{"batch.num.messages": 50})
    seen: Counter[int] = Counter()
    holders = set()
    with (
        consumer(log, topic, **{"max.poll.records": 50}) as one,
        consumer(log, topic, **{"max.poll.records": 50}) as two,
    ):
        for client, message in poll(one, two):
            client.acknowledge(message)
            holders.add(id(client))
            seen[value_of(message)] += 1
            if len(seen) == 1000:
                break
        for client in (one, two):
            assert not any(client.commit_sync().values())
    assert set(seen) == set(range(1000))
    assert max(seen.values()) == 1
    assert len(holders) == 2


def test_a_released_record_comes_again_and_a_rejected_one_does_not(log: LogProcess) -> None:
    topic = name_of_new_topic(log)
    produce(log, topic, 10)
    deliveries: Counter[int] = Counter()
    accepted = set()
    with consumer(log, topic) as client:
        for _, message in poll(client):
            value = value_of(message)
            deliveries[value] += 1
            if value == 3 and deliveries[3] == 1:
                client.acknowledge(message, AcknowledgeType.RELEASE)
            elif value == 5:
                client.acknowledge(message, AcknowledgeType.REJECT)
            else:
                client.acknowledge(message)
                accepted.add(value)
            if len(accepted) == 9:
                break
        client.commit_sync()
    assert deliveries[3] == 2
    assert deliveries[5] == 1
    with consumer(log, topic) as client:
        assert not list(client.poll(timeout=1.0))


def test_a_record_that_is_always_released_is_given_up_at_the_limit(log: LogProcess) -> None:
    topic = name_of_new_topic(log)
    produce(log, topic, 4)
    deliveries: Counter[int] = Counter()
    with consumer(log, topic) as client:
        for _, message in poll(client):
            value = value_of(message)
            deliveries[value] += 1
            client.acknowledge(message, AcknowledgeType.RELEASE if value == 2 else AcknowledgeType.ACCEPT)
            if deliveries[2] == 5 and len(deliveries) == 4:
                break
        client.commit_sync()
        produce(log, topic, 1, first=9)
        assert value_of(next(poll(client))[1]) == 9
        client.acknowledge_offset(topic, 0, 4)
        client.commit_sync()
    assert deliveries == {0: 1, 1: 1, 2: 5, 3: 1}


def test_a_rejected_record_is_read_from_the_topic_of_dead_letters(log: LogProcess) -> None:
    topic = name_of_new_topic(log)
    letters = f"dlq.{topic}"
    admin = AdminClient({"bootstrap.servers": log.bootstrap})
    allowed = {"errors.deadletterqueue.group.enable": "true"}
    admin.create_topics([NewTopic(letters, 1, 1, config=allowed)])[letters].result(TIMEOUT_S)
    wanted = {"errors.deadletterqueue.topic.name": letters, "errors.deadletterqueue.copy.record.enable": "true"}
    entries = [ConfigEntry(*each, incremental_operation=AlterConfigOpType.SET) for each in wanted.items()]
    resource = ConfigResource(ConfigResource.Type.GROUP, topic, incremental_configs=entries)
    admin.incremental_alter_configs([resource])[resource].result(TIMEOUT_S)
    produce(log, topic, 3)
    seen = 0
    with consumer(log, topic) as client:
        for _, message in poll(client):
            rejects = value_of(message) == 1
            client.acknowledge(message, AcknowledgeType.REJECT if rejects else AcknowledgeType.ACCEPT)
            seen += 1
            if seen == 3:
                break
        client.commit_sync()
    reader = Consumer({"bootstrap.servers": log.bootstrap, "group.id": letters, "auto.offset.reset": "earliest"})
    reader.assign([TopicPartition(letters, 0, 0)])
    letter = reader.poll(TIMEOUT_S)
    reader.close()
    assert letter is not None
    assert letter.value() == b"1"
    assert dict(letter.headers() or [])["__dlq.errors.offset"] == b"1"


def test_aborted_records_are_not_delivered_to_a_group_that_reads_what_is_committed(log: LogProcess) -> None:
    topic = name_of_new_topic(log)
    admin = AdminClient({"bootstrap.servers": log.bootstrap})
    entry = ConfigEntry("share.isolation.level", "read_committed", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.GROUP, topic, incremental_configs=[entry])
    admin.incremental_alter_configs([resource])[resource].result(TIMEOUT_S)
    client = Producer({"bootstrap.servers": log.bootstrap, "transactional.id": topic})
    client.init_transactions(TIMEOUT_S)
    for number in range(6):
        client.begin_transaction()
        client.produce(topic, value=b"%d" % number)
        client.flush(TIMEOUT_S)
        if number % 2:
            client.abort_transaction(TIMEOUT_S)
        else:
            client.commit_transaction(TIMEOUT_S)
    seen = []
    with consumer(log, topic, "implicit") as reader:
        for _, message in poll(reader):
            seen.append(value_of(message))
            if len(seen) == 3:
                break
        reader.commit_sync()
        assert not list(reader.poll(timeout=1.0))
    assert seen == [0, 2, 4]


class Tools:
    """Kafka's tools, with the log's address given to each."""

    def __init__(self, log: LogProcess) -> None:
        self.log = log

    def __call__(self, main_class: str, *arguments: str, stdin: str | None = None) -> str:
        done = run_tool(main_class, "--bootstrap-server", self.log.bootstrap, *arguments, stdin=stdin, timeout_s=90)
        assert done.returncode == 0, done.stdout + done.stderr
        assert "Exception" not in done.stderr, done.stderr
        return done.stdout

    def groups(self, *arguments: str) -> list[list[str]]:
        """The table that kafka-share-groups prints, without its head."""
        rows = [line.split() for line in self(SHARE_GROUPS, *arguments).splitlines() if line.strip()]
        return rows[1:]


@pytest.mark.maven
@pytest.mark.usefixtures("kafka_jars")
def test_kafka_s_share_consumers_and_admin_tools(log: LogProcess) -> None:
    tools = Tools(log)
    topic = name_of_new_topic(log)
    of_group = ("--group", topic)
    produce(log, topic, 20)
    bounds = ("--topic", topic, "--max-messages", "20", "--timeout-ms", "60000")
    output = tools(TOOLS + "consumer.ConsoleShareConsumer", *bounds, *of_group)
    assert sorted(map(int, output.split())) == list(range(20))
    assert [topic, "Empty"] in tools.groups("--list", "--state")
    assert tools.groups("--describe", *of_group) == [[topic, topic, "0", "20", "0"]]
    reset = tools.groups("--reset-offsets", *of_group, "--topic", topic, "--to-earliest", "--execute")
    assert reset == [[topic, topic, "0", "0"]]
    assert tools.groups("--describe", *of_group) == [[topic, topic, "0", "0", "20"]]
    verifiable = ("--topic", topic, "--group-id", topic, "--max-messages", "20", "--acknowledgement-mode", "sync")
    printed = tools(TOOLS + "VerifiableShareConsumer", *verifiable).splitlines()
    lines = [json.loads(line) for line in printed if line.startswith("{")]
    counts = {line["name"]: line["count"] for line in lines if "count" in line}
    assert counts == {"records_consumed": 20, "offsets_acknowledged": 20}
    assert tools.groups("--delete-offsets", *of_group, "--topic", topic) == [[topic, "Successful"]]
    assert "was successful" in tools(SHARE_GROUPS, "--delete", *of_group)


@pytest.mark.maven
@pytest.mark.usefixtures("kafka_jars")
def test_kafka_s_dump_tool_reads_the_records_of_share_groups(log: LogProcess) -> None:
    topic = name_of_new_topic(log)
    produce(log, topic, 3)
    with consumer(log, topic) as client:
        client.acknowledge(next(poll(client))[1])
        client.commit_sync()
    log.stop()
    dumped = {}
    for name, decoder in (
        ("__share_group_state", "--share-group-state-decoder"),
        ("__consumer_offsets", "--offsets-decoder"),
    ):
        segment = next((log.data_dir / f"{name}-0").glob("*.log"))
        done = run_tool(TOOLS + "DumpLogSegments", decoder, "--files", str(segment))
        assert (done.returncode, done.stderr) == (0, "")
        dumped[name] = "\n".join(line for line in done.stdout.splitlines() if topic in line)
    log.start()
    assert '"firstOffset":0,"lastOffset":0,"deliveryState":2,"deliveryCount":1' in dumped["__share_group_state"]
    assert '"startOffset":1' in dumped["__share_group_state"]
    for kind in range(10, 16):
        assert f'key: {{"type":"{kind}","data":{{"groupId":"{topic}"' in dumped["__consumer_offsets"]


class Killer(threading.Thread):
    """Kills the log, and starts it again, each time when it is told that the consumers are at work."""

    def __init__(self, log: LogProcess, kills: int) -> None:
        super().__init__(daemon=True)
        self.now = threading.Event()
        self.kills_left = kills
        self._log = log

    def run(self) -> None:
        while self.kills_left:
            self.now.wait()  # the consumer's own time limit ends the test
            self.now.clear()
            self._log.kill()
            self._log.start()
            self.kills_left -= 1


def test_what_was_accepted_before_a_sigkill_never_comes_again_and_the_rest_does(tmp_path: Path) -> None:
    settings = {"max.poll.records": 50, "log_level": 0}
    with LogProcess(tmp_path / "data") as log:
        topic = name_of_new_topic(log)
        produce(log, topic, 2000, **{"batch.num.messages": 50})
        killer = Killer(log, kills=KILLS)
        killer.start()
        accepted: set[int] = set()
        uncertain: set[int] = set()
        with consumer(log, topic, **settings) as one:
            while len(accepted) < 2000:
                # In the middle of a batch, so that some records are held, and acknowledgements are under way.
                if killer.kills_left and len(accepted) > 500 * (KILLS - killer.kills_left):
                    killer.now.set()
                _accept_one_batch(one, accepted, uncertain)
                if uncertain >= set(range(2000)) - accepted:
                    break
        killer.join(TIMEOUT_S)
        assert not killer.kills_left
        with consumer(log, topic, "implicit", **settings) as other:
            left = {value_of(message) for message in other.poll(timeout=2.0)}
        assert accepted | uncertain | left == set(range(2000))
        assert not accepted & left


def _accept_one_batch(client: ShareConsumer, accepted: set[int], uncertain: set[int]) -> None:
    """Accept what one poll brings; what was accepted for certain must not be in it."""
    deadline = time.monotonic() + TIMEOUT_S
    messages: list[Message] = []
    while not messages:
        assert time.monotonic() < deadline, f"{len(accepted)} of 2000 accepted, {len(uncertain)} uncertain"
        messages = [message for message in client.poll(timeout=0.2) if message.error() is None]
    values = {value_of(message) for message in messages}
    assert not values & accepted, "an acknowledged record was delivered again"
    for message in messages:
        client.acknowledge(message)
    try:
        results = client.commit_sync(timeout=10)
    except KafkaException:
        uncertain |= values
        return
    if any(results.values()):
        uncertain |= values
    else:
        accepted |= values
        uncertain -= values
