"""Spark reads each value as the table of types says: in a batch, a table, a stream, and a pipeline, which writes it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql.functions import expr

from mainstem.client.log import Log
from mainstem.client.records import NewRecord
from mainstem.pipelines.deploy import deploy
from mainstem.schema.arrow import value_type
from mainstem.schema.infer import schema_of
from mainstem.schema.topic_schemas import lookup
from mainstem.testing.embedded import EmbeddedBroker
from mainstem.views.stores.rows import plain
from tests.spark.flights_app import Flights
from tests.support.type_matrix import CASES, DDL, MISFIT, TYPES, as_read, column_of, value_of, wrong_cells

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark


RECORDS = [b'{"id": "%d", ' % number + value_of(case)[1:] for number, case in enumerate(CASES)]


@pytest.mark.parametrize("reader", ["batch", "table", "stream"])
def test_spark_reads_what_fits_and_null_for_the_rest(
    spark: SparkSession, mainstem_broker: EmbeddedBroker, mainstem_log: Log, tmp_path: Path, reader: str
) -> None:
    topic = f"types-{reader}"
    mainstem_log.create_topic(topic, partitions=1, exist_ok=True)
    mainstem_log.append_many(topic, [NewRecord(value, str(n).encode()) for n, value in enumerate(RECORDS)])
    options = {
        "kafka.bootstrap.servers": mainstem_broker.bootstrap,
        "subscribe": topic,
        "startingOffsets": "earliest",
        "valueSchema": f"{DDL}, id STRING",
        "columnNameOfCorruptRecord": "_corrupt",
    }
    rows = {int(row["id"]): row for row in _rows(spark, reader, options, tmp_path)}
    assert len(rows) == len(CASES)
    cells = [(case, rows[number]) for number, case in enumerate(CASES)]
    assert wrong_cells("Spark", [(case, plain(row[column_of(case)])) for case, row in cells]) == []
    for (case, row), record in zip(cells, RECORDS, strict=True):
        assert row["_corrupt"] == (record.decode() if case.value == MISFIT else None), case


def test_a_pipeline_writes_what_fits_and_null_for_the_rest(world: Flights) -> None:
    source, derived = f"{world.prefix}.types", f"{world.prefix}.derived"
    world.app.pipeline(world.app.topic(source, f"{DDL}, id STRING"), into=derived, name="types")(lambda types: types)
    deploy(world.app, world.log)
    world.log.append_many(source, [NewRecord(value) for value in RECORDS])
    world.run_once()
    written = {int(json.loads(record.value or b"")["id"]): record.value for record in world.log.read(derived)}
    assert wrong_cells("pipeline", [(case, as_read(case, written[n])) for n, case in enumerate(CASES)]) == []
    registered = lookup(world.log, derived)
    assert registered is not None
    kinds = [value_type(column.type) for column in registered.schema.columns]
    assert kinds == [value_type(column.type) for column in schema_of(f"{DDL}, id STRING").columns]


def _rows(spark: SparkSession, reader: str, options: dict[str, str], tmp_path: Path) -> list[dict[str, Any]]:
    if reader != "stream":
        table = {"table": "true"} if reader == "table" else {}
        frame = spark.read.format("mainstem").options(**options, **table).load()
        return _collected(frame)
    stream = spark.readStream.format("mainstem").options(**options).load()
    writing = stream.writeStream.format("memory").queryName("types").trigger(availableNow=True)
    query = writing.option("checkpointLocation", str(tmp_path)).start()
    query.awaitTermination()
    return _collected(spark.table("types"))


def _collected(frame: DataFrame) -> list[dict[str, Any]]:
    """The rows, an instant as text in UTC: Python has it in the machine's zone."""
    instant = f"c{TYPES.index('TIMESTAMP')}"
    text = f"date_format(to_utc_timestamp({instant}, current_timezone()), \"yyyy-MM-dd'T'HH:mm:ss.SSSSSS\")"
    rows = [row.asDict(recursive=True) for row in frame.withColumn(instant, expr(text)).collect()]
    for row in rows:
        if row[instant] is not None:
            row[instant] = row[instant].removesuffix(".000000") + "Z"
    return rows
