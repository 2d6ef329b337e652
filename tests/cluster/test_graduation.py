"""Programs that begin on Mainstem, go on over Apache Kafka on the graduated log, and end on Mainstem again.

A Kafka Streams program with exactly-once v2 that is never restarted; an App with a pipeline and views; and three
brokers, of which the first runs on the graduated log.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from mainstem.client.http.views import views
from mainstem.client.log import Log
from mainstem.kafka_directory.adoption import adopt
from mainstem.kafka_directory.graduation import SERVER_PROPERTIES, commit, graduate
from mainstem.log.partition.checkpoints import decode_properties
from tests.broker.harness import LogProcess
from tests.conformance.test_kafka_streams import KEYS, counts
from tests.kafka_directory import journey
from tests.support.apache_kafka import ApacheKafka, run_tool, tool_argv
from tests.support.eventually import eventually
from tests.support.kafka_streams import CountByKey
from tests.support.ports import free_port

pytestmark = [pytest.mark.cluster, pytest.mark.maven, pytest.mark.timeout(1200)]

APP = """
import mainstem as ms
app = ms.App("move")
people = app.topic("people", schema="id STRING NOT NULL, n INT", key="id")
app.view("by-id", people, ms.KeyValue())

@app.pipeline(people, into="even", key="id")
def pick(rows):
    return rows.where("n % 2 = 0").select("id", "n")

app.view("evens", "even", ms.SQL())
"""


@contextmanager
def apache_kafka(root: Path, port: int) -> Iterator[ApacheKafka]:
    kafka = ApacheKafka(root)
    try:
        yield kafka.start(port=port)
    finally:
        kafka.end()


@contextmanager
def mainstem_log(data: Path, port: int) -> Iterator[LogProcess]:
    log = LogProcess(data)
    log.bootstrap = f"127.0.0.1:{port}"
    with log:
        yield log


def produce(bootstrap: str, topic: str, count: int) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "log_level": 0})
    for _ in range(count):
        for key in KEYS:
            producer.produce(topic, b"x", key=key)
    assert producer.flush(60) == 0


def test_a_streams_program_counts_each_record_once_over_both_moves(tmp_path: Path) -> None:
    port, data, root = free_port(), tmp_path / "data", tmp_path / "kafka"
    root.mkdir()
    bootstrap, seen = f"127.0.0.1:{port}", {key: list[int]() for key in KEYS}
    program = CountByKey(bootstrap, "count", "in", "out", tmp_path / "state")
    settings = {"bootstrap.servers": bootstrap, "group.id": "reader", "isolation.level": "read_committed"}
    consumer = Consumer({**settings, "enable.auto.commit": False, "log_level": 0})
    try:
        with mainstem_log(data, port):
            admin = AdminClient({"bootstrap.servers": bootstrap})
            for made in admin.create_topics([NewTopic("in", 2, 1), NewTopic("out", 2, 1)]).values():
                made.result(60)
            program.start()
            consumer.assign([TopicPartition("out", number, 0) for number in range(2)])
            produce(bootstrap, "in", 50)
            counts(consumer, seen, 50)
        graduate(data, root / "logs")
        with apache_kafka(root, port):
            produce(bootstrap, "in", 50)
            counts(consumer, seen, 100)
        adopt(root / "logs", tmp_path / "back")
        with mainstem_log(tmp_path / "back", port):
            produce(bootstrap, "in", 50)
            counts(consumer, seen, 150)
            program.stop()
    finally:
        consumer.close()
        program.kill()
    assert seen == {key: list(range(1, 151)) for key in KEYS}


@contextmanager
def running_app(app: Path, data: Path, *arguments: str) -> Iterator[dict[str, str]]:
    argv = [sys.executable, "-m", "mainstem.cli.main", "run", str(app), "--json", "--data", str(data)]
    process = subprocess.Popen([*argv, "--http", "127.0.0.1:0", *arguments], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        ready: dict[str, str] = json.loads(process.stdout.readline())["ready"]
        yield ready
    finally:
        process.terminate()
        process.communicate(timeout=120)


def append_and_ask(ready: dict[str, str], first: int, last: int) -> list[dict[str, Any]]:
    """Append so many people; what the view of the derived topic says when it covers them."""
    with Log(ready["kafka"], timeout_s=60) as log:
        rows = [(str(number), {"id": str(number), "n": number}) for number in range(first, last)]
        position = log.append_many("people", rows)
    question = "SELECT count(*) AS n, sum(n) AS total FROM evens"
    asked = views(f"http://{ready['http']}")
    try:
        return list(asked["evens"].sql(question, at_least=position, timeout=200.0))
    finally:
        asked.close()


def test_an_app_goes_on_over_both_moves(tmp_path: Path) -> None:
    app, data, root, port = tmp_path / "app.py", tmp_path / "data", tmp_path / "kafka", free_port()
    app.write_text(APP)
    root.mkdir()
    with running_app(app, data, "--listen", "127.0.0.1:0") as ready:
        assert append_and_ask(ready, 0, 100) == [{"n": 50, "total": 2450}]
    graduate(data, root / "logs")
    with apache_kafka(root, port) as kafka, running_app(app, data, "--bootstrap", kafka.bootstrap) as ready:
        assert append_and_ask(ready, 100, 200) == [{"n": 100, "total": 9900}]
    commit(data, root / "logs")
    adopt(root / "logs", data)
    with running_app(app, data, "--listen", "127.0.0.1:0") as ready:
        assert append_and_ask(ready, 200, 300) == [{"n": 150, "total": 22350}]
        with Log(ready["kafka"], timeout_s=60) as log:
            assert sorted(json.loads(record.value or b"")["n"] for record in log.read("even")) == list(range(0, 300, 2))


def share(bootstrap: str, count: int) -> list[str]:
    """The values that Kafka's own share consumer is given, and acknowledges."""
    to = ("--bootstrap-server", bootstrap, "--topic", "jobs", "--group", "workers")
    arguments = (*to, "--max-messages", str(count), "--timeout-ms", "30000")
    return run_tool("org.apache.kafka.tools.consumer.ConsoleShareConsumer", *arguments, timeout_s=120).stdout.split()


def test_a_share_group_goes_on_and_the_written_settings_start_apache_kafka(tmp_path: Path) -> None:
    port, logs = free_port(), tmp_path / "logs"
    with mainstem_log(tmp_path / "data", port) as log:
        admin = AdminClient({"bootstrap.servers": log.bootstrap})
        admin.create_topics([NewTopic("jobs", 1, 1)])["jobs"].result(60)
        earliest = ("--entity-type", "groups", "--entity-name", "workers", "--add-config")
        arguments = ("--bootstrap-server", log.bootstrap, "--alter", *earliest, "share.auto.offset.reset=earliest")
        assert run_tool("kafka.admin.ConfigCommand", *arguments).returncode == 0
        producer = Producer({"bootstrap.servers": log.bootstrap, "log_level": 0})
        for number in range(30):
            producer.produce("jobs", b"%d" % number)
        assert producer.flush(60) == 0
        taken = share(log.bootstrap, 10)
    graduate(tmp_path / "data", logs)
    text = (logs / SERVER_PROPERTIES).read_text().replace("9092", str(port)).replace("9093", str(free_port()))
    (tmp_path / "server.properties").write_text(text)
    argv, null = tool_argv("kafka.Kafka", str(tmp_path / "server.properties")), subprocess.DEVNULL
    kafka = subprocess.Popen(argv, stdin=null, stdout=null, stderr=null, cwd=tmp_path)
    try:
        taken += share(f"127.0.0.1:{port}", 10)
    finally:
        kafka.terminate()
        kafka.wait(60)
    adopt(logs, tmp_path / "back")
    with mainstem_log(tmp_path / "back", port) as log:
        taken += share(log.bootstrap, 10)
    assert taken == [str(number) for number in range(30)]


def _brokers(tmp_path: Path, quorum: str, cluster_id: str) -> Iterator[list[str]]:
    """The command lines of brokers 2 and 3, with formatted storage."""
    for node in (2, 3):
        port, properties = free_port(), tmp_path / f"{node}.properties"
        settings = {
            "process.roles": "broker",
            "node.id": str(node),
            "controller.quorum.voters": quorum,
            "listeners": f"PLAINTEXT://127.0.0.1:{port}",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "log.dirs": str(tmp_path / f"logs-{node}"),
        }
        properties.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        done = run_tool("kafka.tools.StorageTool", "format", "-t", cluster_id, "-c", str(properties), timeout_s=120)
        assert done.returncode == 0, done.stdout + done.stderr
        yield tool_argv("kafka.Kafka", str(properties))


def test_a_graduated_broker_is_the_first_of_three(tmp_path: Path) -> None:
    data, root, port = tmp_path / "data", tmp_path / "kafka", free_port()
    root.mkdir()
    with mainstem_log(data, port) as log:
        journey.create_topics(log.bootstrap)
        journey.append(log.bootstrap, "events", 6000, partitions=3, size=300)
        before = journey.everything(log.bootstrap)
    graduate(data, root / "logs")
    cluster_id = decode_properties((root / "logs" / "meta.properties").read_bytes())["cluster.id"]
    others: list[subprocess.Popen[bytes]] = []
    with apache_kafka(root, port) as kafka:
        quorum = decode_properties((root / "server.properties").read_bytes())["controller.quorum.voters"]
        try:
            for argv in _brokers(tmp_path, quorum, cluster_id):
                output = subprocess.DEVNULL
                others.append(subprocess.Popen(argv, stdout=output, stderr=output, stdin=output, cwd=tmp_path))
            admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
            eventually(lambda: len(admin.list_topics(timeout=30).brokers) == 3, "three brokers", 120)
            _reassign(kafka.bootstrap, tmp_path)

            def in_sync() -> bool:
                topic = admin.list_topics("events", timeout=30).topics["events"]
                return all(len(each.isrs) == 3 for each in topic.partitions.values())

            eventually(in_sync, "three replicas in sync", 120)
            assert journey.everything(kafka.bootstrap) == before
            for number in range(3):
                first, second = (_bytes(path / f"events-{number}") for path in (root / "logs", tmp_path / "logs-2"))
                assert first == second
        finally:
            for process in others:
                process.kill()
                process.wait(30)


def _reassign(bootstrap: str, directory: Path) -> None:
    wanted = [{"topic": "events", "partition": number, "replicas": [1, 2, 3]} for number in range(3)]
    plan = directory / "plan.json"
    plan.write_text(json.dumps({"version": 1, "partitions": wanted}))
    command = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
    arguments = ("--bootstrap-server", bootstrap, "--reassignment-json-file", str(plan), "--execute")
    done = run_tool(command, *arguments, timeout_s=120)
    assert done.returncode == 0, done.stdout + done.stderr


def _bytes(partition: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(partition.glob("*.log")))
