"""Apache Kafka for a fixture; the tests that want it are skipped where it cannot be had."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.support.apache_kafka import ApacheKafka, KafkaUnavailableError


@contextmanager
def kafka_or_skip() -> Iterator[ApacheKafka]:
    """A broker until the end; without the jars the test is skipped, with the reason."""
    try:
        kafka = ApacheKafka().start()
    except KafkaUnavailableError as error:
        pytest.skip(str(error))
    try:
        yield kafka
    finally:
        kafka.stop()
