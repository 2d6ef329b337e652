"""The exchange between a pipeline's driver and its tasks, for each micro-batch.

The driver sends the micro-batch as a local property of its job. The property holds no secret of the log, since Spark's
event log shows it. Each task answers with one row, its report. We use no DataFrame here: PySpark would send a dozen
requests to the JVM for it, open a socket and plan a second query.
"""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors.exceptions.captured import convert_exception
from pyspark.java_gateway import ensure_callback_server_started

from mainstem.spark.sink.sink_run import Prepared, SinkRun

if TYPE_CHECKING:
    from pyspark import TaskContext
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from mainstem.spark.options.options import LogOptions

REPORT: Final = "report BINARY"
_MICRO_BATCH: Final = "mainstem.microBatch"


class _ForeachBatch:
    """Spark calls it with each micro-batch. An exception fails the query, and Spark's error shows its traceback."""

    class Java:
        implements = ("org.apache.spark.sql.execution.streaming.sources.PythonForeachBatchFunction",)

    def __init__(self, function: Callable[[Any, int], None]) -> None:
        self._function = function

    def call(self, dataset: Any, batch_id: int) -> None:
        self._function(dataset, batch_id)


def for_each_batch(
    spark: SparkSession, writer: DataStreamWriter, function: Callable[[Any, int], None]
) -> DataStreamWriter:
    """As ``writer.foreachBatch``, but ``function`` gets the JVM's ``Dataset``, for ``collect``."""
    gateway = spark.sparkContext._gateway
    assert gateway is not None, "sessions of Spark Connect are refused"
    helper = gateway.jvm.org.apache.spark.sql.execution.streaming.sources.PythonForeachBatchHelper
    helper.callForeachBatch(writer._jwrite, _ForeachBatch(function))
    ensure_callback_server_started(gateway)  # type: ignore[no-untyped-call]
    return writer


def set_micro_batch(spark: SparkSession, run: SinkRun, batch_id: int) -> None:
    """On the driver, before the job: send tasks their micro-batch."""
    said = {"sinkId": run.sink_id, "decided": run.decided, "timeoutMs": run.timeout_ms, "microBatch": batch_id}
    spark.sparkContext.setLocalProperty(_MICRO_BATCH, json.dumps(said))


def micro_batch_of(context: TaskContext, log: LogOptions) -> tuple[SinkRun, int]:
    """In a task: its run and its micro-batch."""
    text = context.getLocalProperty(_MICRO_BATCH)
    assert text is not None, "the driver sets it before its job"
    said = json.loads(text)
    return SinkRun(log, said["sinkId"], decided=said["decided"], timeout_ms=said["timeoutMs"]), said["microBatch"]


def report(prepared: Prepared) -> pa.RecordBatch:
    """In a task: its only row, of the schema ``REPORT``. ``collect`` relies on one row for each task."""
    return pa.RecordBatch.from_arrays([pa.array([pickle.dumps(prepared)], pa.binary())], names=["report"])


def collect(dataset: Any) -> list[Prepared]:
    """On the driver: run the tasks, and take their reports. Raises the tasks' error as PySpark has it.

    The dataset of a micro-batch is nothing but the RDD of the streaming query's plan. That RDD is collected as it is:
    Spark would plan the dataset as a query of its own. ``collectAsync``, because ``collect`` cleans two closures for
    each job: it reads the bytecode of Spark's largest classes, which takes 3 to 6 ms. Spark writes all rows of a task
    into one object, which these collects do not copy.
    """
    future = dataset.queryExecution().logical().rdd().toJavaRDD().collectAsync()
    try:
        rows = future.get()
    except Py4JJavaError as error:
        future.cancel(True)  # for a stop that interrupts this thread and came before there was a job to cancel
        failed = error.java_exception.getCause()  # of a java.util.concurrent.ExecutionException
        if failed is None:
            raise
        raise convert_exception(failed) from None
    return [pickle.loads(rows.get(number).getBinary(0)) for number in range(rows.size())]
