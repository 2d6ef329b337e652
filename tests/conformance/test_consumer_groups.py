"""Consumer groups of KIP-848 with foreign clients: librdkafka's, and Apache Kafka's Java client and tools."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Message, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from tests.broker.harness import LogProcess
from tests.conformance.test_confluent_kafka import new_topic, produce
from tests.conformance.test_java_tools import GROUPS, TOOLS, Tools
from tests.support.apache_kafka import run_tool

TIMEOUT_S = 100


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LogProcess]:
    """A log whose consumer groups have quick heartbeats, so that a rebalance takes little time."""
    process = LogProcess(
        tmp_path_factory.mktemp("log") / "data",
        group_consumer_heartbeat_interval_ms="100",
        group_consumer_session_timeout_ms="45000",
    )
    with process:
        yield process


def consumer(log: LogProcess, group: str, **more: Any) -> Consumer:
    settings = {
        "bootstrap.servers": log.bootstrap,
        "group.id": group,
        "group.protocol": "consumer",
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "fetch.wait.max.ms": 50,
        "reconnect.backoff.max.ms": 100,
        "log_level": 0,
    }
    return Consumer(settings | {name.replace("_", "."): value for name, value in more.items()})


def poll_until(condition: Callable[[], bool], *clients: Consumer) -> list[Message]:
    """Poll all clients until it holds; the records that came."""
    records, deadline = [], time.monotonic() + TIMEOUT_S
    while not condition():
        assert time.monotonic() < deadline
        for client in clients:
            message = client.poll(0.05)
            if message is not None and message.error() is None:
                records.append(message)
            elif message is not None and message.error().fatal():
                raise KafkaException(message.error())
    return records


def read(client: Consumer, count: int) -> list[bytes | None]:
    values: list[bytes | None] = []
    deadline = time.monotonic() + TIMEOUT_S
    while len(values) < count:
        assert time.monotonic() < deadline
        values += [message.value() for message in client.consume(count - len(values), 0.1) if message.error() is None]
    return values


def numbers(client: Consumer) -> list[int]:
    return sorted(partition.partition for partition in client.assignment())


def test_members_come_and_go_and_share_the_partitions(log: LogProcess) -> None:
    topic, group = new_topic(log, 4), uuid.uuid4().hex
    first, second = consumer(log, group), consumer(log, group)
    first.subscribe([topic])
    poll_until(lambda: len(first.assignment()) == 4, first)
    second.subscribe([topic])
    poll_until(lambda: len(first.assignment()) == len(second.assignment()) == 2, first, second)
    assert sorted(numbers(first) + numbers(second)) == [0, 1, 2, 3]
    second.close()
    poll_until(lambda: numbers(first) == [0, 1, 2, 3], first)
    first.close()


def test_a_group_goes_on_where_it_committed(log: LogProcess) -> None:
    topic, group = new_topic(log), uuid.uuid4().hex
    produce(log, topic, *[b"%d" % number for number in range(10)])
    first = consumer(log, group)
    first.subscribe([topic])
    assert read(first, 6)[:6] == [b"%d" % number for number in range(6)]
    first.commit(offsets=[TopicPartition(topic, 0, 6)], asynchronous=False)
    first.close()
    second = consumer(log, group)
    second.subscribe([topic])
    assert read(second, 4) == [b"6", b"7", b"8", b"9"]
    second.close()


def test_a_regular_expression_finds_topics_that_come_later(log: LogProcess) -> None:
    prefix, group = f"r{uuid.uuid4().hex[:8]}", uuid.uuid4().hex
    admin_topic(log, f"{prefix}-one")
    client = consumer(log, group)
    client.subscribe([f"^{prefix}-.*"])
    poll_until(lambda: len(client.assignment()) == 1, client)
    admin_topic(log, f"{prefix}-two")
    poll_until(lambda: len(client.assignment()) == 2, client)
    client.close()


def admin_topic(log: LogProcess, name: str) -> None:
    admin = AdminClient({"bootstrap.servers": log.bootstrap})
    admin.create_topics([NewTopic(name, 1, 1)])[name].result(TIMEOUT_S)


def test_new_partitions_reach_the_members(log: LogProcess) -> None:
    topic, group = new_topic(log, 1), uuid.uuid4().hex
    client = consumer(log, group, group_remote_assignor="range")
    client.subscribe([topic])
    poll_until(lambda: len(client.assignment()) == 1, client)
    admin = AdminClient({"bootstrap.servers": log.bootstrap})
    admin.create_partitions([NewPartitions(topic, 3)])[topic].result(TIMEOUT_S)
    poll_until(lambda: len(client.assignment()) == 3, client)
    client.close()


def test_a_static_member_is_back_without_a_rebalance(log: LogProcess) -> None:
    topic, group = new_topic(log, 4), uuid.uuid4().hex
    members = [consumer(log, group, group_instance_id=name) for name in ("one", "two")]
    for member in members:
        member.subscribe([topic])
    poll_until(lambda: all(len(member.assignment()) == 2 for member in members), *members)
    had = numbers(members[1])
    members[1].close()
    again = consumer(log, group, group_instance_id="two")
    again.subscribe([topic])
    poll_until(lambda: len(again.assignment()) == 2, members[0], again)
    assert (numbers(again), len(members[0].assignment())) == (had, 2)
    again.close()
    members[0].close()


def test_members_go_on_after_the_log_was_killed(log: LogProcess) -> None:
    topic, group = new_topic(log, 2), uuid.uuid4().hex
    client = consumer(log, group)
    client.subscribe([topic])
    poll_until(lambda: len(client.assignment()) == 2, client)
    log.kill()
    log.start()
    produce(log, topic, b"after")
    assert read(client, 1) == [b"after"]
    client.commit(asynchronous=False)
    assert len(client.assignment()) == 2
    client.close()


@pytest.mark.maven
@pytest.mark.usefixtures("kafka_jars")
def test_java_s_consumer_and_group_tool_know_both_types(log: LogProcess) -> None:
    topic, group = new_topic(log), uuid.uuid4().hex
    produce(log, topic, b"a", b"b")
    tools = Tools(log)
    bounds = ("--from-beginning", "--max-messages", "2", "--timeout-ms", "60000")
    for protocol in ("consumer", "classic"):
        options = ("--command-property", f"group.protocol={protocol}", "--group", f"{group}-{protocol}")
        output = tools(TOOLS + "consumer.ConsoleConsumer", "--topic", topic, *bounds, *options)
        assert output.split() == ["a", "b"]
    listed = tools(GROUPS, "--list", "--type", "consumer").split()
    assert f"{group}-consumer" in listed
    assert f"{group}-classic" not in listed
    client = consumer(log, f"{group}-consumer")
    client.subscribe([topic])
    poll_until(lambda: len(client.assignment()) == 1, client)
    described = tools(GROUPS, "--describe", "--group", f"{group}-consumer", "--members", "--verbose")
    assert f"{topic}(0)" in described or f"{topic}:0" in described
    assert "Stable" in tools(GROUPS, "--describe", "--group", f"{group}-consumer", "--state")
    client.close()
    for protocol in ("consumer", "classic"):
        rows = [line.split() for line in tools(GROUPS, "--describe", "--group", f"{group}-{protocol}").splitlines()]
        assert [topic, "0", "2", "2", "0"] in [row[1:6] for row in rows]


@pytest.mark.maven
@pytest.mark.usefixtures("kafka_jars")
def test_kafka_s_dump_tool_reads_the_records_of_consumer_groups(log: LogProcess) -> None:
    topic, group = new_topic(log, 2), uuid.uuid4().hex
    client = consumer(log, group)
    client.subscribe([f"^{topic}$"])
    poll_until(lambda: len(client.assignment()) == 2, client)
    segment = log.data_dir / "__consumer_offsets-0" / "00000000000000000000.log"
    dumped = run_tool(TOOLS + "DumpLogSegments", "--offsets-decoder", "--files", str(segment)).stdout
    mine = [line for line in dumped.splitlines() if group in line]
    found = {kind for kind in ("3", "5", "6", "7", "8", "16") if any(f'"type":"{kind}"' in line for line in mine)}
    assert found == {"3", "5", "6", "7", "8", "16"}
    client.close()
