"""The exchange between a pipeline's driver and its tasks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark import TaskContext
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

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


@pytest.mark.parametrize("partitions", [1, 3])
def test_the_driver_gets_a_report_of_each_task(spark: SparkSession, partitions: int, tmp_path: Path) -> None:
    collected: list[list[int]] = []

    def counted(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield task_exchange.report(Prepared(records=sum(batch.num_rows for batch in batches)))

    source = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 30).load().repartition(partitions)
    writer = source.mapInArrow(counted, task_exchange.REPORT).writeStream.option("checkpointLocation", str(tmp_path))
    task_exchange.for_each_batch(
        spark, writer, lambda dataset, _: collected.append([each.records for each in task_exchange.collect(dataset)])
    )
    query = writer.start()
    eventually(lambda: len(collected) >= 3, "three micro-batches")
    query.stop()
    assert [sum(reports) for reports in collected[:3]] == [30, 30, 30]
    assert {len(reports) for reports in collected} == {partitions}


def test_the_error_of_a_task_is_the_error_of_the_driver(spark: SparkSession, tmp_path: Path) -> None:
    raised: list[BaseException] = []

    def failing(_: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        raise ValueError("no carrier")

    def collect(dataset: Any, _: int) -> None:
        try:
            task_exchange.collect(dataset)
        except BaseException as error:
            raised.append(error)
            raise

    source = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 3).load()
    writer = source.mapInArrow(failing, task_exchange.REPORT).writeStream.option("checkpointLocation", str(tmp_path))
    query = task_exchange.for_each_batch(spark, writer, collect).start()
    with pytest.raises(StreamingQueryException, match="ValueError: no carrier"):
        query.awaitTermination()
    assert "ValueError: no carrier" in str(raised[0])
