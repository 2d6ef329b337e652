"""Clients of librdkafka and Java push their metrics after Kafka's own tool has subscribed to them (KIP-714)."""

from __future__ import annotations

import http.client
import socket
import subprocess
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer

from tests.broker.harness import LogProcess
from tests.support.apache_kafka import run_tool, tool_argv
from tests.support.eventually import eventually

TIMEOUT_S = 60
TOOL = "org.apache.kafka.tools.ClientMetricsCommand"
pytestmark = [pytest.mark.maven, pytest.mark.usefixtures("kafka_jars")]


def metrics(log: LogProcess) -> str:
    """The page, over the log's socket."""
    connection = http.client.HTTPConnection("localhost", timeout=TIMEOUT_S)
    connection.sock = socket.socket(socket.AF_UNIX)
    connection.sock.connect(str(log.data_dir / "metrics.sock"))
    connection.request("GET", "/metrics")
    page = connection.getresponse().read().decode()
    connection.close()
    return page


def tool(log: LogProcess, *arguments: str) -> str:
    done = run_tool(TOOL, "--bootstrap-server", log.bootstrap, *arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module", autouse=True)
def subscription(log: LogProcess) -> Iterator[None]:
    """All metrics of every client, as Kafka's tool asks for them, shows them, and ends it."""
    tool(log, "--alter", "--name", "all", "--metrics", "*", "--interval", "500")
    described = tool(log, "--describe", "--name", "all")
    assert "interval.ms=500" in described
    assert "metrics=*" in described
    yield
    tool(log, "--delete", "--name", "all")
    assert "all" not in tool(log, "--list").split()


def test_librdkafka_pushes_its_metrics(log: LogProcess) -> None:
    producer = Producer({"bootstrap.servers": log.bootstrap, "client.id": "rd", "enable.metrics.push": True})

    def is_shown() -> bool:
        producer.produce("pushed", b"x")
        producer.poll(0.1)
        return "mainstem_client_producer_" in (page := metrics(log)) and 'client_id="rd"' in page

    eventually(is_shown, "metrics of librdkafka", TIMEOUT_S)
    assert producer.flush(TIMEOUT_S) == 0


def test_a_java_producer_pushes_its_metrics(log: LogProcess) -> None:
    arguments = ("--bootstrap-server", log.bootstrap, "--topic", "pushed", "--throughput", "100")
    argv = tool_argv("org.apache.kafka.tools.VerifiableProducer", *arguments)
    process = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        eventually(
            lambda: "mainstem_client_producer_record_send_total{" in (page := metrics(log)) and "producer-1" in page,
            "metrics of a Java producer",
            TIMEOUT_S,
        )
    finally:
        process.terminate()
        process.wait(TIMEOUT_S)
