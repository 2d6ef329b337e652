"""Verifying a pipeline: its function is run once more, as one batch over all that it has read, and the result is
compared with the records that the pipeline wrote.

1. The pipeline's newest progress record says what it has read (``source``), how far it has written (``sink``), and
   where the tables ended that it joined (``tables``).
2. Its function is called with DataFrames that are not streams: the inputs from their oldest records up to ``source``,
   the tables at ``tables``. The code of the pipeline's tasks encodes its result.
3. The output topics are read up to ``sink``, and compared (``record_comparison``). A topic whose rows never change must
   have each record as often as the batch gives it. A topic whose rows change, or that is compacted or was rebuilt, must
   have the latest value of each key.
4. Rows that a watermark still holds back may be missing. If this cannot be decided (a row without a time, an unknown
   watermark), the result is "no contradiction" instead of "equal". If retention has removed records of a topic, rows
   that cannot be judged without them are counted apart; differences of a stateful pipeline then prove nothing.

Verification writes nothing. The pipeline may run meanwhile: rows that it writes after that progress record are ignored.
"""

from __future__ import annotations

import datetime
import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from mainstem.client.log import Log, TopicDescription
from mainstem.client.wire.cluster.cluster import LATEST, Isolation
from mainstem.encodings.value_encoder import ValueEncoder
from mainstem.errors import (
    DefinitionError,
    InputError,
    PipelineFailedError,
    PositionError,
    TransactionTimeoutError,
    UnknownTopicError,
)
from mainstem.model import Position
from mainstem.pipelines.app import App
from mainstem.pipelines.definitions import Input, Pipeline, Table, Topic
from mainstem.pipelines.entries import EntryReader
from mainstem.pipelines.progress import Progress
from mainstem.pipelines.state import STATES_TOPIC, PipelineState
from mainstem.schema.infer import schema_of
from mainstem.schema.topic_schemas import lookup
from mainstem.schema.types import TopicSchema
from mainstem.spark.checkpoints.checkpoint import watermark_ms
from mainstem.spark.checkpoints.progress_log import ProgressLog
from mainstem.spark.clients import borrowed
from mainstem.spark.options.options import LogOptions
from mainstem.spark.queries.failures import cause
from mainstem.spark.queries.frames import part
from mainstem.spark.queries.pipeline_checks import call, schemas_of
from mainstem.spark.queries.pipeline_query import PipelineQuery
from mainstem.spark.queries.query import BROADCAST_RECORDS_MAX, QueryPlace, encodings_of, input_frames
from mainstem.spark.schemas import for_writing
from mainstem.spark.sink.outputs import Output, combined
from mainstem.spark.verification.caveats import Plan, removed_before, table_caveats, topic_caveats, version_caveats
from mainstem.spark.verification.comparison_rules import (
    DOUBLE_TOLERANCE,
    FLOAT_TOLERANCE,
    UNKNOWN,
    ComparisonRules,
    DifferenceKind,
    Rule,
)
from mainstem.spark.verification.encoded_records import records_as_json, unregistered_encoder
from mainstem.spark.verification.record_comparison import actual_rows, compare, expected_rows
from mainstem.spark.verification.result import BEHIND_MAX, TopicVerification, VerificationResult

EXAMPLES_MAX: Final = 10
_WATERMARK_DELAY: Final = "spark.watermarkDelayMs"
_RECORD_COLUMNS: Final = ("key", "value", "partition", "offset", "timestamp")
_OTHER_VERSION: Final = (
    "another writer appended to the topic, or it holds records of a former version of the pipeline: one that was "
    "changed and resumed, or started afresh"
)


class Verification:
    """Verifies one pipeline of an App, on one log. Owned by one thread."""

    def __init__(
        self, spark: SparkSession, app: App, name: str, log: Log, options: LogOptions, *, checkpoints: Path
    ) -> None:
        """``checkpoints``: where those of the App would be; they need not be on this machine.

        Raises InputError for a pipeline that there is not, or that writes by itself.
        """
        if name not in app.pipelines:
            raise InputError(f"App {app.name} has no pipeline {name!r}; it has: {', '.join(app.pipelines) or 'none'}")
        pipeline = app.pipelines[name]
        if pipeline.each_batch:
            raise InputError(
                f"{pipeline.where}: {name} is a foreach_batch function: what it does is its own, and to run it again "
                "would do it again; only a pipeline that gives a DataFrame can be verified"
            )
        self._spark = spark
        self._pipeline = pipeline
        self._log = log
        self._derived: Mapping[str, TopicSchema] = {}
        self._options = options
        self._checkpoint = checkpoints / name
        self._schemas = _schemas(app, pipeline, log)

    def verify(self) -> VerificationResult:
        """Compare. Raises InputError (DefinitionError, PositionError, …) for what cannot be compared, and says why.

        Raises PipelineFailedError when the function fails, TransactionTimeoutError while a transaction is open that
        hides what the pipeline wrote.
        """
        # The watermark is read before the progress: an older watermark claims less.
        published, held_by = _published_watermark(self._log, self._pipeline.name)
        progress = self._progress()
        streams = call(self._pipeline, self._streams())
        schemas = schemas_of(self._pipeline, streams)
        plan = Plan(combined([for_writing(frame)[0] for frame in streams]))
        topics = {topic.name: self._log.describe_topic(topic.name) for topic in self._pipeline.outputs}
        inputs = {name: self._log.describe_topic(name) for name in progress.inputs}
        removed = removed_before(Position.join(topic.beginning for topic in inputs.values()))
        watermark = _time(watermark_ms(str(self._checkpoint), progress.batch_id)) or published
        terms = [
            self._terms(
                topics[topic.name],
                schemas[topic.name],
                frame,
                plan,
                watermark,
                is_cut=bool(removed),
                is_rebuilt=progress.rebuilt,
            )
            for topic, frame in zip(self._pipeline.outputs, streams, strict=True)
        ]
        found = self._compared(progress, inputs, topics, terms)
        outcome = VerificationResult(
            pipeline=self._pipeline.name,
            source=progress.source,
            sink=progress.sink,
            tables=progress.tables,
            begins=removed,
            topics=tuple(found),
            caveats=(),
            watermark_held_by=held_by,
        )
        if not outcome.is_contradicted:
            return outcome
        if removed and plan.is_stateful:
            raise InputError(_not_to_be_judged(outcome))
        return outcome.with_caveats(self._caveats(plan, progress, inputs))

    # ---- what is compared

    def _progress(self) -> Progress:
        pipeline = self._pipeline
        outputs = tuple(topic.name for topic in pipeline.outputs)
        with ProgressLog(self._options, pipeline.name, outputs) as said:
            progress = _last(said)
        if progress is None:
            raise InputError(f"pipeline {pipeline.name} has not run on this log yet; start it with: mainstem run")
        streams = {topic.name for topic in pipeline.streams}
        if set(progress.inputs) != streams or set(progress.outputs) != set(outputs):
            raise DefinitionError(
                f"{pipeline.where}: pipeline {pipeline.name} was changed since it ran: it read "
                f"{', '.join(progress.inputs)} and wrote {', '.join(progress.outputs)}; run it first"
            )
        self._require_there(progress.source | progress.sink | progress.tables)
        return progress

    def _require_there(self, position: Position) -> None:
        """Raises PositionError where the log ends before what was read or written.

        TransactionTimeoutError where an open transaction hides it.
        """
        ends = self._log.end(*sorted(position.topics))
        beyond = [f"{tp} ends at {ends.get(tp, 0)}" for tp, offset in position.items() if ends.get(tp, 0) < offset]
        if beyond:
            raise PositionError(
                f"pipeline {self._pipeline.name} was at {position}, but {', '.join(beyond)}: the topic was recreated "
                "since, so there is nothing to compare with"
            )
        with borrowed(self._options) as client:
            stable = client.list_offsets(list(position), LATEST, Isolation.READ_COMMITTED)
        hidden = [f"{tp} at {stable[tp]}" for tp, offset in position.items() if stable[tp] < offset]
        if hidden:
            raise TransactionTimeoutError(
                f"an open transaction holds {', '.join(hidden)}: later records cannot be read yet; try again when "
                "it has ended"
            )

    def _streams(self) -> list[DataFrame]:
        """The inputs as the pipeline has them, for what the plan says; they are never started."""
        place = QueryPlace(self._options, str(self._checkpoint))
        return input_frames(self._spark, self._pipeline, self._schemas, place, self._log)

    def _terms(
        self,
        topic: TopicDescription,
        schema: TopicSchema,
        frame: DataFrame,
        plan: Plan,
        watermark: datetime.datetime | None,
        *,
        is_cut: bool,
        is_rebuilt: bool,
    ) -> ComparisonRules:
        is_append = self._pipeline.mode == "append"
        is_compacted = "compact" in (topic.configs.get("cleanup.policy") or "")
        not_judged = {DifferenceKind.EXTRA} if is_cut and not plan.is_stateful else set()
        if removed_before(topic.beginning):
            not_judged.add(DifferenceKind.MISSING)
        times = [field.name for field in frame.schema.fields if _WATERMARK_DELAY in field.metadata]
        waits = is_append and plan.holds_back
        return ComparisonRules(
            Rule.MULTISET if is_append and not is_compacted and not is_rebuilt else Rule.LATEST,
            _tolerances(schema),
            (watermark or UNKNOWN) if waits else None,
            times[0] if times and plan.waits_for_windows_only else None,
            frozenset(not_judged),
        )

    def _compared(
        self,
        progress: Progress,
        inputs: Mapping[str, TopicDescription],
        topics: Mapping[str, TopicDescription],
        terms: Sequence[ComparisonRules],
    ) -> list[TopicVerification]:
        outputs = self._pipeline.outputs
        try:
            expected = self._expected(progress, inputs)
            actual = [
                actual_rows(self._written(topic, progress.sink, topics[topic.name].beginning), whose, each.rule)
                for whose, (topic, each) in enumerate(zip(outputs, terms, strict=True))
            ]
            found = compare(expected, actual, terms, EXAMPLES_MAX)
        except AnalysisException as error:
            said = str(error).strip().splitlines()[0]
            raise DefinitionError(
                f"{self._pipeline.where}: pipeline {self._pipeline.name} cannot be run as a batch: {said}"
            ) from error
        except (PySparkException, Py4JJavaError) as error:
            said = cause(self._pipeline, str(self._checkpoint) + ".verify", str(error))
            raise PipelineFailedError(f"pipeline {self._pipeline.name}, run as a batch, failed: {said}") from error
        return [
            TopicVerification.of(topic.name, each.rule, compared, self._behind(topic.name, progress.sink))
            for topic, each, compared in zip(outputs, terms, found, strict=True)
        ]

    def _expected(self, progress: Progress, inputs: Mapping[str, TopicDescription]) -> DataFrame:
        frames = [self._input(entry, progress, inputs) for entry in self._pipeline.inputs]
        derived = call(self._pipeline, frames, streaming=False)
        given = [for_writing(frame) for frame in derived]
        self._derived = schemas_of(self._pipeline, derived)
        outputs = [
            Output(topic.name, topic.key, json_columns, encoder=self._encoder(topic))
            for topic, (_, json_columns) in zip(self._pipeline.outputs, given, strict=True)
        ]
        return expected_rows(combined([frame for frame, _ in given]), outputs)

    def _input(self, entry: Input, progress: Progress, inputs: Mapping[str, TopicDescription]) -> DataFrame:
        topic = entry.topic if isinstance(entry, Table) else entry
        how: dict[str, Any] = {"on_damaged": self._pipeline.on_damaged, "encodings": encodings_of(topic, self._log)}
        if isinstance(entry, Table):
            end = progress.tables.restrict([entry.topic.name])
            schema = self._schemas[entry.topic.name]
            frame = part(self._spark, self._options.bootstrap, end, schema, as_table=True, **how)
            return sf.broadcast(frame) if sum(end.values()) <= BROADCAST_RECORDS_MAX else frame
        end = _up_to(progress.source, inputs[entry.name].beginning)
        return part(self._spark, self._options.bootstrap, end, self._schemas.get(entry.name), **how)

    def _encoder(self, topic: Topic) -> ValueEncoder | None:
        columns = self._derived[topic.name]
        return None if topic.encoding is None else unregistered_encoder(topic.name, columns, topic.encoding)

    def _written(self, topic: Topic, sink: Position, begins: Position) -> DataFrame:
        end = _up_to(sink, begins)
        if topic.encoding is None and topic.key_encoding is None:
            return part(self._spark, self._options.bootstrap, end, columns=_RECORD_COLUMNS)
        records = part(self._spark, self._options.bootstrap, end, columns=(*_RECORD_COLUMNS, "headers"))
        columns = self._derived[topic.name]
        key = TopicSchema(tuple(map(columns.column, topic.key))) if topic.key_encoding and topic.key else None
        return records_as_json(records, columns if topic.encoding else None, key, self._options)

    def _behind(self, topic: str, sink: Position) -> int:
        """The number of records after the offsets that the pipeline reported, as far as they are counted."""
        read = self._log.read(topic, start=sink.restrict([topic]))
        return sum(1 for _ in itertools.islice(read, BEHIND_MAX))

    # ---- why it may differ

    def _caveats(self, plan: Plan, progress: Progress, inputs: Mapping[str, TopicDescription]) -> tuple[str, ...]:
        configs = {name: topic.configs for name, topic in inputs.items()}
        place = QueryPlace(self._options, str(self._checkpoint))
        query = PipelineQuery(self._spark, self._pipeline, self._schemas, place, self._log)
        try:
            changed = tuple(version_caveats(query, self._checkpoint))
        finally:
            query.close()
        return (
            *changed,
            *plan.caveats(),
            *table_caveats(self._log, self._pipeline, progress),
            *topic_caveats(configs, progress.inputs),
            _OTHER_VERSION,
        )


def _schemas(app: App, pipeline: Pipeline, log: Log) -> dict[str, TopicSchema]:
    """Of the pipeline's inputs: the declared schema, or the one that the log has."""
    schemas: dict[str, TopicSchema] = {}
    for topic in (*pipeline.streams, *pipeline.tables):
        if app.topics[topic.name].schema is not None:
            schemas[topic.name] = schema_of(topic.schema)
        elif (found := lookup(log, topic.name)) is not None:
            schemas[topic.name] = found.schema
    return schemas


def _up_to(end: Position, begins: Position) -> Position:
    """Where each partition ends; one that is newer than ``end``, or that retention has gone past, has nothing."""
    return Position({tp: max(end.get(tp, 0), offset) for tp, offset in begins.items()})


def _last(said: ProgressLog) -> Progress | None:
    try:
        return said.last()
    except UnknownTopicError:
        return None


def _published_watermark(log: Log, pipeline: str) -> tuple[datetime.datetime | None, str | None]:
    """The watermark in the pipeline's newest state record, and the input that holds it back, in words."""
    state = None
    try:
        for _, state in EntryReader(log, STATES_TOPIC, PipelineState.from_record, key=pipeline):  # noqa: B007 - the last
            pass
    except UnknownTopicError:
        return None, None
    if state is None:
        return None, None
    watermark = datetime.datetime.fromisoformat(state.watermark) if state.watermark else None
    return watermark, state.watermark_held_by


def _time(milliseconds: int | None) -> datetime.datetime | None:
    return None if milliseconds is None else datetime.datetime.fromtimestamp(milliseconds / 1_000, datetime.UTC)


def _tolerances(schema: TopicSchema) -> dict[str, float]:
    """Of each column with floating numbers in it, how far two of them may lie apart."""
    tolerances = {}
    for column in schema.columns:
        if "FLOAT" in column.type.upper():
            tolerances[column.name] = FLOAT_TOLERANCE
        elif "DOUBLE" in column.type.upper():
            tolerances[column.name] = DOUBLE_TOLERANCE
    return tolerances


def _not_to_be_judged(outcome: VerificationResult) -> str:
    keys = [difference.key or "" for topic in outcome.topics for difference in topic.differences]
    count = sum(topic.differing for topic in outcome.topics)
    return (
        f"pipeline {outcome.pipeline} cannot be verified: of its inputs the records before {outcome.begins} were "
        f"removed, and what it derives may rest on them; against the rest, {count:,} differ ({', '.join(keys[:3])}"
        f"{', …' if count > len(keys[:3]) else ''})"
    )
