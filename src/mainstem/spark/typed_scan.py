"""A task's reading of typed columns: a stream of a topic's rows, or a topic as a table.

A tombstone is no row. A value that is no JSON object is, by ``mode`` (Spark's words): a row of nulls (PERMISSIVE), left
out and counted on standard error (DROPMALFORMED), or an error that names its offset (FAILFAST).

**Tables**: the latest value of each key, up to an end offset. What a worker process has read of a table it keeps, up
to ``KEPT_BYTES_MAX``, and reads only what was appended since; so a small table costs a micro-batch next to nothing.
The cache belongs to one thread: Spark runs one task at a time in a worker process.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from mainstem.client.wire.cluster import WireClient
from mainstem.errors import SchemaError
from mainstem.model import TopicPartition
from mainstem.spark.columns import PLACE_COLUMNS
from mainstem.spark.json_decode import decode_json
from mainstem.spark.ranges import OffsetRange
from mainstem.spark.scan import ScanOptions, read_range

KEPT_BYTES_MAX = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class TypedOptions:
    """``schema``: the columns of the rows, those of ``PLACE_COLUMNS`` among them where they are asked for."""

    schema: pa.Schema
    mode: str
    scan: ScanOptions

    @property
    def value_schema(self) -> pa.Schema:
        return pa.schema([field for field in self.schema if field.name not in PLACE_COLUMNS])


def read_rows(client: WireClient, wanted: OffsetRange, options: TypedOptions) -> Iterator[pa.RecordBatch]:
    """The rows of the range's records, in order."""
    place = {name: column for name, column in PLACE_COLUMNS.items() if name in options.schema.names}
    columns = frozenset({"value", "offset", *place.values()})
    for records in read_range(client, wanted, replace(options.scan, columns=columns)):
        yield _rows(records, place, options, wanted.topic_partition)


def _rows(
    records: pa.RecordBatch, place: dict[str, str], options: TypedOptions, topic_partition: TopicPartition
) -> pa.RecordBatch:
    if records.column("value").null_count:
        records = records.filter(pc.is_valid(records.column("value")))
    decoded = decode_json(records.column("value"), options.value_schema)
    values = dict(zip(options.value_schema.names, decoded.arrow_batch.columns, strict=True))
    columns = [records.column(place[name]) if name in place else values[name] for name in options.schema.names]
    rows = pa.RecordBatch.from_arrays(columns, schema=options.schema)
    if decoded.is_object is None or options.mode == "PERMISSIVE":
        return rows
    return _without_malformed(rows, decoded.is_object, records.column("offset"), options.mode, topic_partition)


def _without_malformed(
    rows: pa.RecordBatch, is_object: pa.Array, offsets: pa.Array, mode: str, topic_partition: TopicPartition
) -> pa.RecordBatch:
    malformed = offsets.filter(pc.invert(is_object))
    if len(malformed) == 0:
        return rows
    said = f"{topic_partition}: the value at offset {malformed[0]} is no JSON object"
    if mode == "FAILFAST":
        raise SchemaError(f"{said}; set mode to PERMISSIVE or DROPMALFORMED to go on")
    print(f"mainstem: {said}; left out, {len(malformed)} in all here", file=sys.stderr)  # noqa: T201 - a worker's voice
    return rows.filter(is_object)


@dataclass(slots=True)
class _Kept:
    """The latest record of each key before ``next_offset``, tombstones left out: their keys and rows, side by side."""

    next_offset: int
    keys: pa.Array
    rows: pa.RecordBatch


_KEPT: dict[tuple[str, TopicPartition, str], _Kept] = {}


def read_table(client: WireClient, life: str, wanted: OffsetRange, options: TypedOptions) -> Iterator[pa.RecordBatch]:
    """The latest value of each key of the partition before the range's end. ``life`` is the topic's id."""
    identity = (life, wanted.topic_partition, str(options.schema))
    kept = _KEPT.get(identity)
    if kept is None or kept.next_offset > wanted.end:  # an earlier micro-batch is run again: it needs the table of then
        kept = _Kept(wanted.start, pa.array([], pa.binary()), _no_rows(options.schema))
    if kept.next_offset < wanted.end:
        kept = _brought_up(kept, client, wanted, options)
        _keep(identity, kept)
    yield kept.rows


def _no_rows(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([], field.type) for field in schema], schema=schema)


def _keep(identity: tuple[str, TopicPartition, str], kept: _Kept) -> None:
    _KEPT.pop(identity, None)
    held = sum(entry.rows.nbytes + entry.keys.nbytes for entry in _KEPT.values())
    if held + kept.rows.nbytes + kept.keys.nbytes <= KEPT_BYTES_MAX:
        _KEPT[identity] = kept


def _brought_up(kept: _Kept, client: WireClient, wanted: OffsetRange, options: TypedOptions) -> _Kept:
    missing = OffsetRange(wanted.topic_partition, kept.next_offset, wanted.end)
    columns = frozenset(
        {"key", "value", "offset", *(PLACE_COLUMNS[n] for n in options.schema.names if n in PLACE_COLUMNS)}
    )
    scanned = list(read_range(client, missing, replace(options.scan, columns=columns)))
    if not scanned:
        return _Kept(wanted.end, kept.keys, kept.rows)
    latest = _latest(pa.Table.from_batches(scanned).combine_chunks().to_batches()[0])
    is_replaced = pc.is_in(kept.keys, latest.column("key"))
    place = {name: column for name, column in PLACE_COLUMNS.items() if name in options.schema.names}
    alive = latest.filter(pc.is_valid(latest.column("value")))
    strict = replace(options, mode="PERMISSIVE" if options.mode == "DROPMALFORMED" else options.mode)
    rows = _rows(alive, place, strict, wanted.topic_partition)
    return _Kept(
        wanted.end,
        pa.concat_arrays([kept.keys.filter(pc.invert(is_replaced)), alive.column("key")]),
        pa.concat_batches([kept.rows.filter(pc.invert(is_replaced)), rows]),
    )


def _latest(records: pa.RecordBatch) -> pa.RecordBatch:
    """The last record of each key; a record without a key belongs to no table."""
    numbered = pa.table({"key": records.column("key"), "row": pa.array(range(records.num_rows), pa.int64())})
    rows = numbered.group_by("key", use_threads=False).aggregate([("row", "max")])
    last: Any = rows.filter(pc.is_valid(rows.column("key"))).column("row_max").combine_chunks()
    return records.take(last.take(pc.sort_indices(last)))
