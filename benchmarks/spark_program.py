"""The program that ``benchmarks.spark`` measures: one Spark session with both connectors in it, told what to do.

Reads one JSON object a line from standard input, does it, and answers with one JSON object a line on standard output:
``seconds`` of it, and what else there is to say. ``format`` says by which connector: ``mainstem`` or ``kafka``.
It runs where both are (``tests.support.spark_kafka``), with Spark's own settings (``plain``; ``bare``: without our
``register``) or those of ``mainstem.spark.session`` (``mainstem``).
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.avro.functions import from_avro, to_avro
from pyspark.sql.streaming.query import StreamingQuery

from benchmarks.ceiling import COLUMNS, CeilingSource
from mainstem.spark.queries import task_exchange
from mainstem.spark.sink.sink_run import Prepared

Order = dict[str, Any]
Answer = dict[str, Any]
_SET_CHILD_SUBREAPER = 36  # of Linux's prctl


def make_session(kind: str) -> SparkSession:
    """``plain`` and ``bare`` are what Spark does by itself, but for a quiet start on loopback and the same memory."""
    if kind == "mainstem":
        from mainstem.spark.session import session

        return session("benchmark", settings={"spark.driver.memory": "2g"})
    from mainstem.spark.session import default_settings, register

    os.environ["PYSPARK_PYTHON"] = sys.executable
    quiet = next(
        option
        for option in default_settings("local[*]")["spark.driver.extraJavaOptions"].split()
        if option.startswith("-Dlog4j2.configurationFile=")
    )
    settings = {
        "spark.driver.extraJavaOptions": quiet,
        "spark.driver.memory": "2g",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": str(os.cpu_count() or 1),
        "spark.sql.streaming.stateStore.providerClass": (
            "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
        ),
    }
    builder = SparkSession.builder.master(f"local[{os.cpu_count() or 1}]").appName("benchmark")
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    return register(spark) if kind == "plain" else spark


class Program:
    """What can be ordered: each public method is an order by its name."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._running: StreamingQuery | None = None

    def scan(self, order: Order) -> Answer:
        """Read a topic, all of the columns of a record or those of ``columns``, and throw the rows away."""
        reader = self._spark.read.format(order["format"]).option("subscribe", order["topic"])
        reader = reader.option("kafka.bootstrap.servers", order["bootstrap"])
        if order["format"] == "mainstem":
            reader = reader.options(**order.get("options", {}))
            frame = reader.option("columns", order.get("columns", ",".join(COLUMNS))).load()
        else:
            frame = reader.load()
            if "columns" in order:
                frame = frame.select(*order["columns"].split(","))
        frame.write.format("noop").mode("overwrite").save()
        return {}

    def history(self, order: Order) -> Answer:
        """Lake and log by ``mainstem.spark.table``, or the log by Kafka's connector: two columns or all bytes."""
        typed = order["what"] == "typed"
        if order["format"] == "mainstem":
            from mainstem.spark.lake_and_topic import table

            read = {"lake": order["lake"], "bootstrap": order["bootstrap"], "spark": self._spark}
            frame = table(order["topic"], schema=order["ddl"], records=not typed, **read)
        else:
            reader = self._spark.read.format("kafka").option("subscribe", order["topic"])
            frame = reader.option("kafka.bootstrap.servers", order["bootstrap"]).load()
            if typed:
                value = sf.from_json(sf.col("value").cast("string"), order["ddl"])
                frame = frame.select(value.alias("value")).select("value.*")
        if typed:
            frame = frame.groupBy("origin").agg(sf.avg("dep_delay"), sf.count("*"))
        frame.write.format("noop").mode("overwrite").save()
        return {}

    def files(self, order: Order) -> Answer:
        """The files of a lake as Spark reads Parquet by itself: for the same typed query, or these ``columns``."""
        from mainstem.lake.reading import read_lake

        frame = self._spark.read.parquet(*(str(file.path) for file in read_lake(Path(order["lake"])).files))
        if order["what"] == "typed":
            frame = frame.groupBy("origin").agg(sf.avg("dep_delay"), sf.count("*"))
        else:
            frame = frame.select(*order["columns"])
        frame.write.format("noop").mode("overwrite").save()
        return {}

    def read_avro(self, order: Order) -> Answer:
        """Read framed Avro into typed columns, and throw the rows away."""
        reader = self._spark.read.format(order["format"]).option("subscribe", order["topic"])
        frame = self._typed(reader.option("kafka.bootstrap.servers", order["bootstrap"]), order)
        frame.write.format("noop").mode("overwrite").save()
        return {}

    def copy_avro(self, order: Order) -> Answer:
        """A stream of typed columns from a topic of framed Avro to another one."""
        reader = self._spark.readStream.format(order["format"]).option("subscribe", order["topic"])
        reader = reader.option("kafka.bootstrap.servers", order["bootstrap"]).option("startingOffsets", "earliest")
        frame = self._typed(reader, order)
        options = {"keyColumn": "flight_id", "valueFormat": "avro"}
        if order["format"] == "kafka":
            opening = sf.lit(bytearray.fromhex(order["frame"]))
            value = sf.concat(opening, to_avro(sf.struct("*"), order["schema"]))
            frame, options = frame.select(sf.col("flight_id").alias("key"), value.alias("value")), {}
        writer = frame.writeStream.format(order["format"]).option("kafka.bootstrap.servers", order["bootstrap"])
        writer = writer.option("topic", order["into"]).options(**options)
        return self._to_the_end(writer.option("checkpointLocation", order["checkpoint"]))

    def _typed(self, reader: Any, order: Order) -> DataFrame:
        """Our typed columns, or those of ``from_avro`` behind the frame."""
        names = order["ddl"].split(", ")
        if order["format"] == "mainstem":
            frame: DataFrame = reader.options(valueSchema=order["ddl"], valueFormat="avro").load()
            return frame.select(*(name.partition(" ")[0] for name in names))
        bare = sf.expr("substring(value, 6, length(value) - 5)")
        return reader.load().select(from_avro(bare, order["schema"]).alias("value")).select("value.*")

    def ceiling(self, order: Order) -> Answer:
        """Read what a source gives that decodes nothing."""
        frame = self._spark.read.format("ceiling").options(**order["options"]).load()
        frame.write.format("noop").mode("overwrite").save()
        return {}

    def idle_stream(self, order: Order) -> Answer:
        """A stream whose source and sink do nothing, for ``runs_s``; answers as ``stop`` does.

        ``how``: ``sink``, or ``foreachBatch`` for a function in tasks whose rows the driver collects by PySpark, or
        ``pipeline`` where it collects them as pipelines do.
        """
        frame = self._spark.readStream.format("ceiling").option("partitions", "1").load()
        if order["how"] == "sink":
            writer: Any = frame.writeStream.format("ceiling")
        elif order["how"] == "foreachBatch":
            writer = frame.mapInArrow(_counted, "rows BIGINT").writeStream.foreachBatch(_collect)
        else:
            writer = frame.mapInArrow(_reported, task_exchange.REPORT).writeStream
            task_exchange.for_each_batch(self._spark, writer, lambda dataset, _: task_exchange.collect(dataset))
        self._running = writer.option("checkpointLocation", order["checkpoint"]).start()
        self._running.awaitTermination(order["runs_s"])
        return self.stop(order)

    def copy(self, order: Order) -> Answer:
        """A stream from topic to topic, of all that is there."""
        frame = self._stream(order).select("key", "value")
        writer = frame.writeStream.format(order["format"]).option("kafka.bootstrap.servers", order["bootstrap"])
        writer = writer.option("topic", order["into"]).options(**order.get("sink", {}))
        return self._to_the_end(writer.option("checkpointLocation", order["checkpoint"]))

    def count(self, order: Order) -> Answer:
        """A stateful count by key of all that is there, in several micro-batches."""
        counts = self._stream(order).groupBy("key").agg(sf.count("value").alias("count"))
        writer = counts.writeStream.format("noop").outputMode("update")
        return self._to_the_end(writer.option("checkpointLocation", order["checkpoint"]))

    def start(self, order: Order) -> Answer:
        """A stream from topic to topic that goes on until ``stop``."""
        frame = self._stream(order).select("key", "value")
        writer = frame.writeStream.format(order["format"]).option("kafka.bootstrap.servers", order["bootstrap"])
        writer = writer.option("topic", order["into"]).options(**order.get("sink", {}))
        self._running = writer.option("checkpointLocation", order["checkpoint"]).start()
        return {}

    def stop(self, _: Order) -> Answer:
        """End the stream; says how long its micro-batches took, phase by phase, in milliseconds."""
        assert self._running is not None, "a stream was started"
        progress = [batch for batch in self._running.recentProgress if batch["numInputRows"]]
        self._running.stop()
        self._running = None
        names = sorted({name for batch in progress for name in batch["durationMs"]})
        phases = {name: sorted(batch["durationMs"].get(name, 0) for batch in progress) for name in names}
        return {"batches": len(progress), "phases": {name: times[len(times) // 2] for name, times in phases.items()}}

    def _stream(self, order: Order) -> DataFrame:
        reader = self._spark.readStream.format(order["format"]).option("subscribe", order["topic"])
        reader = reader.option("kafka.bootstrap.servers", order["bootstrap"]).options(**order.get("options", {}))
        return reader.option("startingOffsets", order.get("starting", "earliest")).load()

    def _to_the_end(self, writer: Any) -> Answer:
        query: StreamingQuery = writer.trigger(availableNow=True).start()
        query.awaitTermination()
        if (error := query.exception()) is not None:
            raise error
        return {"batches": len(query.recentProgress)}


def _counted(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield pa.RecordBatch.from_pydict({"rows": [sum(batch.num_rows for batch in batches)]})


def _reported(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield task_exchange.report(Prepared(records=sum(batch.num_rows for batch in batches)))


def _collect(frame: DataFrame, _: int) -> None:
    frame.collect()


def main() -> None:
    begin_s = time.perf_counter()
    _adopt_orphans()
    spark = make_session(sys.argv[1])
    spark.dataSource.register(CeilingSource)
    program = Program(spark)
    _answer({"seconds": time.perf_counter() - begin_s, "java": _java_pid(spark), "version": spark.version})
    for line in sys.stdin:
        order = json.loads(line)
        do: Callable[[Order], Answer] = getattr(program, order["do"])
        begin_s = time.perf_counter()
        said = do(order)
        _answer({"seconds": time.perf_counter() - begin_s, **said})
    spark.stop()


def _adopt_orphans() -> None:
    """Keep what a process used countable when its parent ends before it: it stays, as a zombie, below this one."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _java_pid(spark: SparkSession) -> int:
    java: Any = spark.sparkContext._jvm
    return int(java.java.lang.ProcessHandle.current().pid())


def _answer(said: Answer) -> None:
    sys.stdout.write(json.dumps(said) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
