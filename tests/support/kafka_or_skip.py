"""Apache Kafka for a fixture; the tests that want it are skipped where it cannot be had.

With ``MAINSTEM_CONTROLS=1``, as ``make differential`` sets it, tests of what foreign clients see of Mainstem run
against Apache Kafka as well: there they show what the client and the test itself do.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.support.apache_kafka import ApacheKafka, KafkaUnavailableError


def with_controls() -> list[Any]:
    """The parameters of a fixture: ``mainstem``, and ``kafka`` where controls are asked for."""
    controls = [pytest.param("kafka", marks=pytest.mark.maven)] if os.environ.get("MAINSTEM_CONTROLS") == "1" else []
    return ["mainstem", *controls]


@contextmanager
def kafka_or_skip(**configs: Any) -> Iterator[ApacheKafka]:
    """A broker until the end, with ``configs``; without the jars the test is skipped, with the reason."""
    try:
        kafka = ApacheKafka(**configs).start()
    except KafkaUnavailableError as error:
        pytest.skip(str(error))
    try:
        yield kafka
    finally:
        kafka.stop()
