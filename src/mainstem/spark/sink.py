"""Writing DataFrames to the log: ``df.write.format("mainstem")`` and ``df.writeStream.format("mainstem")``.

Columns, as Spark's Kafka connector has them: ``value`` (text or bytes), and optionally ``key``, ``headers``, ``topic``
(unless the option ``topic`` says it for all), ``partition`` and ``timestamp``. At least once: a task or a micro-batch
that Spark runs again is appended again.

The work is cut so that a decision fits in between: tasks append and report how far they got; the driver, once all have,
finishes the micro-batch, and that is one step (today the progress record). A stream with the option ``pipeline`` leaves
a progress record after each micro-batch, so that positions travel through it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from mainstem.errors import ConfigError, SchemaError
from mainstem.model import Position
from mainstem.spark.checkpoint import read_offsets
from mainstem.spark.options import WriteOptions
from mainstem.spark.producing import Producing, Rows, producing
from mainstem.spark.progress_log import ProgressLog

_COLUMNS = ("key", "value", "headers", "topic", "partition", "timestamp")
_HEADERS = pa.list_(pa.struct([pa.field("key", pa.string(), nullable=False), pa.field("value", pa.binary())]))


class Appended(WriterCommitMessage):
    """What a task reports: the position just after its records."""

    def __init__(self, position: Position, records: int) -> None:
        self.position = position
        self.records = records


class LogWriter(DataSourceArrowWriter):
    """A batch write."""

    def __init__(self, options: WriteOptions, schema: StructType) -> None:
        _check_columns(options, schema)
        self._options = options

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        return append_all(iterator, self._options)


class LogStreamWriter(DataSourceStreamArrowWriter):
    """A stream's writes; ``commit`` runs in a driver-side process, after all tasks of a micro-batch."""

    def __init__(self, options: WriteOptions, schema: StructType) -> None:
        _check_columns(options, schema)
        if options.pipeline is not None and (options.topic is None or options.checkpoint is None):
            raise ConfigError("option pipeline needs the options topic and checkpointLocation beside it")
        self._options = options

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        return append_all(iterator, self._options)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        options = self._options
        if options.pipeline is None:
            return
        assert options.topic is not None
        assert options.checkpoint is not None
        written = Position.join(message.position for message in messages if isinstance(message, Appended))
        with ProgressLog(options.log, options.pipeline, (options.topic,)) as progress:
            progress.advance(batchId, read_offsets(options.checkpoint, batchId), written)


def append_all(batches: Iterator[pa.RecordBatch], options: WriteOptions) -> Appended:
    """Append the rows of all batches."""
    with producing(options) as out:
        for arrow_batch in batches:
            if arrow_batch.num_rows:
                _append(out, arrow_batch, options.topic)
        return Appended(out.position, out.records)


def _append(out: Producing, arrow_batch: pa.RecordBatch, topic: str | None) -> None:
    names = arrow_batch.schema.names
    column = {name: arrow_batch.column(name) if name in names else None for name in _COLUMNS}
    rows = Rows(
        values=column["value"],
        keys=column["key"],
        headers=None if column["headers"] is None else column["headers"].cast(_HEADERS),
        partitions=column["partition"],
        timestamps_ms=None if column["timestamp"] is None else _milliseconds(column["timestamp"]),
    )
    if topic is not None:
        out.append(topic, rows)
        return
    for name in pc.unique(column["topic"]).to_pylist():
        if name is None:
            raise SchemaError("the column topic is null in some row; fill it, or give the option topic")
        out.append(name, rows.take(pc.indices_nonzero(pc.equal(column["topic"], name))))


def _milliseconds(times: pa.Array) -> pa.Array:
    return times.cast(pa.timestamp("ms", "UTC"), safe=False).cast(pa.int64()).fill_null(-1)


def _check_columns(options: WriteOptions, schema: StructType) -> None:
    names = schema.fieldNames()
    unknown = [name for name in names if name not in _COLUMNS]
    if unknown or "value" not in names:
        raise SchemaError(
            f"a record is written from the columns {', '.join(_COLUMNS)}, value at least; there are {', '.join(names)}"
        )
    if options.topic is None and "topic" not in names:
        raise ConfigError("say where to write: by the option topic, or by a column topic")
