"""Reads topics with both connectors and prints how their rows differ: ``python -m tests.support.same_rows ADDRESS …``.

Runs where both are (``spark_kafka.SparkKafka.run``). Each further argument is a topic (``stream:TOPIC`` is read as a
stream in micro-batches, ``uncommitted:TOPIC`` with what transactions left open or aborted), a log's address
(``@ADDRESS``) for the topics after it, or ``name=value``: an option of our source for the next topic. Prints one JSON
object a topic: how many rows each gave, and the first that only one gave.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from mainstem.spark.session import session

_SHOWN = 5
_LIMITS = {"codecs": "331"}
"""Of a stream's micro-batches, in records: few of them, which end inside the log's batches."""
_LIMIT = "97"
_DEADLINE_S = 180


@dataclass(frozen=True)
class Reading:
    """One topic, to be read in one way."""

    bootstrap: str
    how: str
    topic: str
    options: dict[str, str]

    def rows(self, spark: SparkSession, connector: str, options: Mapping[str, str], directory: Path) -> DataFrame:
        """All rows that a connector gives, under the names that Spark's own has."""
        isolation = "read_uncommitted" if self.how == "uncommitted" else "read_committed"
        reader = spark.readStream if self.how == "stream" else spark.read
        reader = reader.format(connector).option("kafka.bootstrap.servers", self.bootstrap)
        reader = reader.option("subscribe", self.topic).option("startingOffsets", "earliest")
        reader = reader.option("includeHeaders", "true").option("kafka.isolation.level", isolation)
        frame = reader.options(**options)
        if self.how == "stream":
            return _streamed(frame.option("maxOffsetsPerTrigger", _LIMITS.get(self.topic, _LIMIT)).load(), directory)
        return frame.load()

    def difference(self, spark: SparkSession, directory: Path) -> dict[str, Any]:
        """The rows that only one of both gave, as text; all columns count."""
        peer = self.rows(spark, "kafka", {}, directory / "theirs")
        own = self.rows(spark, "mainstem", self.options, directory / "ours")
        assert own.dtypes == peer.dtypes
        ours, theirs = (Counter(map(str, frame.collect())) for frame in (own, peer))
        return {
            "topic": self.topic,
            "ours": ours.total(),
            "theirs": theirs.total(),
            "only_ours": list((ours - theirs).elements())[:_SHOWN],
            "only_theirs": list((theirs - ours).elements())[:_SHOWN],
        }


def _streamed(frame: DataFrame, directory: Path) -> DataFrame:
    """What a stream gives until it has caught up, through files."""
    writer = frame.writeStream.format("parquet").option("checkpointLocation", str(directory / "checkpoint"))
    query = writer.trigger(availableNow=True).start(str(directory / "rows"))
    assert query.awaitTermination(_DEADLINE_S), "the stream does not end"
    return frame.sparkSession.read.schema(frame.schema).parquet(str(directory / "rows"))


def readings(bootstrap: str, arguments: list[str]) -> Iterator[Reading]:
    """What the arguments ask for; see the module."""
    options: dict[str, str] = {}
    for argument in arguments:
        name, is_option, value = argument.partition("=")
        if argument.startswith("@"):
            bootstrap = argument[1:]
        elif is_option:
            options[name] = value
        else:
            how, _, topic = argument.rpartition(":")
            yield Reading(bootstrap, how, topic, options)
            options = {}


def main() -> None:
    from mainstem.spark.source import MainstemDataSource

    bootstrap, *rest = sys.argv[1:]
    spark = session("same rows", settings={"spark.driver.memory": "1g"})
    spark.dataSource.register(MainstemDataSource)
    with tempfile.TemporaryDirectory() as directory:
        for number, reading in enumerate(readings(bootstrap, rest)):
            said = reading.difference(spark, Path(directory) / str(number))
            print(json.dumps(said), flush=True)  # noqa: T201 - its output
        spark.stop()


if __name__ == "__main__":
    main()
