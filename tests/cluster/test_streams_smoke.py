"""Kafka Streams' own smoke test: a driver writes and verifies, two clients process; the log and a client are killed.

``SmokeTestDriver`` writes 20,000 records in 30 seconds and compares fourteen topics with what it expects. With
exactly-once v2 it also counts that nothing comes twice and no transaction is left open.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from tests.broker.harness import LogProcess
from tests.support import kafka_streams
from tests.support.apache_kafka import KAFKA_VERSION, fetch_jars
from tests.support.eventually import eventually

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]
_PROGRAM = "org.apache.kafka.streams.tests.StreamsSmokeTest"
_TOPICS = ["data", "echo", "max", "min", "min-suppressed", "min-raw", "dif", "sum", "sws-raw", "sws-suppressed"]
_TOPICS += ["cnt", "avg", "tagg", "fk"]
_DRIVER_S = 600


@pytest.mark.parametrize("protocol", ["classic", "streams"])
@pytest.mark.parametrize("guarantee", ["exactly_once_v2", "at_least_once"])
def test_the_driver_finds_what_it_expects_although_the_log_and_a_client_are_killed(
    guarantee: str, protocol: str, tmp_path: Path
) -> None:
    with LogProcess(tmp_path / "data") as log, ExitStack() as running:
        admin = AdminClient({"bootstrap.servers": log.bootstrap})
        for future in admin.create_topics([NewTopic(name, 5, 1) for name in _TOPICS]).values():
            future.result(60)
        settings = f"bootstrap.servers={log.bootstrap}\nprocessing.guarantee={guarantee}\ngroup.protocol={protocol}\n"
        first, second = (tmp_path / "first", tmp_path / "second")
        running.enter_context(_process(first, settings, "process"))
        killed = running.enter_context(_process(second, settings, "process"))
        driver = running.enter_context(_process(tmp_path / "driver", settings, "run"))
        eventually(lambda: "topic=data" in _printed(second), "the second client processes", 120)
        log.kill()
        log.start()
        killed.kill()
        killed.wait(20)
        running.enter_context(_process(second, settings, "process"))
        assert driver.wait(_DRIVER_S) == 0
        printed = _printed(tmp_path / "driver")
    assert "\nSUCCESS" in printed, printed[-5_000:]


@contextmanager
def _process(directory: Path, settings: str, command: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process of the smoke test, whose state and output are in ``directory``; it is killed at the end."""
    directory.mkdir(exist_ok=True)
    jars = fetch_jars(kafka_streams.HOME / "smoke-pom.xml", f"kafka-streams-smoke-{KAFKA_VERSION}")
    properties = directory / "smoke.properties"
    properties.write_text(f"{settings}state.dir={directory / 'state'}\n")
    argv = ["java", "-Xmx512m", "-cp", f"{jars}/*", _PROGRAM, str(properties), command]
    with (directory / "output").open("ab") as output:
        process = subprocess.Popen(argv, stdout=output, stderr=subprocess.STDOUT)
    try:
        yield process
    finally:
        process.kill()
        process.wait(20)


def _printed(directory: Path) -> str:
    return (directory / "output").read_text(errors="replace")
