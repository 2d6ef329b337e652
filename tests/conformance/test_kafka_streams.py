"""Kafka Streams with exactly-once v2: a program that counts, while the log and the program itself are killed."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as Place
from confluent_kafka.admin import AdminClient, NewTopic

from mainstem.client.log import GroupInfo, Log
from mainstem.model import Position, TopicPartition
from tests.broker.harness import LogProcess
from tests.support.apache_kafka import KafkaUnavailableError, run_tool
from tests.support.eventually import eventually
from tests.support.kafka_streams import CountByKey

pytestmark = [pytest.mark.maven, pytest.mark.timeout(400)]
_ABSENT = GroupInfo("", "", Position(), -1)
KEYS = ("a", "b", "c")
TIMEOUT_S = 150


SESSION_MS = 3000
# A killed program's tasks are another's soon.
_QUICK = {"group_min_session_timeout_ms": str(SESSION_MS), "group_initial_rebalance_delay_ms": "0"} | {
    f"group_streams_{least}{name}_ms": str(value)
    for name, value in (("session_timeout", SESSION_MS), ("heartbeat_interval", SESSION_MS // 6))
    for least in ("min_", "")
}


@pytest.fixture
def log(tmp_path: Path) -> Iterator[LogProcess]:
    with LogProcess(tmp_path / "data", **_QUICK) as process:
        yield process


def produce(log: LogProcess, topic: str, count: int) -> None:
    producer = Producer({"bootstrap.servers": log.bootstrap, "enable.idempotence": True})
    for _ in range(count):
        for key in KEYS:
            producer.produce(topic, b"x", key=key)
    assert producer.flush(60) == 0


def tool(log: LogProcess, *arguments: str) -> str:
    """What kafka-streams-groups prints."""
    done = run_tool(
        "org.apache.kafka.tools.streams.StreamsGroupCommand", "--bootstrap-server", log.bootstrap, *arguments
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Error" not in done.stdout, done.stdout
    return done.stdout


def counts(consumer: Consumer, seen: dict[str, list[int]], last: int) -> None:
    """Read committed counts into ``seen`` until every key has reached ``last``."""
    deadline_s = time.monotonic() + TIMEOUT_S
    while any(not seen[key] or max(seen[key]) < last for key in KEYS):
        assert time.monotonic() < deadline_s, f"{ {key: len(seen[key]) for key in KEYS} } of {last} in {TIMEOUT_S} s"
        for message in consumer.consume(100, 0.2):
            if message.error() is None:
                seen[(message.key() or b"").decode()].append(int(message.value() or b"0"))


@pytest.mark.parametrize("protocol", ["classic", "streams"])
def test_every_record_counts_once_whoever_is_killed(log: LogProcess, tmp_path: Path, protocol: str) -> None:
    source, target = f"in-{uuid.uuid4().hex[:8]}", f"out-{uuid.uuid4().hex[:8]}"
    admin = AdminClient({"bootstrap.servers": log.bootstrap})
    for future in admin.create_topics([NewTopic(source, 2, 1), NewTopic(target, 2, 1)]).values():
        future.result(60)
    program = CountByKey(log.bootstrap, f"count-{source}", source, target, tmp_path / "state", protocol, SESSION_MS)
    try:
        program.start()
    except KafkaUnavailableError as error:
        pytest.skip(str(error))
    settings = {"bootstrap.servers": log.bootstrap, "group.id": "reader", "isolation.level": "read_committed"}
    consumer, seen = Consumer({**settings, "enable.auto.commit": False}), {key: list[int]() for key in KEYS}
    consumer.assign([Place(target, number, 0) for number in range(2)])
    try:
        produce(log, source, 100)
        counts(consumer, seen, 100)
        with Log(log.bootstrap) as client:
            group = client.groups()[f"count-{source}"]
        assert (group.kind, group.state.lower()) == (protocol, "stable")
        log.kill()
        log.start()
        produce(log, source, 100)
        counts(consumer, seen, 200)
        program.kill()
        produce(log, source, 100)
        program.start()
        counts(consumer, seen, 300)
    finally:
        program.kill()
        consumer.close()
    assert seen == {key: list(range(1, 301)) for key in KEYS}


def test_kafkas_own_tools_show_reset_and_delete_a_streams_group(log: LogProcess, tmp_path: Path) -> None:
    admin = AdminClient({"bootstrap.servers": log.bootstrap})
    for future in admin.create_topics([NewTopic("in", 2, 1), NewTopic("out", 2, 1)]).values():
        future.result(60)
    program = CountByKey(log.bootstrap, "counting", "in", "out", tmp_path / "state", "streams")
    try:
        program.start()
    except KafkaUnavailableError as error:
        pytest.skip(str(error))
    produce(log, "in", 10)
    try:
        with Log(log.bootstrap) as client:
            # A count and the offset of its record come in one transaction; a group without offsets has no lag either.
            eventually(lambda: sum(1 for _ in client.read("out")) == 30, "the program has counted all", 60)
            eventually(lambda: client.groups().get("counting", _ABSENT).lag == 0, "the program has read all", 60)
            found = client.group_admin.describe("counting")
        assert (found.group.kind, found.group.state) == ("streams", "Stable")
        assert {tp for member in found.group.members for tp in member.assigned} == {
            TopicPartition("in", number) for number in range(2)
        }
        assert "counting" in tool(log, "--list")
        described = tool(log, "--describe", "--group", "counting", "--members", "--verbose")
        assert "ACTIVE: 0:[0,1];" in described.replace(" ", "").replace("ACTIVE:", "ACTIVE: ")
        assert "Stable" in tool(log, "--describe", "--group", "counting", "--state")
    finally:
        program.stop()
    with Log(log.bootstrap) as client:
        eventually(lambda: client.groups()["counting"].state.lower() == "empty", "the program has left", 60)
        reset = tool(log, "--reset-offsets", "--group", "counting", "--all-input-topics", "--to-earliest", "--execute")
        assert "counting" in reset
        assert client.groups()["counting"].lag == 30
        tool(log, "--delete", "--group", "counting", "--delete-all-internal-topics")
        assert "counting" not in client.groups()
    log.stop()
    segment = log.data_dir / "__consumer_offsets-0" / "00000000000000000000.log"
    dumped = run_tool("org.apache.kafka.tools.DumpLogSegments", "--offsets-decoder", "--files", str(segment)).stdout
    assert '"type":"23","data":{"groupId":"counting"}' in dumped.replace(" ", "")
    assert '"sourceTopics":["in"]' in dumped
    assert '"assignmentEpochs":[' in dumped
