"""The exchange between a pipeline's driver and its tasks."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark import TaskContext
from pyspark.errors import StreamingQueryException
from pyspark.errors.exceptions.captured import CapturedException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from mainstem.client.security import Security
from mainstem.spark.options.options import LogOptions
from mainstem.spark.queries import task_exchange
from mainstem.spark.sink.sink_run import Prepared, SinkRun
from tests.support.eventually import eventually

pytestmark = pytest.mark.spark
_LOG = LogOptions("127.0.0.1:9092", security=Security("SASL_PLAINTEXT", "PLAIN", "ada", "not-for-the-log"))


def test_tasks_know_their_micro_batch_and_the_property_holds_no_secret(spark: SparkSession) -> None:
    run = SinkRun(_LOG, "orders", decided=6, timeout_ms=900_000)
    task_exchange.set_micro_batch(spark, run, 7)

    def heard(_: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        assert context is not None
        said, batch_id = task_exchange.micro_batch_of(context, _LOG)
        yield pa.RecordBatch.from_pydict({"said": [repr((said == run, batch_id))]})

    assert spark.range(1, numPartitions=1).mapInArrow(heard, "said STRING").collect()[0].said == "(True, 7)"
    text = spark.sparkContext.getLocalProperty("mainstem.microBatch") or ""
    assert '"orders"' in text
    assert "not-for-the-log" not in text


@contextmanager
def running(
    spark: SparkSession,
    checkpoint: Path,
    task: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]],
    driver: Callable[[Any, int], None],
    *,
    partitions: int = 1,
) -> Iterator[StreamingQuery]:
    """A query with micro-batches of two rows."""
    source = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 2).load().repartition(partitions)
    writer = source.mapInArrow(task, task_exchange.REPORT).writeStream.option("checkpointLocation", str(checkpoint))
    query = task_exchange.for_each_batch(spark, writer, driver).start()
    try:
        yield query
    finally:
        query.stop()


@pytest.mark.parametrize("partitions", [1, 3])
def test_the_driver_gets_a_report_of_each_task(spark: SparkSession, partitions: int, tmp_path: Path) -> None:
    collected: list[list[int]] = []

    def counted(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield task_exchange.report(Prepared(records=sum(batch.num_rows for batch in batches)))

    def collect(dataset: Any, _: int) -> None:
        collected.append([each.records for each in task_exchange.collect(dataset)])

    with running(spark, tmp_path, counted, collect, partitions=partitions):
        eventually(lambda: len(collected) >= 3, "three micro-batches")
    assert [sum(reports) for reports in collected[:3]] == [2, 2, 2]
    assert {len(reports) for reports in collected} == {partitions}  # one of three tasks, at least, has no row


def test_the_error_of_a_task_is_the_error_of_the_driver(spark: SparkSession, tmp_path: Path) -> None:
    raised: list[Exception] = []

    def failing(_: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        raise ValueError("no carrier")

    def collect(dataset: Any, _: int) -> None:
        try:
            task_exchange.collect(dataset)
        except Exception as error:
            raised.append(error)
            raise

    with running(spark, tmp_path, failing, collect) as query:
        with pytest.raises(StreamingQueryException, match="ValueError: no carrier"):
            query.awaitTermination()
    assert isinstance(raised[0], CapturedException)  # as PySpark's own: failures.cause reads its text
    assert "ValueError: no carrier" in str(raised[0])


@contextmanager
def with_a_waiting_task(spark: SparkSession, directory: Path) -> Iterator[StreamingQuery]:
    """A query whose first task runs, and waits until Spark kills it."""
    begun = directory / "begun"

    def waiting(_: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        begun.touch()
        threading.Event().wait(60)
        yield task_exchange.report(Prepared())

    def collect(dataset: Any, _: int) -> None:
        task_exchange.collect(dataset)

    with running(spark, directory / "checkpoint", waiting, collect) as query:
        eventually(begun.exists, "the task")
        yield query


def test_a_query_that_is_stopped_while_its_tasks_run_has_not_failed(spark: SparkSession, tmp_path: Path) -> None:
    with with_a_waiting_task(spark, tmp_path) as query:
        query.stop()
        assert query.exception() is None


def test_a_query_whose_job_is_cancelled_has_failed(spark: SparkSession, tmp_path: Path) -> None:
    with with_a_waiting_task(spark, tmp_path) as query:
        spark.sparkContext.cancelAllJobs()
        with pytest.raises(StreamingQueryException, match="cancelled"):
            query.awaitTermination()
