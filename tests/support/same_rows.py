"""Reads topics with both connectors and prints how their rows differ: ``python -m tests.support.same_rows ADDRESS …``.

Runs where both are (``spark_kafka.SparkKafka.run``). Each further argument is a topic; ``name=value`` options before a
topic go to our source. Prints one JSON object a topic: how many rows each gave, and the first that only one gave.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from mainstem.spark.session import session

_SHOWN = 5


def ours(spark: SparkSession, bootstrap: str, topic: str, options: dict[str, str]) -> DataFrame:
    reader = spark.read.format("mainstem").option("kafka.bootstrap.servers", bootstrap).option("subscribe", topic)
    return reader.options(**options).load().withColumnRenamed("timestamp_type", "timestampType")


def theirs(spark: SparkSession, bootstrap: str, topic: str) -> DataFrame:
    reader = spark.read.format("kafka").option("kafka.bootstrap.servers", bootstrap).option("subscribe", topic)
    reader = reader.option("includeHeaders", "true").option("kafka.isolation.level", "read_committed")
    return reader.load()


def difference(spark: SparkSession, bootstrap: str, topic: str, options: dict[str, str]) -> dict[str, Any]:
    """The rows that only one of both gave, as text; all columns count."""
    peer = theirs(spark, bootstrap, topic).cache()
    own = ours(spark, bootstrap, topic, options).select(peer.columns).cache()
    return {
        "topic": topic,
        "ours": own.count(),
        "theirs": peer.count(),
        "only_ours": [str(row) for row in own.exceptAll(peer).take(_SHOWN)],
        "only_theirs": [str(row) for row in peer.exceptAll(own).take(_SHOWN)],
    }


def main() -> None:
    bootstrap, *rest = sys.argv[1:]
    spark = session("same rows", settings={"spark.driver.memory": "1g"})
    options: dict[str, str] = {}
    for argument in rest:
        name, is_option, value = argument.partition("=")
        if is_option:
            options[name] = value
            continue
        print(json.dumps(difference(spark, bootstrap, argument, options)), flush=True)  # noqa: T201 - its output
        options = {}
    spark.stop()


if __name__ == "__main__":
    main()
