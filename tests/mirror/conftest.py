"""Two running logs for a module, and Apache Kafka where a test asks for it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.broker.harness import LogProcess
from tests.support.apache_kafka import ApacheKafka
from tests.support.kafka_or_skip import kafka_or_skip


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LogProcess]:
    with LogProcess(tmp_path_factory.mktemp("source") / "data") as process:
        yield process


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LogProcess]:
    with LogProcess(tmp_path_factory.mktemp("target") / "data") as process:
        yield process


@pytest.fixture(scope="session")
def apache_kafka() -> Iterator[ApacheKafka]:
    with kafka_or_skip() as kafka:
        yield kafka
