"""One log process for each module of foreign-client tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.broker.harness import LogProcess
from tests.support.apache_kafka import KafkaUnavailableError, ensure_jars


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LogProcess]:
    """A running log; topics are told apart by their names."""
    process = LogProcess(tmp_path_factory.mktemp("log") / "data", group_min_session_timeout_ms="1000")
    with process:
        yield process


@pytest.fixture(scope="session")
def kafka_jars() -> Path:
    """Apache Kafka's jars; without them the test is skipped, with the reason."""
    try:
        return ensure_jars()
    except KafkaUnavailableError as error:
        pytest.skip(str(error))
