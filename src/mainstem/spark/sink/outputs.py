"""A pipeline's outputs as one DataFrame, and how a task turns its rows into the records of each topic.

All outputs of a pipeline are one streaming query, so they share each micro-batch, its offsets and its commit decision.
A single output is the DataFrame that the function returned. Several outputs become their union: the column ``_output``
names the output of a row, whose columns are the fields of ``_0``, ``_1``, …; the structs of the others are null.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from mainstem.client.dead_letter_headers import dead_letter_headers
from mainstem.record.arrow_source import HEADERS
from mainstem.spark.options.columns import quoted
from mainstem.spark.sink.task_appender import Rows
from mainstem.spark.tasks.json_encode import encode_keys, encode_values

if TYPE_CHECKING:
    from mainstem.encodings.key_encoder import KeyEncoder
    from mainstem.encodings.value_encoder import ValueEncoder

_WHOSE = "_output"


@dataclass(frozen=True, slots=True)
class Output:
    """A topic that tasks write to. The values of ``json_columns`` are JSON text already.

    ``dead_letters`` is the topic for rows that cannot be records of the topic; with None these rows are dropped.
    ``encoder`` writes the values; without it they are JSON. ``key_encoder`` writes the keys; without it they are text.
    """

    topic: str
    key: tuple[str, ...]
    json_columns: frozenset[str]
    dead_letters: str | None = None
    encoder: ValueEncoder | None = None
    key_encoder: KeyEncoder | None = None


def combined(frames: Sequence[DataFrame]) -> DataFrame:
    """One DataFrame for a query to run, from the DataFrames of all outputs."""
    if len(frames) == 1:
        return frames[0]
    return functools.reduce(DataFrame.union, (_tagged(frames, number) for number in range(len(frames))))


def _tagged(frames: Sequence[DataFrame], number: int) -> DataFrame:
    columns = [sf.lit(number).alias(_WHOSE)]
    for other, frame in enumerate(frames):
        if other == number:
            fields = sf.struct(*(frame[quoted(name)] for name in frame.columns))
        else:
            fields = sf.lit(None).cast(frame.schema)
        columns.append(fields.alias(f"_{other}"))
    return frames[number].select(*columns)


def records_of(arrow_batch: pa.RecordBatch, outputs: Sequence[Output]) -> Iterator[tuple[str, Rows]]:
    """Turn rows of ``combined`` into records: pairs of a topic and its records, for each output with rows.

    A row with a null in its key cannot be found again by key, and some rows have no form in the topic's encoding. Such
    a row becomes a record of ``dead_letters``, without a key; the record's headers name the topic and the error.
    """
    if len(outputs) == 1:
        yield from _records(arrow_batch, outputs[0])
        return
    whose = arrow_batch.column(_WHOSE)
    for number in pc.unique(whose).to_pylist():
        rows = arrow_batch.column(f"_{number}").filter(pc.equal(whose, number))
        yield from _records(pa.RecordBatch.from_struct_array(rows), outputs[number])


def _records(arrow_batch: pa.RecordBatch, output: Output) -> Iterator[tuple[str, Rows]]:
    nulls = [name for name in output.key if arrow_batch.column(name).null_count]
    if nulls:
        is_whole = functools.reduce(pc.and_, (arrow_batch.column(name).is_valid() for name in nulls))
        reason = f"the key column {' or '.join(nulls)} is null"
        yield from _dead_letters(arrow_batch.filter(pc.invert(is_whole)), output, reason)
        arrow_batch = arrow_batch.filter(is_whole)
    if not arrow_batch.num_rows:
        return
    if output.encoder is None:
        values = encode_values(arrow_batch, json_columns=output.json_columns)
    else:
        values, kept, refused = output.encoder.encode_some(arrow_batch, output.json_columns)
        for rows, reason in refused:
            yield from _dead_letters(arrow_batch.filter(pa.array(rows)), output, reason)
        arrow_batch = arrow_batch.filter(pa.array(kept)) if refused else arrow_batch
    if arrow_batch.num_rows:
        encoder = output.key_encoder
        keys = encode_keys(arrow_batch, output.key) if encoder is None else encoder.encode(arrow_batch)
        headers = None if output.encoder is None else output.encoder.headers_column(arrow_batch.num_rows)
        yield output.topic, Rows(values, keys, headers)


def _dead_letters(refused: pa.RecordBatch, output: Output, reason: str) -> Iterator[tuple[str, Rows]]:
    if output.dead_letters is None or not refused.num_rows:
        return
    headers = [{"key": name, "value": value} for name, value in dead_letter_headers(reason, output.topic)]
    values = encode_values(refused, json_columns=output.json_columns)
    yield output.dead_letters, Rows(values, headers=pa.array([headers] * refused.num_rows, HEADERS))
