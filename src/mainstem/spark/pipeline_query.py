"""One pipeline as a streaming query: its DataFrames, its micro-batches, its progress.

A micro-batch, step by step (the numbers are in the code):
1. Spark asks the source for end offsets, its tables' among them, and writes them to the checkpoint.
2. Tasks encode the rows that the function gave and append them to the output topics; each reports where its own end.
3. The driver, when all tasks are done, writes the progress record: from here on what was read is covered.
4. Spark writes its commit. After a crash before this, the micro-batch is run again, from 1's offsets: at least once.

Spark takes rows that change (mode ``update``) from Python in ``foreachBatch`` alone, so all pipelines go that way;
it also spares each micro-batch two planner processes. ``write`` runs in the query's own thread; the rest belongs to the
thread of the runner.
"""

from __future__ import annotations

import functools
import pickle
from collections.abc import Iterator, Mapping

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from mainstem.client.log import Log
from mainstem.model import Position
from mainstem.pipelines.definitions import Pipeline
from mainstem.schema.types import TopicSchema
from mainstem.spark.checkpoint import read_offsets
from mainstem.spark.options import WriteOptions
from mainstem.spark.outputs import Output, combined, records_of
from mainstem.spark.pipeline_checks import call, check_mode, schemas_of
from mainstem.spark.producing import producing
from mainstem.spark.query import Query, QueryPlace, input_frames
from mainstem.spark.schemas import for_writing
from mainstem.spark.sink import Appended


class PipelineQuery(Query):
    """See the module."""

    def __init__(
        self, spark: SparkSession, pipeline: Pipeline, schemas: Mapping[str, TopicSchema], place: QueryPlace, log: Log
    ) -> None:
        """Calls the pipeline's function and checks what it gives: raises DefinitionError, which names file and line."""
        frames = call(pipeline, input_frames(spark, pipeline, schemas, place, log))
        derived = schemas_of(pipeline, frames)
        writable = [for_writing(frame) for frame in frames]
        frame = combined([frame for frame, _ in writable])
        check_mode(pipeline, frame)
        super().__init__(pipeline, frame, place, log)
        self.schemas = derived
        outputs = tuple(
            Output(topic.name, topic.key, json_columns)
            for topic, (_, json_columns) in zip(pipeline.outputs, writable, strict=True)
        )
        options = WriteOptions(place.log, None, pipeline.name, place.checkpoint, "none", None)
        self._task = functools.partial(append_rows, options=options, outputs=outputs)

    def write(self, frame: DataFrame, batch_id: int) -> None:
        """Steps 2 and 3 of a micro-batch."""
        reports = [pickle.loads(row.report) for row in frame.mapInArrow(self._task, "report BINARY").collect()]
        written = Position.join(report.position for report in reports)
        self.written_rows += sum(report.records for report in reports)
        self._progress.advance(batch_id, read_offsets(self._place.checkpoint, batch_id), written)


def append_rows(
    batches: Iterator[pa.RecordBatch], *, options: WriteOptions, outputs: tuple[Output, ...]
) -> Iterator[pa.RecordBatch]:
    """Step 2, a task's: append the rows as the topics' encoding has them; one row, the pickled report, comes back."""
    with producing(options) as out:
        for arrow_batch in batches:
            if arrow_batch.num_rows:
                for topic, rows in records_of(arrow_batch, outputs):
                    out.append(topic, rows)
        report = pickle.dumps(Appended(out.position, out.records))
    yield pa.RecordBatch.from_arrays([pa.array([report], pa.binary())], names=["report"])
