"""Compares a batch's records with those of the topics, in Spark: neither side needs to fit into memory.

1. Both sides become rows of (topic's number, key, value), counted: one shuffle, whose result is kept on disk.
2. Equal rows are dropped. The rest is grouped by key and judged in tasks (``comparison_rules``). Records without a key
   are grouped by all columns except floating ones: only records that differ in floating columns alone have to fit into
   a task's memory together.
3. The driver gets counts, and the first of the differences.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from mainstem.spark.sink.outputs import Output, records_of
from mainstem.spark.verification.comparison_rules import ComparedKey, ComparisonRules, DifferenceKind, Rule, Side
from mainstem.spark.verification.encoded_records import values_as_json

_SIDE: Final = "whose INT, key BINARY, value BINARY, expected INT, actual INT, partition INT, offset BIGINT"
_JUDGED: Final = (
    "whose INT, key BINARY, finding STRING, expected BINARY, actual BINARY, partition INT, offset BIGINT, count BIGINT"
)
_JUDGED_ARROW: Final = pa.schema(
    [
        ("whose", pa.int32()),
        ("key", pa.binary()),
        ("finding", pa.string()),
        ("expected", pa.binary()),
        ("actual", pa.binary()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("count", pa.int64()),
    ]
)


@dataclass(frozen=True, slots=True)
class Compared:
    """The findings about one topic: ``expected`` and ``actual`` are how many records (or keys) there are."""

    expected: int
    actual: int
    counts: Mapping[DifferenceKind, int]
    examples: tuple[tuple[bytes | None, ComparedKey], ...]


def expected_rows(frame: DataFrame, outputs: Sequence[Output]) -> DataFrame:
    """The records that the rows of ``combined`` become, as tasks encode them; those of encoded topics as JSON."""
    return frame.mapInArrow(functools.partial(_encoded, outputs=tuple(outputs)), _SIDE)


def actual_rows(records: DataFrame, whose: int, rule: Rule) -> DataFrame:
    """The records of a topic, or of each key the latest value that is none of a deleted row."""
    if rule is Rule.LATEST:
        last = sf.max_by(sf.struct("value", "offset", "timestamp"), "offset").alias("last")
        records = records.groupBy("key", "partition").agg(last)  # the order within a partition is certain
        last = sf.max_by(sf.struct("last.value", "last.offset", "partition"), "last.timestamp").alias("last")
        records = records.groupBy("key").agg(last).select("key", "last.*").where("value IS NOT NULL")
    return records.select(
        sf.lit(whose).alias("whose"),
        "key",
        "value",
        sf.lit(0).alias("expected"),
        sf.lit(1).alias("actual"),
        "partition",
        "offset",
    )


def compare(
    expected: DataFrame, actual: Sequence[DataFrame], terms: Sequence[ComparisonRules], limit: int
) -> list[Compared]:
    """The findings about each topic, with at most ``limit`` examples of differences each."""
    sides = functools.reduce(DataFrame.union, actual, expected)
    first = sf.min(sf.when(sf.col("actual") > 0, sf.struct("partition", "offset"))).alias("first")
    counted = (
        sides.groupBy("whose", "key", "value")
        .agg(sf.sum("expected").alias("expected"), sf.sum("actual").alias("actual"), first)
        .persist(StorageLevel.DISK_ONLY)
    )
    judged = _judged(counted, terms).persist(StorageLevel.DISK_ONLY)
    try:
        totals = _totals(counted)
        found: list[dict[DifferenceKind, int]] = [{} for _ in terms]
        for row in judged.groupBy("whose", "finding").agg(sf.sum("count").alias("n")).collect():
            found[row.whose][DifferenceKind(row.finding)] = row.n
        return [
            Compared(*totals.get(whose, {}).get(each.rule, (0, 0)), found[whose], _examples(judged, whose, limit))
            for whose, each in enumerate(terms)
        ]
    finally:
        judged.unpersist()
        counted.unpersist()


def _totals(counted: DataFrame) -> dict[int, dict[Rule, tuple[int, int]]]:
    """Of each topic how many records there are, and how many keys, on both sides."""
    rows = counted.groupBy("whose").agg(
        sf.sum("expected").alias("expected"),
        sf.sum("actual").alias("actual"),
        sf.count_distinct(sf.when(sf.col("expected") > 0, sf.coalesce("key", sf.lit(b"")))).alias("keys"),
    )
    return {
        row.whose: {Rule.MULTISET: (row.expected, row.actual), Rule.LATEST: (row["keys"], row.actual)}
        for row in rows.collect()
    }


def _judged(counted: DataFrame, terms: Sequence[ComparisonRules]) -> DataFrame:
    latest = [whose for whose, each in enumerate(terms) if each.rule is Rule.LATEST]
    is_latest = sf.col("whose").isin(latest) if latest else sf.lit(False)
    side = sf.struct("value", "expected", "actual", "first")
    is_met = (sf.col("expected") > 0) & (sf.col("actual") > 0)
    by_key = (
        counted.where(is_latest | (sf.col("expected") != sf.col("actual")))
        .groupBy("whose", "key", _likeness(terms).alias("likeness"))
        .agg(sf.collect_list(side).alias("sides"), sf.max(is_met).alias("is_met"))
        .where(~(is_latest & sf.col("is_met")))
    )
    return by_key.select("whose", "key", "sides").mapInArrow(functools.partial(_judge, terms=tuple(terms)), _JUDGED)


def _likeness(terms: Sequence[ComparisonRules]) -> Column:
    """By what records without a key are gathered; null for those with one."""
    whole, columns = sf.md5("value"), sf.lit(None).cast("string")
    for whose, each in enumerate(terms):
        if each.rule is not Rule.MULTISET:
            continue
        shape = sf.udf(each.shape, "string")("value") if each.tolerances else whole
        columns = sf.when((sf.col("whose") == whose) & sf.col("key").isNull(), shape).otherwise(columns)
    return columns


def _examples(judged: DataFrame, whose: int, limit: int) -> tuple[tuple[bytes | None, ComparedKey], ...]:
    differences = [finding.value for finding in DifferenceKind if finding.is_difference]
    rows = judged.where((sf.col("whose") == whose) & sf.col("finding").isin(differences))
    return tuple(
        (
            _bytes(row.key),
            ComparedKey(
                DifferenceKind(row.finding),
                _bytes(row.expected),
                _bytes(row.actual),
                row.partition,
                row.offset,
                row["count"],
            ),
        )
        for row in rows.orderBy("key", "partition", "offset", "expected").limit(limit).collect()
    )


def _bytes(value: bytearray | None) -> bytes | None:
    """Spark gives binary columns as what can be changed."""
    return None if value is None else bytes(value)


def _encoded(batches: Iterator[pa.RecordBatch], *, outputs: tuple[Output, ...]) -> Iterator[pa.RecordBatch]:
    """Runs in tasks."""
    numbers = {output.topic: number for number, output in enumerate(outputs)}
    for arrow_batch in batches:
        if not arrow_batch.num_rows:
            continue
        for topic, rows in records_of(arrow_batch, outputs):
            count = len(rows.values)
            encoder = outputs[numbers[topic]].encoder
            values = rows.values if encoder is None else values_as_json(rows.values, encoder)
            keys = pa.nulls(count, pa.binary()) if rows.keys is None else rows.keys.cast(pa.binary())
            yield pa.RecordBatch.from_arrays(
                [
                    pa.array([numbers[topic]] * count, pa.int32()),
                    keys,
                    values.cast(pa.binary()),
                    pa.array([1] * count, pa.int32()),
                    pa.array([0] * count, pa.int32()),
                    pa.nulls(count, pa.int32()),
                    pa.nulls(count, pa.int64()),
                ],
                names=["whose", "key", "value", "expected", "actual", "partition", "offset"],
            )


def _judge(batches: Iterator[pa.RecordBatch], *, terms: tuple[ComparisonRules, ...]) -> Iterator[pa.RecordBatch]:
    """Runs in tasks."""
    for arrow_batch in batches:
        found = []
        for row in arrow_batch.to_pylist():
            sides = [_side(side) for side in row["sides"]]
            for one in terms[row["whose"]].judge(row["key"], sides):
                place = {"partition": one.partition, "offset": one.offset, "count": one.count}
                values = {"expected": one.expected, "actual": one.actual}
                found.append({"whose": row["whose"], "key": row["key"], "finding": str(one.finding), **values, **place})
        yield pa.RecordBatch.from_pylist(found, schema=_JUDGED_ARROW)


def _side(row: dict[str, object]) -> Side:
    first = row["first"]
    place = (first["partition"], first["offset"]) if isinstance(first, dict) else (None, None)
    return Side(row["value"], row["expected"], row["actual"], *place)  # type: ignore[arg-type]
