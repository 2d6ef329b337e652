"""Foreign clients against a secured log: librdkafka, kafka-python, and Kafka's own tools, over SASL_SSL."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, Producer
from kafka import KafkaConsumer, KafkaProducer
from kafka.errors import KafkaError as KafkaPythonError

from mainstem.broker.security.local_users import local_credentials
from mainstem.protocol.scram import MECHANISMS, make_credential
from tests.broker.harness import LogProcess
from tests.support.apache_kafka import run_tool
from tests.support.certificates import Authority

TOOLS = "org.apache.kafka.tools."
CONFIGS = "kafka.admin.ConfigCommand"
ACLS = TOOLS + "AclCommand"
DEADLINE_S = 60


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory, authority: Authority) -> Iterator[LogProcess]:
    """A log that asks for users over TLS; admin may do everything, alice what ACLs allow her."""
    data = tmp_path_factory.mktemp("secured") / "data"
    with local_credentials(data) as credentials:
        for user in ("admin", "alice"):
            credentials.change({(user, name): make_credential(name, f"{user}-secret") for name in MECHANISMS})
    process = LogProcess(
        data, ssl_keystore_location=str(authority.keystore("localhost")), super_users="User:admin"
    ).start("--listen", "SASL_SSL://127.0.0.1:0")
    yield process
    assert process.stop() == 0


def options(
    log: LogProcess, authority: Authority, mechanism: str = "SCRAM-SHA-256", user: str = "admin"
) -> dict[str, str]:
    return {
        "bootstrap.servers": log.bootstrap,
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": mechanism,
        "sasl.username": user,
        "sasl.password": f"{user}-secret",
        "ssl.ca.location": str(authority.certificate),
    }


@pytest.mark.parametrize("mechanism", ["PLAIN", *MECHANISMS])
def test_librdkafka_produces_and_consumes(secured: LogProcess, authority: Authority, mechanism: str) -> None:
    given, topic = options(secured, authority, mechanism), f"rd-{mechanism}"
    producer = Producer(given)
    for number in range(100):
        producer.produce(topic, str(number).encode())
    assert producer.flush(DEADLINE_S) == 0
    consumer = Consumer({**given, "group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    seen = []
    while len(seen) < 100:
        message = consumer.poll(DEADLINE_S)
        assert message is not None
        assert message.error() is None
        seen.append(message.value())
    consumer.close()
    assert seen == [str(number).encode() for number in range(100)]


def test_librdkafka_is_told_that_its_password_is_wrong(secured: LogProcess, authority: Authority) -> None:
    errors: list[KafkaError] = []
    producer = Producer({**options(secured, authority), "sasl.password": "wrong", "error_cb": errors.append})
    deadline_s = time.monotonic() + DEADLINE_S
    while KafkaError._AUTHENTICATION not in [error.code() for error in errors]:
        assert time.monotonic() < deadline_s, errors
        producer.poll(1)


def test_librdkafka_is_told_what_it_may_not_do(secured: LogProcess, authority: Authority) -> None:
    Producer(options(secured, authority)).list_topics("closed", timeout=DEADLINE_S)
    failures: list[KafkaError | None] = []
    producer = Producer(options(secured, authority, user="alice"))
    producer.produce("closed", b"v", on_delivery=lambda error, message: failures.append(error))
    assert producer.flush(DEADLINE_S) == 0
    assert [error.code() if error else None for error in failures] == [KafkaError.TOPIC_AUTHORIZATION_FAILED]


@pytest.mark.parametrize("mechanism", ["PLAIN", *MECHANISMS])
def test_kafka_python_produces_and_consumes(secured: LogProcess, authority: Authority, mechanism: str) -> None:
    given = {
        "bootstrap_servers": secured.bootstrap,
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": mechanism,
        "sasl_plain_username": "admin",
        "sasl_plain_password": "admin-secret",
        "ssl_cafile": str(authority.certificate),
    }
    topic = f"py-{mechanism}"
    producer = KafkaProducer(**given)
    for number in range(10):
        producer.send(topic, str(number).encode())
    producer.flush(DEADLINE_S)
    producer.close()
    consumer = KafkaConsumer(topic, **given, auto_offset_reset="earliest", consumer_timeout_ms=DEADLINE_S * 1000)
    assert [next(consumer).value for _ in range(10)] == [str(number).encode() for number in range(10)]
    consumer.close()
    with pytest.raises(KafkaPythonError):
        KafkaConsumer(topic, **{**given, "sasl_plain_password": "wrong"}, bootstrap_timeout_ms=2000)


@pytest.mark.parametrize(
    "sent", [b"", b"\x16\x03\x01\x02", b"GET / HTTP/1.1\r\n\r\n", b"\x00\x00\x00\x20\x00\x03\x00\x0c"]
)
def test_who_does_not_speak_tls_in_time_is_let_go(tmp_path: Path, authority: Authority, sent: bytes) -> None:
    keystore = str(authority.keystore(f"keystore-{len(sent)}"))
    process = LogProcess(
        tmp_path / "data", ssl_keystore_location=keystore, mainstem_authentication_timeout_ms="500"
    ).start("--listen", "SASL_SSL://127.0.0.1:0")
    host, port = process.bootstrap.split(":")
    with socket.create_connection((host, int(port)), timeout=DEADLINE_S) as client:
        client.sendall(sent)
        with contextlib.suppress(ConnectionError):
            while client.recv(4096):
                continue  # an alert may come first
    assert process.stop() == 0


class Tools:
    """Kafka's tools, with a file that says how to log in as a user."""

    def __init__(self, log: LogProcess, directory: Path, authority: Authority) -> None:
        self.log = log
        self._directory = directory
        self._authority = authority

    def properties(self, user: str, password: str = "") -> Path:
        path = self._directory / f"{user}{password}.properties"
        module = "org.apache.kafka.common.security.scram.ScramLoginModule"
        login = f'{module} required username="{user}" password="{password or user + "-secret"}";'
        path.write_text(
            f"security.protocol=SASL_SSL\nsasl.mechanism=SCRAM-SHA-512\nsasl.jaas.config={login}\n"
            f"ssl.truststore.type=PEM\nssl.truststore.location={self._authority.certificate}\n"
        )
        return path

    def run(
        self, main_class: str, *arguments: str, user: str = "admin", password: str = "", stdin: str | None = None
    ) -> subprocess.CompletedProcess[str]:
        flag = "--command-config"
        file = str(self.properties(user, password))
        return run_tool(main_class, "--bootstrap-server", self.log.bootstrap, flag, file, *arguments, stdin=stdin)

    def __call__(self, main_class: str, *arguments: str, user: str = "admin", stdin: str | None = None) -> str:
        done = self.run(main_class, *arguments, user=user, stdin=stdin)
        assert done.returncode == 0, done.stdout + done.stderr
        assert "Exception" not in done.stderr, done.stderr
        return done.stdout


@pytest.fixture
def tools(secured: LogProcess, tmp_path: Path, authority: Authority, kafka_jars: Path) -> Tools:
    return Tools(secured, tmp_path, authority)


@pytest.mark.maven
def test_kafkas_tools_manage_users_and_acls_and_obey_them(tools: Tools) -> None:
    user = ("--entity-type", "users", "--entity-name", "carol")
    tools(CONFIGS, "--alter", *user, "--add-config", "SCRAM-SHA-512=[iterations=8192,password=carol-secret]")
    assert "SCRAM-SHA-512=iterations=8192" in tools(CONFIGS, "--describe", *user)
    tools(TOOLS + "TopicCommand", "--create", "--topic", "java-1")
    refused = tools.run(TOOLS + "TopicCommand", "--create", "--topic", "java-2", user="carol")
    assert "topic authorization failed" in _all(refused)
    topic = ("--topic", "java-", "--resource-pattern-type", "prefixed")
    tools(ACLS, "--add", "--allow-principal", "User:carol", *topic, "--producer")
    tools(ACLS, "--add", "--allow-principal", "User:carol", *topic, "--consumer", "--group", "g")
    listed = tools(ACLS, "--list", "--principal", "User:carol")
    assert "operation=WRITE, permissionType=ALLOW" in listed
    assert "patternType=PREFIXED" in listed
    produced = tools(TOOLS + "ConsoleProducer", "--topic", "java-1", user="carol", stdin="one\ntwo\n")
    assert "ERROR" not in produced
    bounds = ("--from-beginning", "--max-messages", "2", "--timeout-ms", "30000", "--group", "readers")
    assert "Processed a total of 0 messages" in _all(
        tools.run(TOOLS + "consumer.ConsoleConsumer", "--topic", "java-1", *bounds, user="carol")
    )
    tools(ACLS, "--add", "--allow-principal", "User:carol", "--operation", "Read", "--group", "readers")
    assert "one\ntwo\n" in tools(TOOLS + "consumer.ConsoleConsumer", "--topic", "java-1", *bounds, user="carol")
    tools(ACLS, "--remove", "--force", "--allow-principal", "User:carol", *topic, "--producer")
    assert "operation=WRITE" not in tools(ACLS, "--list", "--principal", "User:carol")
    tools(CONFIGS, "--alter", *user, "--delete-config", "SCRAM-SHA-512")
    gone = tools.run(TOOLS + "TopicCommand", "--list", user="carol")
    assert "authentication failed" in _all(gone)
    tools(CONFIGS, "--alter", "--entity-type", "users", "--entity-default", "--add-config", "producer_byte_rate=1000")
    described = tools(CONFIGS, "--describe", "--entity-type", "users", "--entity-default")
    assert "producer_byte_rate=1000.0" in described
    limited = ("--topic", "java-1", "--num-records", "100", "--record-size", "1000", "--throughput", "-1")
    # 100 kB at 1 kB/s after a burst of ten seconds would take a minute and a half: the client is told to wait.
    shown = tools(TOOLS + "ProducerPerformance", *limited[:2], "--num-records", "12", *limited[4:], "--print-metrics")
    assert "produce-throttle-time-max" in shown
    tools(CONFIGS, "--alter", "--entity-type", "users", "--entity-default", "--delete-config", "producer_byte_rate")


def _all(done: subprocess.CompletedProcess[str]) -> str:
    return done.stdout + done.stderr
