"""One pipeline as a streaming query: its DataFrames, its micro-batches, its progress.

A micro-batch, step by step (the numbers are in the code):
1. Spark asks the source for end offsets, its tables' among them, and writes them to the checkpoint.
2. Tasks encode the rows of the function's result and append them to the output topics, each task in its own
   transaction.
3. When all tasks are done, the driver decides on the transactions and ends them (``transactions``): exactly once.
4. The driver writes the progress record: from here on the micro-batch's input is covered.
5. Spark writes its commit. After a crash before this, Spark runs the micro-batch again, with the offsets of step 1; if
   it was decided, its tasks write nothing.

A Python data source cannot write rows that change (mode ``update``); ``foreachBatch`` can. So all pipelines use it. It
also saves two planner processes for each micro-batch. Step 2 is a part of the streaming query: Spark gets its function
once, and ``foreachBatch`` only collects the tasks' reports. ``write`` runs in the query's own thread, everything else
in the runner's thread.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from mainstem.client.log import Log
from mainstem.errors import ConfigError, MainstemError, ProducerFencedError
from mainstem.pipelines.definitions import Pipeline, Topic
from mainstem.schema.types import TopicSchema
from mainstem.spark.checkpoints.checkpoint import query_id, read_offsets
from mainstem.spark.options.options import WriteOptions
from mainstem.spark.queries.pipeline_checks import call, check_mode, schemas_of
from mainstem.spark.queries.query import Query, QueryPlace, input_frames
from mainstem.spark.queries.task_exchange import (
    REPORT,
    collect,
    for_each_batch,
    micro_batch_of,
    report,
    set_micro_batch,
)
from mainstem.spark.schemas import for_writing
from mainstem.spark.sink.outputs import Output, combined, records_of
from mainstem.spark.sink.sink_run import SinkRun, StepObserver
from mainstem.spark.sink.transactions import (
    KILLED_AFTER_S,
    begin_run,
    decide_and_finish,
    end_open_transactions,
    prepare,
)
from mainstem.spark.tasks import dead_letters

if TYPE_CHECKING:
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from mainstem.encodings.key_encoder import KeyEncoder
    from mainstem.encodings.value_encoder import ValueEncoder


class PipelineQuery(Query):
    """A query that appends the rows of a pipeline's function to its output topics."""

    def __init__(
        self, spark: SparkSession, pipeline: Pipeline, schemas: Mapping[str, TopicSchema], place: QueryPlace, log: Log
    ) -> None:
        """Call the pipeline's function and check its result. Raises DefinitionError, which names file and line."""
        frames = call(pipeline, input_frames(spark, pipeline, schemas, place, log))
        derived = schemas_of(pipeline, frames)
        writable = [for_writing(frame) for frame in frames]
        frame = combined([frame for frame, _ in writable])
        check_mode(pipeline, frame)
        super().__init__(pipeline, frame, place, log)
        self.schemas = derived
        outputs = tuple(
            Output(topic.name, topic.key, json_columns, pipeline.dead_letter_topic)
            for topic, (_, json_columns) in zip(pipeline.outputs, writable, strict=True)
        )
        options = WriteOptions(place.log, None, pipeline.name, place.checkpoint, "none", None)
        self._outputs = outputs
        self._task = functools.partial(append_rows, options=options, on_step=place.on_step)
        self._run: SinkRun | None = None
        self._has_tasks = False

    def start(self, *, once: bool) -> StreamingQuery:
        self._run = None
        dead_letters.create(self._place.log, self.pipeline.dead_letter_topic)
        self._outputs = tuple(
            replace(output, encoder=self._encoder(topic), key_encoder=self._key_encoder(topic))
            for output, topic in zip(self._outputs, self.pipeline.outputs, strict=True)
        )
        return super().start(once=once)

    def _encoder(self, topic: Topic) -> ValueEncoder | None:
        """How to write an output's values. Raises SchemaError when the schema registry refuses its columns."""
        if topic.encoding is None:
            return None
        from mainstem.encodings.encoders import encoder_of  # loads the native kernels

        columns = self.schemas[topic.name]
        return encoder_of(self._log, topic.schema_topic, columns, topic.encoding, framing=topic.framing)

    def _key_encoder(self, topic: Topic) -> KeyEncoder | None:
        """How to write an output's keys. Raises SchemaError when its key columns do not fit the schema of its keys."""
        if topic.key_encoding is None or not topic.key:
            return None
        from mainstem.encodings.encoders import key_encoder_of  # loads the native kernels

        columns = TopicSchema(tuple(map(self.schemas[topic.name].column, topic.key)))
        return key_encoder_of(self._log, topic.schema_topic, columns, topic.key_encoding)

    def _streamed(self) -> DataFrame:
        """The tasks' reports. To read them is step 2."""
        names = self._frame.columns
        renamed = any("." in name or "`" in name for name in names)  # mapInArrow refuses such names
        frame = self._frame.toDF(*map(str, range(len(names)))) if renamed else self._frame
        return frame.mapInArrow(functools.partial(self._task, outputs=self._outputs, names=names), REPORT)

    def _attach(self, writer: DataStreamWriter) -> DataStreamWriter:
        return for_each_batch(self._frame.sparkSession, writer, self._write_and_advance)

    def write(self, dataset: Any, batch_id: int) -> None:
        """Steps 2, 3 and 4 of a micro-batch. The sink's run begins with the query's first one."""
        try:
            self._write(dataset, batch_id)
        except Exception as error:
            self._resolve(error)
            raise

    def _write(self, dataset: Any, batch_id: int) -> None:
        place, spark = self._place, self._frame.sparkSession
        if self._run is None:
            _refuse_speculation(spark)
            self._run = begin_run(place.log, query_id(place.checkpoint))
        set_micro_batch(spark, self._run, batch_id)
        self._has_tasks = True
        reports = collect(dataset)
        self._has_tasks = False
        offsets = read_offsets(place.checkpoint, batch_id)
        decided = decide_and_finish(self._run, batch_id, reports, offsets, place.on_step)
        self.written_rows += decided.records
        written = decided.position.restrict(topic.name for topic in self.pipeline.outputs)  # without the dead letters
        self._progress.advance(batch_id, offsets, written)
        place.on_step("driver:progress")

    def _resolve(self, error: Exception) -> None:
        """Leave no transaction of a failed micro-batch open: readers would wait for the query's next start.

        When one task fails, or the query is stopped, Spark kills the other tasks. Until then they may prepare more.
        """
        run, self._run = self._run, None
        linger_s, self._has_tasks = KILLED_AFTER_S if self._has_tasks else 0.0, False
        if run is not None and not isinstance(error, ProducerFencedError):  # else another run owns the sink
            try:
                end_open_transactions(run.log, run.sink_id, linger_s=linger_s)
            except MainstemError as failed:
                error.add_note(f"what its tasks have prepared stays open until it starts again: {failed}")


def append_rows(
    batches: Iterator[pa.RecordBatch],
    *,
    options: WriteOptions,
    outputs: tuple[Output, ...],
    names: Sequence[str],
    on_step: StepObserver,
) -> Iterator[pa.RecordBatch]:
    """Step 2, in a task: append the rows. Yields one row, the report.

    ``names`` are the columns' real names; those in the batches may be replaced by numbers.
    """
    context = TaskContext.get()
    assert context is not None
    run, batch_id = micro_batch_of(context, options.log)
    task, attempt = context.partitionId(), context.attemptNumber()
    with prepare(run, batch_id, task, options, on_step, attempt=attempt) as preparing:
        for arrow_batch in batches:
            if arrow_batch.num_rows and not preparing.is_decided:
                for topic, rows in records_of(arrow_batch.rename_columns(names), outputs):
                    preparing.out.append(topic, rows)
    yield report(preparing.prepared)


def _refuse_speculation(spark: SparkSession) -> None:
    if spark.conf.get("spark.speculation", "false") == "true":
        raise ConfigError(
            "spark.speculation is on: of two copies of a task only one may write; set spark.speculation=false "
            "for a session that runs pipelines"
        )
