"""One Spark session and one Apache Kafka for all tests of this directory that ask for them, and a log with an App."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from mainstem.client.log import Log
from mainstem.testing.embedded import EmbeddedBroker
from tests.spark.flights_app import Flights
from tests.support.apache_kafka import ApacheKafka
from tests.support.kafka_or_skip import kafka_or_skip

settings.register_profile("spark", settings.get_profile("house"), max_examples=50)
settings.load_profile("spark")

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_HERE = Path(__file__).parent


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run tests that use Apache Kafka last: an idle broker takes processor time, too."""
    places = [place for place, item in enumerate(items) if item.path.is_relative_to(_HERE)]
    ours = sorted((items[place] for place in places), key=lambda item: item.get_closest_marker("maven") is not None)
    for place, item in zip(places, ours, strict=True):
        items[place] = item


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    from mainstem.spark.session import pipelines_session

    made = pipelines_session("tests", settings={"spark.driver.memory": "1g"})
    yield made
    made.stop()


@pytest.fixture(scope="package")
def apache_kafka() -> Iterator[ApacheKafka]:
    """A broker that compacts soon, and aborts a transaction soon after its time-out. Each test has its own topics."""
    with kafka_or_skip(
        log_cleaner_backoff_ms="100", transaction_abort_timed_out_transaction_cleanup_interval_ms="200"
    ) as kafka:
        yield kafka


@pytest.fixture
def world(spark: SparkSession, mainstem_broker: EmbeddedBroker, mainstem_log: Log, tmp_path: Path) -> Flights:
    return Flights(spark, mainstem_broker, mainstem_log, tmp_path)
