"""The program that is killed: ``python -m tests.torture.program --bootstrap HOST:PORT --directory DIR``.

It starts a Spark session, says so, and then does the work that each line of its standard input describes; what came of
it is a line of standard output. ``plain``, ``batch`` and ``table`` are written as any user of Spark writes them, the
others are pipelines of an App; all end when they have derived what was there at their start. A query that fails is
told with its error, and it is for the test to try again.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

import mainstem as ms
from mainstem.errors import MainstemError
from mainstem.pipelines.changes import Choice, Choices
from mainstem.spark.lake_and_topic import table
from mainstem.spark.runner import Runner
from mainstem.spark.session import pipelines_session
from tests.torture.orders import Orders
from tests.torture.tortured import limit, tortured
from tests.torture.work import Work

SCHEMA = "id STRING, number BIGINT"
JVM_IS_GONE = 9


def main() -> int:
    arguments = _arguments()
    spark = pipelines_session("torture", master="local[2,4]", settings={"spark.driver.memory": "768m"})
    tortured(spark, arguments.mutant)
    _say({"session": os.getpid()})
    for line in sys.stdin:
        work = Work.from_line(line)
        _name_processes(Path(arguments.directory))
        try:
            _do(spark, work, arguments.bootstrap)
        except (Py4JError, ConnectionError):
            return JVM_IS_GONE
        except (PySparkException, MainstemError) as error:
            if _jvm().poll() is not None:
                return JVM_IS_GONE
            _say({"failed": str(error)})
        else:
            _say({"done": work.kind})
    return 0


def _do(spark: SparkSession, work: Work, bootstrap: str) -> None:
    limit(work)
    options = {"kafka.bootstrap.servers": bootstrap}
    if work.kind in ("batch", "table"):
        if work.kind == "table":
            frame = table(work.source, lake=work.checkpoint, bootstrap=bootstrap, schema=SCHEMA, spark=spark)
            frame = frame.selectExpr("id AS key", "to_json(struct(id, number)) AS value")
        else:
            frame = spark.read.format("mainstem").options(**options).option("subscribe", work.source).load()
        writer = _shaped(frame, work).write.format("mainstem").mode("append").options(**options, topic=work.sink)
        writer.option("writeId", work.sink).save()
    elif work.kind == "plain":
        reader = spark.readStream.format("mainstem").options(**options).option("subscribe", work.source)
        frame = _shaped(reader.option("startingOffsets", "earliest").load(), work)
        writer = frame.writeStream.format("mainstem").options(**options, topic=work.sink, pipeline=work.sink)
        writer = writer.option("checkpointLocation", work.checkpoint).trigger(availableNow=True)
        if work.timeout_ms:
            writer = writer.option("kafka.transaction.timeout.ms", work.timeout_ms)
        writer.start().awaitTermination()
    else:
        # How many tasks write is part of the plan; it changes from run to run.
        changed = Choices(Choice.REBUILD if work.kind == "totals" else Choice.RESUME)
        Runner(_app(work), bootstrap, checkpoints=Path(work.checkpoint), spark=spark, changed=changed).run(once=True)


def _shaped(frame: DataFrame, work: Work) -> DataFrame:
    frame = frame.select("key", "value")
    return frame.repartition(work.repartition, "key") if work.repartition else frame


def _app(work: Work) -> ms.App:
    app = ms.App("torture")
    records = app.topic(work.source, SCHEMA, key="id")
    if work.kind == "totals":

        @app.pipeline(records, into=work.sink, key="id", mode="update", name=work.sink)
        def totals(records: Any) -> Any:
            return records.groupBy("id").count().selectExpr("id", f"count * {work.version} AS number")

    elif work.kind == "split":
        outputs = [app.topic(name, SCHEMA, key="id") for name in work.sinks]

        @app.pipeline(records, into=outputs, name=work.sink)
        def split(records: Any) -> Any:
            rows = records.select("id", "number")
            return tuple(rows.where(f"number % 2 = {rest}") for rest in (0, 1))

    else:

        @app.pipeline(records, into=work.sink, key="id", name=work.sink)
        def copied(records: Any) -> Any:
            rows = records.select("id", "number")
            return rows.repartition(work.repartition, "id") if work.repartition else rows

    return app


def _name_processes(directory: Path) -> None:
    orders = Orders(directory)
    orders.name_process("driver", os.getpid())
    orders.name_process("jvm", _jvm().pid)


def _jvm() -> Any:
    gateway = SparkContext._gateway
    assert gateway is not None
    return gateway.proc


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--directory", required=True)
    parser.add_argument("--mutant", default="")
    return parser.parse_args()


def _say(what: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
