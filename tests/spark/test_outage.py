"""A log that goes away while a query runs: the query waits and goes on, or says after its time that the log is gone."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from mainstem.client.log import Log
from tests.broker.harness import LogProcess

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

pytestmark = pytest.mark.spark

# Long enough for many attempts, short for a test; the query's own time is two minutes.
AWAY_S = 3
GIVES_UP_S = 7


class Copy:
    """A query that copies the topic ``numbers`` to ``copied``."""

    def __init__(self, spark: SparkSession, bootstrap: str, checkpoint: Path) -> None:
        self._spark = spark
        self._log = {"kafka.bootstrap.servers": bootstrap}
        self._checkpoint = str(checkpoint)

    def start(self, **options: str) -> StreamingQuery:
        given = {**self._log, **{name.replace("_", "."): value for name, value in options.items()}}
        reader = self._spark.readStream.format("mainstem").options(**given).option("subscribe", "numbers")
        rows = reader.option("startingOffsets", "earliest").load().select("key", "value")
        writer = rows.writeStream.format("mainstem").options(**given).option("topic", "copied")
        return writer.option("checkpointLocation", self._checkpoint).start()


def append(bootstrap: str, numbers: range) -> None:
    with Log(bootstrap) as log:
        for number in numbers:
            log.append("numbers", number, key=str(number))


def copied(bootstrap: str) -> Counter[int]:
    with Log(bootstrap) as log:
        return Counter(json.loads(record.value or b"") for record in log.read("copied"))


def test_a_query_outwaits_a_log_that_is_away_and_says_when_it_is_away_for_good(
    spark: SparkSession, tmp_path: Path
) -> None:
    from pyspark.errors import StreamingQueryException

    with LogProcess(tmp_path / "data") as process:
        with Log(process.bootstrap) as log:
            log.create_topic("numbers", partitions=2)
            log.create_topic("copied", partitions=2)
        append(process.bootstrap, range(20))
        copy = Copy(spark, process.bootstrap, tmp_path / "checkpoint")
        query = copy.start()
        query.processAllAvailable()
        process.kill()
        assert not query.awaitTermination(AWAY_S)
        process.start()
        append(process.bootstrap, range(20, 40))
        query.processAllAvailable()
        assert copied(process.bootstrap) == Counter(range(40))
        query.stop()

        query = copy.start(kafka_request_timeout_ms=str(GIVES_UP_S * 1000))
        append(process.bootstrap, range(40, 60))
        query.processAllAvailable()
        process.kill()
        given_up = rf"gave up after {GIVES_UP_S}[\d.]* s: the log at .* is it running"
        with pytest.raises(StreamingQueryException, match=given_up):
            query.awaitTermination(120)
        process.start()
        append(process.bootstrap, range(60, 80))
        query = copy.start()
        query.processAllAvailable()
        query.stop()
        assert copied(process.bootstrap) == Counter(range(80))
