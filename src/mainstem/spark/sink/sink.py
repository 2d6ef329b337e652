"""Writing DataFrames to the log: ``df.write.format("mainstem")`` and ``df.writeStream.format("mainstem")``.

The columns are those of Spark's Kafka connector: ``value`` (text or bytes), and optionally ``key``, ``headers``,
``topic`` (unless the option ``topic`` names one topic for all rows), ``partition`` and ``timestamp``.

With the option ``keyColumn`` rows may have any columns. The value is then a JSON object of all columns; the key is the
text of that column, or a JSON array for several columns, as in topics of an App. Where the topic is encoded, or the
options say so, both are encoded (``typed_rows``).

**A stream** is exactly once, by the steps of ``transactions``. Spark creates the writer twice for each micro-batch: in
a process that sends it to the tasks, and in one that commits. Spark keeps these processes, and may take others at any
time. So a commit begins a run unless its process has kept the one of an earlier commit in the same run of the query.
Tasks do not know the decision: they write a repeated micro-batch again, and the commit aborts these transactions. The
sink's id is the query's id. Spark passes it and the id of the query's run to the tasks, which report both. A stream
with the option ``pipeline`` appends a progress record after each micro-batch, so that positions propagate through it.

**A batch write** is all or nothing by the same steps, as one micro-batch of a sink of its own. If its driver dies, only
a write with a name (``writeId``) can be resumed: running it again finishes a decided write or writes an undecided one,
without duplicates. Its transactions have a time-out, so the log aborts an abandoned write.

``deliveryGuarantee=at_least_once`` uses no transactions: when Spark repeats a task, its rows are appended again.
"""

from __future__ import annotations

import sys
import uuid
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import ArrayType, MapType, StructType, VariantType

from mainstem.errors import ConfigError, MainstemError, SchemaError
from mainstem.model import Position, TopicPartition
from mainstem.record.arrow_source import HEADERS
from mainstem.schema.types import ENCODINGS
from mainstem.spark.checkpoints.checkpoint import maybe_offsets, read_offsets, streams_ours
from mainstem.spark.checkpoints.progress_log import ProgressLog
from mainstem.spark.features import DataSourceStreamArrowWriter
from mainstem.spark.options.options import WriteOptions
from mainstem.spark.sink.sink_run import LONGEST_TIMEOUT, NOT_DECIDED, Prepared, SinkRun, StepObserver, ignore_step
from mainstem.spark.sink.task_appender import Rows, TaskAppender, appending
from mainstem.spark.sink.transactions import (
    KILLED_AFTER_S,
    decide_and_finish,
    decided_batch,
    end_open_transactions,
    prepare,
)

_COLUMNS = ("key", "value", "headers", "topic", "partition", "timestamp")


class TaskCommitMessage(WriterCommitMessage):
    """A task's report: its transaction, its sink and the query's run, if it has one.

    Without transactions only ``prepared.position`` counts.
    """

    def __init__(self, prepared: Prepared, sink_id: str, query_run: str | None = None) -> None:
        self.prepared = prepared
        self.sink_id = sink_id
        self.query_run = query_run


class LogWriter(DataSourceArrowWriter):
    """A batch write. Created once, on the driver; pickled copies run in tasks and commit."""

    def __init__(self, options: WriteOptions, schema: StructType, on_step: StepObserver = ignore_step) -> None:
        _check_columns(options, schema)
        self._options = options
        self._on_step = on_step
        sink_id = f"write-{options.write_id or uuid.uuid4().hex}"
        timeout_ms = options.transaction_timeout_ms or LONGEST_TIMEOUT
        # An earlier run of a write with a name may have been decided: then the tasks write nothing.
        decided = decided_batch(options.log, sink_id) if options.write_id else NOT_DECIDED
        self._run = SinkRun(options.log, sink_id, decided=decided, timeout_ms=timeout_ms)

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        if not self._options.is_exactly_once:
            return append_all(iterator, self._options)
        return prepare_all(iterator, self._run, self._options.write_version, self._options, self._on_step)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        if self._options.is_exactly_once:
            decide_and_finish(self._run, self._options.write_version, _prepared(messages), on_step=self._on_step)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Resolve the write's transactions (``_resolve``). Spark calls it also when ``commit`` failed."""
        if self._options.is_exactly_once:
            _resolve(self._run, messages)


class LogStreamWriter(DataSourceStreamArrowWriter):
    """A stream's writes. ``commit`` runs in a process beside the driver, after all tasks of a micro-batch."""

    def __init__(self, options: WriteOptions, schema: StructType, on_step: StepObserver = ignore_step) -> None:
        _check_columns(options, schema)
        if options.pipeline is not None and (options.topic is None or options.checkpoint is None):
            raise ConfigError("option pipeline needs the options topic and checkpointLocation beside it")
        if options.write_id is not None:
            raise ConfigError("option writeId names a batch write; a stream goes by its checkpoint")
        self._options = options
        self._on_step = on_step

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        options = self._options
        if not options.is_exactly_once:
            return append_all(iterator, options)
        sink_id, query_run = _property("sql.streaming.queryId"), _maybe_property("spark.jobGroup.id")
        run = SinkRun(options.log, sink_id, timeout_ms=options.transaction_timeout_ms, query_run=query_run)
        return prepare_all(iterator, run, int(_property("streaming.sql.batchId")), options, self._on_step)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        options = self._options
        source = None if options.checkpoint is None else maybe_offsets(options.checkpoint, batchId)
        if options.pipeline is not None and source is not None and not source.position:
            _require_ours(options, batchId)
        written = Position.join(each.position for each in _prepared(messages))
        run = self._run(messages) if options.is_exactly_once else None
        if run is not None:
            written = decide_and_finish(run, batchId, _prepared(messages), source, self._on_step).position
        if options.pipeline is not None:
            assert options.topic is not None
            assert options.checkpoint is not None
            with ProgressLog(options.log, options.pipeline, (options.topic,)) as progress:
                begin = _first_offsets(_prepared(messages))
                progress.advance(batchId, read_offsets(options.checkpoint, batchId), written, begin)
        self._on_step("driver:progress")

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """Resolve the write's transactions (``_resolve``). Spark calls it also when ``commit`` failed."""
        run = self._run(messages) if self._options.is_exactly_once else None
        if run is not None:
            _resolve(run, messages)

    def _run(self, messages: list[WriterCommitMessage | None]) -> SinkRun | None:
        """The run that tasks prepared for; None when no task has sent a report."""
        report = next((message for message in messages if isinstance(message, TaskCommitMessage)), None)
        if report is None:
            return None
        options = self._options
        timeout_ms = options.transaction_timeout_ms
        return SinkRun(options.log, report.sink_id, timeout_ms=timeout_ms, query_run=report.query_run)


def append_all(batches: Iterator[pa.RecordBatch], options: WriteOptions) -> TaskCommitMessage:
    """Append the rows of all batches, at least once."""
    with appending(options) as out:
        for arrow_batch in batches:
            _append(out, arrow_batch, options)
        out.finish()
        return TaskCommitMessage(Prepared(position=out.position, records=out.records, begin=out.begin), "")


def prepare_all(
    batches: Iterator[pa.RecordBatch],
    run: SinkRun,
    batch_id: int,
    options: WriteOptions,
    on_step: StepObserver = ignore_step,
) -> TaskCommitMessage:
    """Append the rows of all batches in a transaction, and leave the transaction open."""
    context = TaskContext.get()
    assert context is not None
    with prepare(run, batch_id, context.partitionId(), options, on_step, attempt=context.attemptNumber()) as preparing:
        for arrow_batch in batches:
            if not preparing.is_decided:
                _append(preparing.out, arrow_batch, options)
    return TaskCommitMessage(preparing.prepared, run.sink_id, run.query_run)


def _require_ours(options: WriteOptions, batch_id: int) -> None:
    """Raises ConfigError for a query without a source of ours: its progress would have no position."""
    assert options.checkpoint is not None
    if not streams_ours(options.checkpoint, batch_id):
        raise ConfigError(
            f"option pipeline: the query of {options.pipeline} streams no topic by the format mainstem: "
            "it has no position to carry; read the topic in this query, or leave the option out"
        )


def _prepared(messages: list[WriterCommitMessage | None]) -> list[Prepared]:
    return [message.prepared for message in messages if isinstance(message, TaskCommitMessage)]


def _first_offsets(prepared: list[Prepared]) -> Position:
    """Where the records of all tasks begin."""
    begin: dict[TopicPartition, int] = {}
    for each in prepared:
        for tp, offset in each.begin.items():
            begin[tp] = min(offset, begin.get(tp, offset))
    return Position(begin)


def _resolve(run: SinkRun, messages: list[WriterCommitMessage | None]) -> None:
    """After a failure: commit the decided transactions, abort the rest.

    It prints an error and does not raise it. Spark has the error of a task or of the commit, and would replace it with
    "Writing job failed". The commit raises an error for lost records, also when the micro-batch or write is run again.
    """
    try:
        end_open_transactions(run.log, run.sink_id, linger_s=_linger_s(messages))
    except MainstemError as error:
        print(f"mainstem: {error}", file=sys.stderr)  # noqa: T201 - the process's log


def _linger_s(messages: list[WriterCommitMessage | None]) -> float:
    """How long tasks that have not reported may still run."""
    return KILLED_AFTER_S if None in messages else 0.0


def _property(name: str) -> str:
    """A local property that Spark sets for tasks of streaming queries. Raises ConfigError where it is missing."""
    value = _maybe_property(name)
    if value is None:
        raise ConfigError(f"Spark does not say {name} here: write streams by writeStream.format('mainstem')")
    return value


def _maybe_property(name: str) -> str | None:
    context = TaskContext.get()
    return context.getLocalProperty(name) if context is not None else None


def _append(out: TaskAppender, arrow_batch: pa.RecordBatch, options: WriteOptions) -> None:
    topic = options.topic
    if not arrow_batch.num_rows:
        return
    if options.key_columns and topic is not None:
        from mainstem.spark.sink.typed_rows import typed_rows  # for tasks alone

        out.append(topic, typed_rows(arrow_batch, topic, options))
        return
    names = arrow_batch.schema.names
    column = {name: arrow_batch.column(name) if name in names else None for name in _COLUMNS}
    rows = Rows(
        values=column["value"],
        keys=column["key"],
        headers=None if column["headers"] is None else column["headers"].cast(HEADERS),
        partitions=column["partition"],
        timestamps_ms=None if column["timestamp"] is None else _milliseconds(column["timestamp"]),
    )
    if topic is not None:
        out.append(topic, rows)
        return
    import pyarrow.compute as pc  # for tasks alone, as the encoder

    for name in pc.unique(column["topic"]).to_pylist():
        if name is None:
            raise SchemaError("the column topic is null in some row; fill it, or give the option topic")
        out.append(name, rows.take(pc.indices_nonzero(pc.equal(column["topic"], name))))


def _milliseconds(times: pa.Array) -> pa.Array:
    return times.cast(pa.timestamp("ms", "UTC"), safe=False).cast(pa.int64()).fill_null(-1)


def _check_columns(options: WriteOptions, schema: StructType) -> None:
    names = schema.fieldNames()
    if options.key_columns:
        _check_typed(options, schema)
        return
    unknown = [name for name in names if name not in _COLUMNS]
    if unknown or "value" not in names:
        raise SchemaError(
            f"a record is written from the columns {', '.join(_COLUMNS)}, value at least; there are {', '.join(names)}"
        )
    if options.topic is None and "topic" not in names:
        raise ConfigError("say where to write: by the option topic, or by a column topic")


def _check_typed(options: WriteOptions, schema: StructType) -> None:
    names = schema.fieldNames()
    missing = [name for name in options.key_columns if name not in names]
    if missing:
        raise ConfigError(f"option keyColumn: there is no column {', '.join(missing)}; there are {', '.join(names)}")
    if options.topic is None:
        raise ConfigError("option keyColumn writes all columns as the value: say where to by the option topic")
    refused = (VariantType,) if options.formats.value in ENCODINGS else (ArrayType, MapType, StructType, VariantType)
    nested = [field.name for field in schema if isinstance(field.dataType, refused)]
    if nested:
        raise SchemaError(
            f"column {', '.join(nested)} is nested; with the option keyColumn write its JSON text, "
            f"to_json({nested[0]}), or give the columns key and value yourself"
        )
