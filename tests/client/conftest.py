"""The client's tests run against Mainstem, and against Apache Kafka (marked ``maven``)."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import pytest

from mainstem.client.log import Log
from mainstem.client.wire.cluster.cluster import WireClient
from tests.support.kafka_or_skip import kafka_or_skip

_NUMBERS = itertools.count(1)


@pytest.fixture(scope="session")
def kafka_bootstrap() -> Iterator[str]:
    # By default, it looks every ten seconds for transactions that take too long.
    with kafka_or_skip(transaction_abort_timed_out_transaction_cleanup_interval_ms="100") as kafka:
        yield kafka.bootstrap


@pytest.fixture(scope="session", params=["mainstem", pytest.param("kafka", marks=pytest.mark.maven)])
def bootstrap(request: pytest.FixtureRequest) -> str:
    if request.param == "kafka":
        return str(request.getfixturevalue("kafka_bootstrap"))
    return str(request.getfixturevalue("mainstem_broker").bootstrap)


@pytest.fixture(scope="session")
def log(bootstrap: str) -> Iterator[Log]:
    with Log(bootstrap, timeout_s=15.0) as log:
        yield log


@pytest.fixture
def wire(bootstrap: str) -> Iterator[WireClient]:
    with WireClient(bootstrap, timeout_s=15.0) as client:
        yield client


@pytest.fixture
def new_topic(log: Log) -> Callable[..., str]:
    """``new_topic(partitions=1, max_message_bytes="…")`` creates a topic and returns its name."""

    def create(partitions: int = 1, **configs: str) -> str:
        name = f"t-{next(_NUMBERS)}"
        log.create_topic(name, partitions=partitions, configs={k.replace("_", "."): v for k, v in configs.items()})
        return name

    return create
