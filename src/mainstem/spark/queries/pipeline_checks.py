"""Calls a pipeline's function and checks its result, before any query runs.

Each error is a DefinitionError that names the file and the line. Owned by the thread of the runner.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, types

from mainstem.errors import DefinitionError, MainstemError
from mainstem.pipelines.definitions import Pipeline, Topic
from mainstem.schema.infer import schema_of
from mainstem.schema.types import RESERVED_NAMES, TopicSchema
from mainstem.spark.schemas import topic_schema

_TEXT = (types.StringType, types.VarcharType, types.CharType)
# A column of text reads these back as JSON, or as Spark's text for them.
_AS_TEXT = (
    types.ArrayType,
    types.MapType,
    types.StructType,
    types.VariantType,
    types.DayTimeIntervalType,
    types.YearMonthIntervalType,
)
# Each type can be written as any later one.
_WIDER = (types.ByteType, types.ShortType, types.IntegerType, types.LongType)


def call(pipeline: Pipeline, frames: Sequence[DataFrame], *, streaming: bool = True) -> tuple[DataFrame, ...]:
    """Call the pipeline's function; returns one DataFrame for each output, all streaming if ``streaming``.

    Raises DefinitionError.
    """
    try:
        result = pipeline.function(*frames)
    except MainstemError:
        raise
    except Exception as error:
        line = line_in(pipeline.function, error) or pipeline.where
        name = pipeline.function.__name__
        raise DefinitionError(
            f"{line}: {name} (pipeline {pipeline.name}): {type(error).__name__}: {_first_line(error)}"
        ) from error
    several = len(pipeline.outputs) > 1
    results = tuple(result) if several and isinstance(result, tuple | list) else (result,)
    if several and len(results) != len(pipeline.outputs):
        topics = ", ".join(topic.name for topic in pipeline.outputs)
        raise DefinitionError(
            f"{pipeline.where}: pipeline {pipeline.name} must return a DataFrame for each of {topics}, in this order, "
            f"not {_described(result)}"
        )
    for frame in results:
        _check_streams(pipeline, frame, streaming=streaming)
    return results


def schemas_of(pipeline: Pipeline, frames: Sequence[DataFrame]) -> dict[str, TopicSchema]:
    """Topic → its schema. A declared schema wins, and the DataFrame must fit it. Raises DefinitionError."""
    found = {}
    for topic, frame in zip(pipeline.outputs, frames, strict=True):
        derived = types.StructType([field for field in frame.schema.fields if field.name.lower() not in RESERVED_NAMES])
        try:
            schema = topic_schema(derived)
        except MainstemError as error:
            raise DefinitionError(f"{pipeline.where}: pipeline {pipeline.name}, topic {topic.name}: {error}") from error
        _check_key(pipeline, topic, schema)
        if topic.schema is not None:
            schema = schema_of(topic.schema)
            _check_fits(pipeline, topic, derived, schema)
        found[topic.name] = schema
    return found


def check_mode(pipeline: Pipeline, frame: DataFrame) -> None:
    """Raise DefinitionError when Spark cannot run ``frame`` in the pipeline's output mode."""
    jvm = frame.sparkSession._jvm
    assert jvm is not None
    modes = jvm.org.apache.spark.sql.streaming.OutputMode
    mode = {"append": modes.Append, "update": modes.Update, "complete": modes.Complete}[pipeline.mode]()
    checker = jvm.org.apache.spark.sql.catalyst.analysis.UnsupportedOperationChecker
    try:
        checker.checkForStreaming(frame._jdf.queryExecution().analyzed(), mode)
    except AnalysisException as error:
        said = _first_line(error)
        raise DefinitionError(
            f'{pipeline.where}: pipeline {pipeline.name} cannot run with mode="{pipeline.mode}": {said}{_advice(said)}'
        ) from error


def line_in(function: Callable[..., object], error: BaseException) -> str | None:
    """The innermost line of the traceback that is in the file of ``function``, as ``file:line``; None without one."""
    file = function.__code__.co_filename
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == file]
    return f"{file}:{lines[-1]}" if lines else None


def _advice(said: str) -> str:
    if "aggregations without watermark" in said:
        return (
            '; declare the pipeline with mode="update" and a key, or say by withWatermark how late rows may be and '
            "group by a window of that time"
        )
    if said.startswith("Stream-stream"):
        return "; give both sides withWatermark, and the join a condition that bounds how far apart their times are"
    if said.startswith("Sorting"):
        return "; a topic has no order but that of its records: leave the sorting to a view"
    return ""


def _check_streams(pipeline: Pipeline, frame: object, *, streaming: bool) -> None:
    if not isinstance(frame, DataFrame):
        raise DefinitionError(
            f"{pipeline.where}: pipeline {pipeline.name} must return a DataFrame, not {_described(frame)}"
        )
    if streaming and not frame.isStreaming:
        raise DefinitionError(f"{pipeline.where}: the result of pipeline {pipeline.name} does not come from its stream")
    names = [name.lower() for name in frame.columns if name.lower() not in RESERVED_NAMES]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise DefinitionError(
            f"{pipeline.where}: the result of pipeline {pipeline.name} has the column {', '.join(twice)} twice; rename "
            "or drop one of them"
        )


def _described(result: object) -> str:
    return f"{len(result)} results" if isinstance(result, tuple | list) else type(result).__name__


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [""])[0].rstrip(";")


def _check_key(pipeline: Pipeline, topic: Topic, schema: TopicSchema) -> None:
    missing = [name for name in topic.key if name not in schema.names]
    if missing:
        raise DefinitionError(
            f"{pipeline.where}: the key of {topic.name} is {', '.join(topic.key)}, but pipeline "
            f"{pipeline.name} gives no {', '.join(missing)}; it gives {', '.join(schema.names)}"
        )


def _check_fits(pipeline: Pipeline, topic: Topic, derived: types.StructType, declared: TopicSchema) -> None:
    """The DataFrame must have exactly the declared columns, with types whose values the declared types can hold."""
    parsed = types.StructType.fromDDL(declared.ddl_text())
    assert isinstance(parsed, types.StructType)
    wanted = {field.name: field.dataType for field in parsed.fields}
    given = {field.name: field.dataType for field in derived.fields}
    wrong = [f"{name} is missing" for name in wanted if name not in given]
    wrong += [f"{name} is not declared" for name in given if name not in wanted]
    wrong += [
        f"{name} is {kind.simpleString().upper()}, declared {wanted[name].simpleString().upper()}"
        for name, kind in given.items()
        if name in wanted and not _holds(wanted[name], kind)
    ]
    if wrong:
        raise DefinitionError(
            f"{pipeline.where}: what pipeline {pipeline.name} gives does not fit the schema of {topic.name} "
            f"({topic.where}): {'; '.join(wrong)}"
        )


def _holds(wanted: types.DataType, given: types.DataType) -> bool:
    """Whether values of type ``given``, written as JSON, can be read as ``wanted``. Every type can read null."""
    if isinstance(given, types.NullType):
        return True
    if isinstance(wanted, _TEXT):
        return isinstance(given, (*_TEXT, *_AS_TEXT))
    if isinstance(wanted, types.ArrayType) and isinstance(given, types.ArrayType):
        return _holds(wanted.elementType, given.elementType)
    if isinstance(wanted, types.MapType) and isinstance(given, types.MapType):
        return _holds(wanted.keyType, given.keyType) and _holds(wanted.valueType, given.valueType)
    if isinstance(wanted, types.StructType) and isinstance(given, types.StructType):
        same_names = wanted.fieldNames() == given.fieldNames()
        return same_names and all(
            _holds(one.dataType, other.dataType) for one, other in zip(wanted.fields, given.fields, strict=True)
        )
    if isinstance(wanted, types.DecimalType) and isinstance(given, types.DecimalType):
        whole = wanted.precision - wanted.scale
        return whole >= given.precision - given.scale and wanted.scale >= given.scale
    if type(wanted) in _WIDER and type(given) in _WIDER:
        return _WIDER.index(type(wanted)) >= _WIDER.index(type(given))
    return type(wanted) is type(given) or (isinstance(wanted, types.DoubleType) and isinstance(given, types.FloatType))
