"""The common part of all pipelines' streaming queries: inputs, checkpoint, start, progress.

Two kinds build on it: ``PipelineQuery`` appends what a function derives, ``BatchFunctionQuery`` calls a function with
each micro-batch. ``write`` runs in the query's own thread, everything else in the runner's thread.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from mainstem.client.log import Log
from mainstem.errors import DefinitionError
from mainstem.pipelines.definitions import Input, Pipeline, Table, Topic
from mainstem.schema.topic_schemas import lookup
from mainstem.schema.types import TopicSchema
from mainstem.spark.checkpoints import nulled_values
from mainstem.spark.checkpoints.checkpoint import last_planned, query_id
from mainstem.spark.checkpoints.nulled_values import NulledValues
from mainstem.spark.checkpoints.progress_log import ProgressLog
from mainstem.spark.options.options import BOOTSTRAP, LogOptions
from mainstem.spark.queries.batch_traces import traced_batch
from mainstem.spark.queries.frames import formats, stream, table
from mainstem.spark.queries.input_watermarks import InputWatermarks
from mainstem.spark.sink.sink_run import StepObserver, ignore_step

if TYPE_CHECKING:
    from pyspark.sql.streaming.readwriter import DataStreamWriter

# Spark sends a table with at most so many records whole to every task.
BROADCAST_RECORDS_MAX = 500_000


@dataclass(frozen=True, slots=True)
class QueryPlace:
    """A query's log, its own checkpoint directory, and the observer of the sink's steps."""

    log: LogOptions
    checkpoint: str
    on_step: StepObserver = ignore_step


class Query(ABC):
    """A pipeline's streaming query.

    ``schemas``: topic name → schema of the topics that it derives. ``written_rows``: how many rows it has appended.
    ``nulled_values``: how many values of its streams became null, because they do not fit their columns.
    ``current_batch``: the micro-batch that it writes now; None between two of them. Its own thread sets it.
    """

    def __init__(self, pipeline: Pipeline, frame: DataFrame, place: QueryPlace, log: Log) -> None:
        self.pipeline = pipeline
        self.schemas: Mapping[str, TopicSchema] = {}
        self.written_rows = 0
        self.current_batch: int | None = None
        self.nulled_values: NulledValues = {}
        self._frame = frame
        self._place = place
        self._log = log
        outputs = tuple(topic.name for topic in pipeline.outputs)
        self._streams = tuple(dict.fromkeys(topic.name for topic in pipeline.streams))
        self._watermarks = InputWatermarks(frame, place.checkpoint)
        self._progress = ProgressLog(place.log, pipeline.name, outputs, self._streams)

    def start(self, *, once: bool) -> StreamingQuery:
        """Start, or go on from the checkpoint. With ``once`` the query ends when it has read what is there now."""
        if last_planned(self._place.checkpoint) is None:
            self._progress.start(self._log.beginning(*self._streams))
        self._watermarks.begin()
        nulled_values.begin(self._place.checkpoint, self._streams)
        writer = self._attach(self._streamed().writeStream).outputMode(self.pipeline.mode)
        writer = writer.option("checkpointLocation", self._place.checkpoint).queryName(self.pipeline.name)
        return writer.trigger(availableNow=True).start() if once else writer.start()

    @property
    def watermark_held_by(self) -> str | None:
        """The input that holds the watermark back, in words; None when none does."""
        return self._watermarks.held_by

    @property
    def frame(self) -> DataFrame:
        """The DataFrame that the pipeline defines."""
        return self._frame

    @property
    def checkpoint(self) -> str:
        """The directory of the query's checkpoint."""
        return self._place.checkpoint

    def _streamed(self) -> DataFrame:
        """The DataFrame whose micro-batches ``write`` gets."""
        return self._frame

    def _attach(self, writer: DataStreamWriter) -> DataStreamWriter:
        """Let Spark call ``_write_and_advance`` with each micro-batch."""
        return writer.foreachBatch(self._write_and_advance)

    @abstractmethod
    def write(self, batch: Any, batch_id: int, /) -> None:
        """Process a micro-batch, then write its progress record."""

    def close(self) -> None:
        self._progress.close()

    def _write_and_advance(self, batch: Any, batch_id: int) -> None:
        self.current_batch = batch_id
        try:
            with traced_batch(self.pipeline.name, batch_id, self._log, self._progress):
                self.write(batch, batch_id)
        finally:
            self.current_batch = None
        self._watermarks.advance(query_id(self._place.checkpoint))
        self.nulled_values = nulled_values.collect(self._place.checkpoint, self.nulled_values)


def input_frames(
    spark: SparkSession, pipeline: Pipeline, schemas: Mapping[str, TopicSchema], place: QueryPlace, log: Log
) -> list[DataFrame]:
    """One DataFrame for each input. Raises DefinitionError for a table without a schema."""
    return [_input(spark, pipeline, entry, schemas, place, log) for entry in pipeline.inputs]


def _input(
    spark: SparkSession,
    pipeline: Pipeline,
    entry: Input,
    schemas: Mapping[str, TopicSchema],
    place: QueryPlace,
    log: Log,
) -> DataFrame:
    bootstrap = place.log.bootstrap
    if isinstance(entry, Table):
        name = entry.topic.name
        if name not in schemas:
            advice = (
                "start its capture first, which registers the columns; a capture with envelope='debezium' registers "
                "none, so use envelope='row'"
                if entry.topic.captured
                else "declare one with app.topic"
            )
            raise DefinitionError(
                f"{pipeline.where}: pipeline {pipeline.name} reads {name} as a table, but this topic has no schema; "
                f"{advice}"
            )
        is_small = sum(log.end(name).values()) <= BROADCAST_RECORDS_MAX
        options = {"checkpointLocation": place.checkpoint, "onDamaged": pipeline.on_damaged}
        options |= formats(*encodings_of(entry.topic, log))
        return table(spark, bootstrap, name, schemas[name], options, is_small=is_small)
    # Each stream's offsets contain the ends of the tables, because only one of the streams may have new records.
    group = f"mainstem-{pipeline.name}"
    options = {
        "tables": ",".join(sorted({topic.name for topic in pipeline.tables})),
        "kafka.group.id": group,
        "onDamaged": pipeline.on_damaged,
    }
    if entry.name not in schemas:
        return _raw_stream(spark, bootstrap, entry.name, options)
    options |= {"deadLetterTopic": pipeline.dead_letter_topic, "checkpointLocation": place.checkpoint}
    options |= formats(*encodings_of(entry, log))
    return stream(spark, bootstrap, entry.name, schemas[entry.name], options)


def encodings_of(topic: Topic, log: Log) -> tuple[str | None, str | None]:
    """The declared encodings of a topic's values and keys; without a declared schema, the registered ones."""
    if topic.schema is not None:
        return topic.encoding, topic.key_encoding
    registered = lookup(log, topic.name)
    known = (None, None) if registered is None else (registered.encoding, registered.key_encoding)
    return topic.encoding or known[0], topic.key_encoding or known[1]


def _raw_stream(spark: SparkSession, bootstrap: str, topic: str, options: Mapping[str, str]) -> DataFrame:
    """A topic without a schema: its records."""
    reader = spark.readStream.format("mainstem").option(BOOTSTRAP, bootstrap).option("subscribe", topic)
    return reader.option("startingOffsets", "earliest").option("includeHeaders", "true").options(**options).load()
