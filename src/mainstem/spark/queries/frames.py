"""Topics as typed DataFrames: ``stream``, ``table`` and ``part``, thin helpers over the data source."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from mainstem.model import OnDamaged, Position
from mainstem.schema.infer import schema_of
from mainstem.spark.options.options import BOOTSTRAP, REGISTERED
from mainstem.spark.source import register_source


def stream(
    spark: SparkSession, bootstrap: str, topic: str, schema: Any = None, options: Mapping[str, str] | None = None
) -> DataFrame:
    """The topic's rows as an endless DataFrame, from the earliest on unless an option says otherwise.

    ``schema``: a dataclass, a pydantic model, DDL, or None for the registered schema. It skips a value that is not a
    JSON object and writes a line to standard error. The option ``deadLetterTopic`` names a topic for such records.
    """
    defaults = {"startingOffsets": "earliest", "mode": "DROPMALFORMED"}
    return _load(spark.readStream, spark, {**defaults, **_topic(bootstrap, topic, schema), **(options or {})})


def table(
    spark: SparkSession,
    bootstrap: str,
    topic: str,
    schema: Any = None,
    options: Mapping[str, str] | None = None,
    *,
    is_small: bool = True,
) -> DataFrame:
    """The latest value of each of the topic's keys. ``is_small``: Spark may send it whole to every task that joins."""
    frame = _load(spark.read, spark, {"table": "true", **_topic(bootstrap, topic, schema), **(options or {})})
    return sf.broadcast(frame) if is_small else frame


def part(
    spark: SparkSession,
    bootstrap: str,
    end: Position,
    schema: Any = None,
    *,
    as_table: bool = False,
    columns: Sequence[str] = (),
    on_damaged: OnDamaged = "stop",
    encodings: tuple[str | None, str | None] = (None, None),
) -> DataFrame:
    """A topic's content from its oldest record up to ``end``; with a schema its rows, else its records.

    ``as_table``: the latest value of each key at ``end``. ``columns``: which columns of the records to read, all if
    empty. ``on_damaged``: whether to stop at unreadable records or to skip them. ``encodings``: of the topic's values
    and keys.
    """
    numbers: dict[str, dict[str, int]] = {}
    for tp, offset in end.items():
        numbers.setdefault(tp.topic, {})[str(tp.partition)] = offset
    assigned = {topic: [int(number) for number in offsets] for topic, offsets in numbers.items()}
    options = {BOOTSTRAP: bootstrap, "assign": json.dumps(assigned), "endingOffsets": json.dumps(numbers)}
    options["onDamaged"] = on_damaged
    if not columns and schema is None:
        options["includeHeaders"] = "true"
    if columns:
        options["columns"] = ",".join(columns)
    if schema is not None:
        how = {"table": "true"} if as_table else {"mode": "DROPMALFORMED"}
        options |= {"valueSchema": schema_of(schema).ddl_text(), **how, **formats(*encodings)}
    return _load(spark.read, spark, options)


def formats(encoding: str | None, key_encoding: str | None) -> dict[str, str]:
    """The options of a topic whose values or keys are encoded; nothing for plain JSON and text."""
    given = {"valueFormat": encoding, "keyFormat": key_encoding}
    return {name: form for name, form in given.items() if form is not None}


def _topic(bootstrap: str, topic: str, schema: Any) -> dict[str, str]:
    ddl = REGISTERED if schema is None else schema_of(schema).ddl_text()
    return {BOOTSTRAP: bootstrap, "subscribe": topic, "valueSchema": ddl}


def _load(reader: Any, spark: SparkSession, options: Mapping[str, str]) -> DataFrame:
    register_source(spark)
    for name, value in options.items():
        reader = reader.option(name, value)
    frame: DataFrame = reader.format("mainstem").load()
    return frame
