"""``@app.foreach_batch`` as a streaming query: it calls a function with each micro-batch.

A micro-batch, step by step:
1. Spark asks the source for end offsets and writes them to the checkpoint.
2. The function is called with the rows and the micro-batch's id; it returns the position after its appended records.
3. The driver writes the progress record: from here on the micro-batch's input is covered.
4. Spark writes its commit. After a crash before this, the function is called again, with the same id and rows.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame, SparkSession

from mainstem.client.log import Log
from mainstem.errors import DefinitionError
from mainstem.model import Position
from mainstem.pipelines.definitions import Pipeline
from mainstem.schema.types import TopicSchema
from mainstem.spark.checkpoints.checkpoint import read_offsets
from mainstem.spark.queries.query import Query, QueryPlace, input_frames


class BatchFunctionQuery(Query):
    """A query that calls a function with each micro-batch."""

    def __init__(
        self, spark: SparkSession, pipeline: Pipeline, schemas: Mapping[str, TopicSchema], place: QueryPlace, log: Log
    ) -> None:
        (frame,) = input_frames(spark, pipeline, schemas, place, log)
        super().__init__(pipeline, frame, place, log)

    def write(self, frame: DataFrame, batch_id: int) -> None:
        """Steps 2 and 3 of a micro-batch. Raises DefinitionError when the function's result is not a valid position."""
        written = self._position(self.pipeline.function(frame, batch_id))
        self._progress.advance(batch_id, read_offsets(self._place.checkpoint, batch_id), written)

    def _position(self, said: object) -> Position:
        if said is None:
            return Position()
        pipeline = self.pipeline
        if not isinstance(said, Position):
            raise DefinitionError(
                f"{pipeline.where}: {pipeline.function.__name__} must return the position after what it appended, or "
                f"None, not {type(said).__name__}"
            )
        foreign = sorted(said.topics - {topic.name for topic in pipeline.outputs})
        if foreign:
            raise DefinitionError(
                f"{pipeline.where}: {pipeline.function.__name__} appended to {', '.join(foreign)}; name it in "
                "into=, so that positions travel through it"
            )
        return said
