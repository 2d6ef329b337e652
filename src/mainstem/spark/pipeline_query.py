"""One pipeline as a streaming query: its DataFrames, its micro-batches, its progress.

A micro-batch, step by step (the numbers are in the code):
1. Spark asks the source for end offsets, its tables' among them, and writes them to the checkpoint.
2. Tasks encode the rows that the function gave and append them to the output topic; each reports where its own end.
3. The driver, when all tasks are done, writes the progress record: from here on what was read is covered.
4. Spark writes its commit. After a crash before this, the micro-batch is run again, from 1's offsets: at least once.

Spark takes rows that change (mode ``update``) from Python in ``foreachBatch`` alone, so all pipelines go that way;
it also spares each micro-batch two planner processes. ``write`` runs in the query's own thread; the rest belongs to the
thread of the runner.
"""

from __future__ import annotations

import functools
import pickle
import traceback
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from mainstem.client.log import Log
from mainstem.errors import DefinitionError, MainstemError
from mainstem.model import Position
from mainstem.pipelines.definitions import Pipeline, Table, Topic
from mainstem.schema.types import TopicSchema
from mainstem.spark.checkpoint import last_committed, read_offsets
from mainstem.spark.frames import stream, table
from mainstem.spark.json_encode import encode_keys, encode_values
from mainstem.spark.options import BOOTSTRAP, LogOptions, WriteOptions
from mainstem.spark.producing import Rows, producing
from mainstem.spark.progress_log import ProgressLog
from mainstem.spark.schemas import for_writing, topic_schema
from mainstem.spark.sink import Appended

# A table of more records than this is not sent whole to every task.
BROADCAST_RECORDS_MAX = 500_000


@dataclass(frozen=True, slots=True)
class QueryPlace:
    """Where a query runs: its log, and its own checkpoint directory."""

    log: LogOptions
    checkpoint: str


class PipelineQuery:
    """See the module. ``schema`` is that of the derived topic."""

    def __init__(
        self, spark: SparkSession, pipeline: Pipeline, schemas: Mapping[str, TopicSchema], place: QueryPlace, log: Log
    ) -> None:
        """Calls the pipeline's function. Raises DefinitionError, which names its file and line, when that fails."""
        self.pipeline = pipeline
        self._place = place
        self._log = log
        frame = _call(pipeline, [self._input(spark, entry, schemas) for entry in pipeline.inputs])
        self._frame, json_columns = for_writing(frame)
        self.schema = topic_schema(frame.drop("_offset", "_partition", "_timestamp").schema)
        _check_key(pipeline, self.schema)
        options = WriteOptions(place.log, pipeline.output.name, pipeline.name, place.checkpoint, "none", None)
        self._task = functools.partial(append_rows, options=options, key=pipeline.output.key, json_columns=json_columns)
        inputs = tuple(topic.name for topic in pipeline.streams)
        self._progress = ProgressLog(place.log, pipeline.name, pipeline.output.name, inputs)

    def start(self, *, once: bool) -> StreamingQuery:
        """Start or go on where the checkpoint says; with ``once`` up to what is there now."""
        if last_committed(self._place.checkpoint) is None:
            self._progress.start(self._log.beginning(*(topic.name for topic in self.pipeline.streams)))
        writer = self._frame.writeStream.foreachBatch(self.write).outputMode(self.pipeline.mode)
        writer = writer.option("checkpointLocation", self._place.checkpoint).queryName(self.pipeline.name)
        return writer.trigger(availableNow=True).start() if once else writer.start()

    def write(self, frame: DataFrame, batch_id: int) -> None:
        """Steps 2 and 3 of a micro-batch."""
        reports = [pickle.loads(row.report) for row in frame.mapInArrow(self._task, "report BINARY").collect()]
        written = Position.join(report.position for report in reports)
        self._progress.advance(batch_id, read_offsets(self._place.checkpoint, batch_id), written)

    def close(self) -> None:
        self._progress.close()

    def _input(self, spark: SparkSession, entry: Topic | Table, schemas: Mapping[str, TopicSchema]) -> DataFrame:
        bootstrap = self._place.log.bootstrap
        if isinstance(entry, Table):
            options = {"checkpointLocation": self._place.checkpoint}
            held = sum(self._log.end(entry.topic.name).values())
            is_small = held <= BROADCAST_RECORDS_MAX
            return table(spark, bootstrap, entry.topic.name, schemas.get(entry.topic.name), options, is_small=is_small)
        # Step 1: the first stream carries where the tables end.
        carries = self.pipeline.tables if entry is self.pipeline.streams[0] else ()
        options = {"tables": ",".join(sorted({topic.name for topic in carries}))}
        if entry.name not in schemas:
            return _raw_stream(spark, bootstrap, entry.name, options)
        return stream(spark, bootstrap, entry.name, schemas[entry.name], options)


def append_rows(
    batches: Iterator[pa.RecordBatch], *, options: WriteOptions, key: tuple[str, ...], json_columns: frozenset[str]
) -> Iterator[pa.RecordBatch]:
    """Step 2, a task's: append the rows as the topic's encoding has them; one row, the pickled report, comes back."""
    assert options.topic is not None
    with producing(options) as out:
        for arrow_batch in batches:
            if arrow_batch.num_rows:
                values = encode_values(arrow_batch, json_columns=json_columns)
                out.append(options.topic, Rows(values, encode_keys(arrow_batch, key)))
        report = pickle.dumps(Appended(out.position, out.records))
    yield pa.RecordBatch.from_arrays([pa.array([report], pa.binary())], names=["report"])


def _raw_stream(spark: SparkSession, bootstrap: str, topic: str, options: Mapping[str, str]) -> DataFrame:
    """A topic without a schema: its records."""
    reader = spark.readStream.format("mainstem").option(BOOTSTRAP, bootstrap).option("subscribe", topic)
    return reader.option("startingOffsets", "earliest").options(**options).load()


def _call(pipeline: Pipeline, frames: list[DataFrame]) -> DataFrame:
    try:
        result = pipeline.function(*frames)
    except MainstemError:
        raise
    except Exception as error:
        said = str(error).strip().splitlines() or [""]
        line = _line_in(pipeline.function, error) or pipeline.where
        name = pipeline.function.__name__
        raise DefinitionError(
            f"{line}: {name} (pipeline {pipeline.name}): {type(error).__name__}: {said[0]}"
        ) from error
    if not isinstance(result, DataFrame):
        got = type(result).__name__
        raise DefinitionError(f"{pipeline.where}: pipeline {pipeline.name} must return a DataFrame, not {got}")
    if not result.isStreaming:
        raise DefinitionError(f"{pipeline.where}: the result of pipeline {pipeline.name} does not come from its stream")
    return result


def _line_in(function: Callable[..., Any], error: Exception) -> str | None:
    """The innermost line of the file that declares ``function``, on the way to the error."""
    file = function.__code__.co_filename
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == file]
    return f"{file}:{lines[-1]}" if lines else None


def _check_key(pipeline: Pipeline, schema: TopicSchema) -> None:
    missing = [name for name in pipeline.output.key if name not in schema.names]
    if missing:
        raise DefinitionError(
            f"{pipeline.where}: the key of {pipeline.output.name} is {', '.join(pipeline.output.key)}, but pipeline "
            f"{pipeline.name} gives no {', '.join(missing)}; it gives {', '.join(schema.names)}"
        )
