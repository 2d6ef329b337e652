"""The pytest plugin that comes with the package: fixtures that give a test a real log.

Loading it imports nothing of Mainstem but this file, and a fixture that no test asks for costs nothing.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from mainstem.client.log import Log
    from mainstem.testing.embedded import EmbeddedBroker

_NUMBERS = itertools.count(1)


@pytest.fixture(scope="session")
def mainstem_broker() -> Iterator[EmbeddedBroker]:
    """A Mainstem log for the whole session: a real broker on a free port, in this process, in a temporary directory.

    Any Kafka client can use it: its address is ``mainstem_broker.bootstrap``. All tests share it, so take a topic of
    your own (``mainstem_topic``). For a broker that a test may stop or configure: ``mainstem.testing.EmbeddedBroker``.
    """
    from mainstem.testing.embedded import EmbeddedBroker

    with EmbeddedBroker() as broker:
        yield broker


@pytest.fixture
def mainstem_log(mainstem_broker: EmbeddedBroker) -> Iterator[Log]:
    """A ``mainstem.Log`` connected to ``mainstem_broker``; closed when the test is over."""
    from mainstem.client.log import Log

    with Log(mainstem_broker.bootstrap, timeout_s=10.0) as log:
        yield log


@pytest.fixture
def mainstem_topic(mainstem_log: Log, request: pytest.FixtureRequest) -> str:
    """The name of a new topic of one partition on ``mainstem_log``, for this test alone.

    It keeps its records for ever, so that those with timestamps of long ago stay, too.
    """
    word = re.sub(r"[^A-Za-z0-9._-]+", "-", request.node.name)[:80].strip("-") or "test"
    topic = f"{word}-{next(_NUMBERS)}"
    mainstem_log.create_topic(topic, partitions=1, configs={"retention.ms": "-1"})
    return topic
