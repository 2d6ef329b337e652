"""Apache Kafka's jars, which are fetched once."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.apache_kafka import KafkaUnavailableError, ensure_jars


@pytest.fixture(scope="session")
def kafka_jars() -> Path:
    """Apache Kafka's jars; without them the test is skipped, with the reason."""
    try:
        return ensure_jars()
    except KafkaUnavailableError as error:
        pytest.skip(str(error))
