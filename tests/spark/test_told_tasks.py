"""What a pipeline's driver tells its tasks of a micro-batch: Spark shows it in its event log."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest
from pyspark import TaskContext
from pyspark.sql import SparkSession

from mainstem.client.security import Security
from mainstem.spark.options.options import LogOptions
from mainstem.spark.queries import pipeline_query
from mainstem.spark.sink.sink_run import SinkRun

pytestmark = pytest.mark.spark
_LOG = LogOptions("127.0.0.1:9092", security=Security("SASL_PLAINTEXT", "PLAIN", "ada", "not-for-the-log"))


def test_tasks_know_their_micro_batch_and_the_property_holds_no_secret(spark: SparkSession) -> None:
    run = SinkRun(_LOG, "orders", decided=6, timeout_ms=900_000)
    pipeline_query._tell_tasks(spark, run, 7)

    def heard(_: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        assert context is not None
        said, batch_id = pipeline_query._told(context, _LOG)
        yield pa.RecordBatch.from_pydict({"said": [repr((said == run, batch_id))]})

    assert spark.range(1, numPartitions=1).mapInArrow(heard, "said STRING").collect()[0].said == "(True, 7)"
    text = spark.sparkContext.getLocalProperty("mainstem.microBatch") or ""
    assert '"orders"' in text
    assert "not-for-the-log" not in text
