"""One Spark session for all tests of this directory that ask for it, and a log with an App's topics on it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from mainstem.client.log import Log
from mainstem.testing.embedded import EmbeddedBroker
from tests.spark.flights_app import Flights

settings.register_profile("spark", settings.get_profile("house"), max_examples=50)
settings.load_profile("spark")

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    from mainstem.spark.session import pipelines_session

    made = pipelines_session("tests", settings={"spark.driver.memory": "1g"})
    yield made
    made.stop()


@pytest.fixture
def world(spark: SparkSession, mainstem_broker: EmbeddedBroker, mainstem_log: Log, tmp_path: Path) -> Flights:
    return Flights(spark, mainstem_broker, mainstem_log, tmp_path)
