"""A task's reading of typed columns: a stream of a topic's rows, or a topic as a table.

A tombstone gives no row. A value that does not parse is, by ``mode`` (Spark's words): a row of nulls (PERMISSIVE), left
out and counted on standard error (DROPMALFORMED), or an error that names its offset (FAILFAST). With ``dead_letters``
it is left out and appended to that topic, before the rows after it are given. A field that does not fit its column is
null, whatever the mode. The column ``corrupt``, where it is among those of ``schema``, has the text of a value that did
not parse or fit, and is null elsewhere; without it, standard error names the partition, the columns and an offset, once
a minute for each partition and worker process.

**Tables**: the latest value of each key, up to an end offset. A worker process keeps the tables that it has read, up to
``KEPT_BYTES_MAX``, and reads only the records appended since. So a small table costs a micro-batch next to nothing.
Records are folded into the table as they are read: memory grows with the table, not with the topic's history. The cache
belongs to one thread: Spark runs one task at a time in a worker process.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from mainstem.client.wire.cluster.cluster import WireClient
from mainstem.encodings.frames import with_frames
from mainstem.errors import SchemaError
from mainstem.model import TopicPartition
from mainstem.schema.json_rows import DecodedRows, JsonDecoder
from mainstem.spark.options.columns import PLACE_COLUMNS
from mainstem.spark.tasks.dead_letters import bury
from mainstem.spark.tasks.ranges import OffsetRange
from mainstem.spark.tasks.scan import ScanOptions, read_range

KEPT_BYTES_MAX = 64 * 1024 * 1024
_FOLD_BYTES: Final = 64 * 1024 * 1024
_PART_BYTES_MAX: Final = 1024 * 1024 * 1024
_SAID_EVERY_S: Final = 60.0
_LETTER_COLUMNS = frozenset({"key", "value", "headers", "offset", "timestamp"})


class ValueDecoder(Protocol):
    """How values become columns."""

    @property
    def refusal(self) -> str:
        """The message about a value that gave no row."""

    @property
    def reads_headers(self) -> bool:
        """Whether a schema's id may be in a header: it is then put in front of the value."""

    def decode(self, values: pa.Array, schema: pa.Schema) -> DecodedRows:
        """A row for each value, none of which is null."""

    def reason(self, value: bytes) -> str:
        """Why a value that gave no row did not."""


class KeyTextReader(Protocol):
    """How encoded keys become text."""

    def with_texts(self, records: pa.RecordBatch) -> pa.RecordBatch:
        """The records, which have headers, with their keys as text."""


@dataclass(frozen=True, slots=True)
class TypedOptions:
    """``schema``: the columns of the rows, ``corrupt`` and those of ``PLACE_COLUMNS`` where they are asked for."""

    schema: pa.Schema
    mode: str
    scan: ScanOptions
    corrupt: str | None = None
    dead_letters: str | None = None
    decoder: ValueDecoder = field(default_factory=JsonDecoder)
    keys: KeyTextReader | None = None

    @property
    def value_schema(self) -> pa.Schema:
        beside = {*PLACE_COLUMNS, self.corrupt}
        return pa.schema([field for field in self.schema if field.name not in beside])


def read_rows(
    client: WireClient, wanted: OffsetRange, options: TypedOptions
) -> Generator[pa.RecordBatch, None, Mapping[str, int]]:
    """The rows of the range's records, in order. Returns how many values became null, by column."""
    nulled = Counter[str]()
    place = {name: column for name, column in PLACE_COLUMNS.items() if name in options.schema.names}
    columns = frozenset({"value", "offset", *place.values(), *_with_headers(options)})
    for records in read_range(client, wanted, replace(options.scan, columns=columns)):
        rows, malformed, misfits = _rows(records, place, options, wanted.topic_partition)
        nulled.update(misfits)
        if malformed is not None and options.mode != "PERMISSIVE":
            rows = rows.filter(pc.invert(malformed))
            _set_aside(client, _alive(records).filter(malformed), options, wanted.topic_partition)
        yield rows
    return nulled


def _with_headers(options: TypedOptions) -> tuple[str, ...]:
    return ("headers",) if options.decoder.reads_headers else ()


def _values(records: pa.RecordBatch, options: TypedOptions) -> pa.Array:
    """The values, each after the frame from its headers."""
    values = records.column("value")
    return with_frames(values, records.column("headers")) if options.decoder.reads_headers else values


def _alive(records: pa.RecordBatch) -> pa.RecordBatch:
    values = records.column("value")
    return records.filter(pc.is_valid(values)) if values.null_count else records


def _rows(
    records: pa.RecordBatch, place: dict[str, str], options: TypedOptions, tp: TopicPartition
) -> tuple[pa.RecordBatch, pa.Array | None, Mapping[str, int]]:
    """The rows of the records that are not tombstones, which of them did not parse (None: all did), and how many of
    their values became null, by column.
    """
    records = _alive(records)
    decoded = options.decoder.decode(_values(records, options), options.value_schema)
    columns = dict(zip(options.value_schema.names, decoded.arrow_batch.columns, strict=True))
    columns |= {name: records.column(column) for name, column in place.items()}
    if options.corrupt in options.schema.names:
        columns[options.corrupt] = _corrupt_texts(records.column("value"), decoded.fits)
    elif decoded.fits is not None:
        _note_misfits(records, decoded, tp)
    rows = pa.RecordBatch.from_arrays([columns[name] for name in options.schema.names], schema=options.schema)
    if decoded.is_object is None or pc.all(decoded.is_object).as_py():
        return rows, None, decoded.misfits
    return rows, pc.invert(decoded.is_object), decoded.misfits


def _corrupt_texts(values: pa.Array, fits: pa.Array | None) -> pa.Array:
    if fits is None:
        return pa.nulls(len(values), pa.string())
    pairs = zip(values.to_pylist(), fits.to_pylist(), strict=True)
    return pa.array([None if fit else value.decode("utf-8", "replace") for value, fit in pairs], pa.string())


@dataclass(slots=True)
class _Misfits:
    """Records of a partition with values that became null, since this process last reported them."""

    records: int = 0
    said_s: float = float("-inf")


_MISFITS: dict[TopicPartition, _Misfits] = {}


def _note_misfits(records: pa.RecordBatch, decoded: DecodedRows, tp: TopicPartition) -> None:
    """Report values that became null because they do not fit their columns, and where one of them lies."""
    rows = pc.indices_nonzero(pc.and_not(decoded.is_object, decoded.fits))
    if not len(rows):
        return
    noted = _MISFITS.setdefault(tp, _Misfits())
    noted.records += len(rows)
    now_s = time.monotonic()
    if now_s - noted.said_s < _SAID_EVERY_S:
        return
    columns = f" ({', '.join(decoded.misfits)})" if decoded.misfits else ""
    offset = records.column("offset")[rows[0].as_py()]
    said = f"{tp}: records with values that do not fit their columns{columns} and are null: {noted.records}"
    print(f"mainstem: {said}; one is at offset {offset}", file=sys.stderr)  # noqa: T201 - a worker's voice
    _MISFITS[tp] = _Misfits(said_s=now_s)


def _set_aside(client: WireClient, malformed: pa.RecordBatch, options: TypedOptions, tp: TopicPartition) -> None:
    """Do with records that did not parse what the options say, other than to make rows of them."""
    offsets = malformed.column("offset").to_pylist()
    said = f"{tp}: the value at offset {offsets[0]} {options.decoder.refusal}"
    if options.mode == "FAILFAST":
        raise SchemaError(f"{said}; set mode to PERMISSIVE or DROPMALFORMED to go on")
    if options.dead_letters is not None and options.dead_letters != tp.topic:  # or one letter would make the next
        bury(client, options.dead_letters, tp, _letters(client, offsets, options, tp))
        said += f", now in {options.dead_letters}"
    print(f"mainstem: {said}; left out, {len(offsets)} in all here", file=sys.stderr)  # noqa: T201 - a worker's voice


def _letters(client: WireClient, offsets: list[int], options: TypedOptions, tp: TopicPartition) -> list[dict[str, Any]]:
    """The whole records at these offsets, read once more, each with what is wrong with it."""
    scan = replace(options.scan, columns=_LETTER_COLUMNS)
    wanted, letters = set(offsets), []
    for records in read_range(client, OffsetRange(tp, offsets[0], offsets[-1] + 1), scan):
        chosen = records.filter(pc.is_in(records.column("offset"), pa.array(sorted(wanted), pa.int64())))
        framed = _values(chosen, options).to_pylist()
        letters += [
            {**row, "error": options.decoder.reason(value)}
            for row, value in zip(chosen.to_pylist(), framed, strict=True)
        ]
    return letters


class _Part(NamedTuple):
    """Keys and their rows, side by side, few enough for one Arrow array of each (which end at 2 GiB)."""

    keys: pa.Array
    rows: pa.RecordBatch

    @property
    def nbytes(self) -> int:
        return int(self.keys.nbytes + self.rows.nbytes)


@dataclass(slots=True)
class _Kept:
    """The latest record of each key before ``next_offset``, tombstones left out; no key is in two parts."""

    next_offset: int
    parts: list[_Part]

    @property
    def nbytes(self) -> int:
        return sum(part.nbytes for part in self.parts)


_KEPT: dict[tuple[str, TopicPartition, str], _Kept] = {}


def read_table(
    client: WireClient, topic_id: str, wanted: OffsetRange, options: TypedOptions
) -> Iterator[pa.RecordBatch]:
    """The latest value of each key of the partition before the range's end."""
    identity = (topic_id, wanted.topic_partition, f"{options.decoder!r} {options.keys!r} {options.schema}")
    kept = _KEPT.get(identity)
    if kept is None or kept.next_offset > wanted.end:  # an earlier micro-batch is run again: it needs the table of then
        kept = _Kept(wanted.start, [])
    if kept.next_offset < wanted.end:
        kept = _brought_up(kept, client, wanted, options)
        _keep(identity, kept)
    yield from (part.rows for part in kept.parts)


def _keep(identity: tuple[str, TopicPartition, str], kept: _Kept) -> None:
    _KEPT.pop(identity, None)
    if sum(entry.nbytes for entry in _KEPT.values()) + kept.nbytes <= KEPT_BYTES_MAX:
        _KEPT[identity] = kept


def _brought_up(kept: _Kept, client: WireClient, wanted: OffsetRange, options: TypedOptions) -> _Kept:
    missing = OffsetRange(wanted.topic_partition, kept.next_offset, wanted.end)
    place = (PLACE_COLUMNS[name] for name in options.schema.names if name in PLACE_COLUMNS)
    columns = frozenset({"key", "value", "offset", *place, *_with_headers(options)})
    if options.keys is not None:
        columns |= {"headers"}
    parts = kept.parts
    for records in _in_folds(read_range(client, missing, replace(options.scan, columns=columns))):
        if options.keys is not None:
            records = options.keys.with_texts(records)
        parts = _folded(parts, _latest(records), client, options, wanted.topic_partition)
    return _Kept(wanted.end, parts)


def _in_folds(scanned: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same records in fewer batches, of some ``_FOLD_BYTES`` each: what is in memory beside the table."""
    waiting: list[pa.RecordBatch] = []
    size = 0
    for records in scanned:
        waiting.append(records)
        size += records.nbytes
        if size >= _FOLD_BYTES:
            yield pa.concat_batches(waiting)
            waiting, size = [], 0
    if waiting:
        yield pa.concat_batches(waiting)


def _folded(
    parts: list[_Part], latest: pa.RecordBatch, client: WireClient, options: TypedOptions, tp: TopicPartition
) -> list[_Part]:
    """The table with later records, one a key, in it."""
    place = {name: column for name, column in PLACE_COLUMNS.items() if name in options.schema.names}
    alive = _alive(latest)
    rows, malformed, _ = _rows(alive, place, options, tp)
    if malformed is not None and options.mode == "FAILFAST":
        _set_aside(client, alive.filter(malformed), options, tp)
    folded: list[_Part] = []
    for part in (*(_without(part, latest.column("key")) for part in parts), _Part(alive.column("key"), rows)):
        if folded and folded[-1].nbytes + part.nbytes <= _PART_BYTES_MAX:
            last = folded.pop()
            part = _Part(pa.concat_arrays([last.keys, part.keys]), pa.concat_batches([last.rows, part.rows]))
        folded.append(part)
    return folded


def _without(part: _Part, keys: pa.Array) -> _Part:
    is_left = pc.invert(pc.is_in(part.keys, keys))
    return _Part(part.keys.filter(is_left), part.rows.filter(is_left))


def _latest(records: pa.RecordBatch) -> pa.RecordBatch:
    """The last record of each key; a record without a key belongs to no table."""
    numbered = pa.table({"key": records.column("key"), "row": pa.array(range(records.num_rows), pa.int64())})
    rows = numbered.group_by("key", use_threads=False).aggregate([("row", "max")])
    last: Any = rows.filter(pc.is_valid(rows.column("key"))).column("row_max").combine_chunks()
    return records.take(last.take(pc.sort_indices(last)))
