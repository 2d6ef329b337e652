"""Records' JSON values into Arrow columns, in bulk, and the records whose values are none: **poison**.

What a value must be is decided here, once for every kind of view: UTF-8 text, one JSON object as DuckDB reads it, at
most 400 levels deep, and fit for the columns asked for. A key must be UTF-8 text of at most 60,000 bytes, which every
store can index. A null value is a tombstone. What many writers emit though it is no JSON is forgiven: a trailing comma
(it is taken out of the text that is kept), NaN and Infinity (they stay in it; ``rows.row_of`` answers them as null).

Invariant: the verdict on a record, and what is read from it, depend on that record alone, never on its neighbors; else
a replay, which cuts the log into other batches, could differ from the view.

The parsing is DuckDB's, in a private database in memory that never sees a user's SQL: it takes 1–3 µs for a value of
400 bytes, where Python's json takes 18. A batch in which every value is well takes one pass; only when one is not, a
second, careful pass finds out which and why. A batch of a few records spares the query where the answer is certain
(`views.json_few`). For one thread at a time.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from mainstem.json_depth import DEPTH_MAX, is_too_deep
from mainstem.views.json_few import KEY_BYTES_MAX, FewReader
from mainstem.views.store import Poison

_OBJECT = r"^[ \t\r\n]*\{"
_ERROR_CHARS_MAX = 300


@dataclass(frozen=True, slots=True)
class JsonColumn:
    """A field to read: its name in the object, the DuckDB type to read it as, whether it may be null or missing."""

    name: str
    type: str = "VARCHAR"
    nullable: bool = True


@dataclass(frozen=True, slots=True)
class ReadRecords:
    """The records that are well, in their order, and the others.

    Columns: ``key`` (string, where it is read), ``tombstone`` (bool), ``text`` (string: the JSON text without spaces,
    where asked for), ``row`` (a struct of the columns asked for, in their order), and the batch's own columns that were
    to be kept.
    """

    table: pa.Table
    poisons: list[Poison]


class JsonReader:
    """Reads ``columns`` of every value, and the whole text if ``text``; keeps the batch's columns named ``keep``.

    Not ``keyed``: a record's key does not matter, and is not read.
    """

    def __init__(
        self, columns: Sequence[JsonColumn], *, text: bool, keep: Sequence[str] = (), keyed: bool = True
    ) -> None:
        self._columns = tuple(columns)
        self._keep = tuple(keep)
        self._keyed = keyed
        self._connection = duckdb.connect(
            config={"threads": 1, "autoload_known_extensions": False, "autoinstall_known_extensions": False}
        )
        self._connection.execute("SET TimeZone = 'UTC'")
        structure = _literal(json.dumps({column.name: column.type for column in columns}))
        typed = any(column.type != "VARCHAR" for column in columns)
        self._fast = _fast_query(structure, text=text, columns=bool(columns), strict=typed)
        self._careful = _careful_query(structure, self._columns, text=text)
        self._few = FewReader(
            [(column.name, column.type, column.nullable) for column in columns],
            self._query(self._fast, pa.array([], pa.string())).schema.field("row").type if columns else None,
            text=text,
            keep=keep,
            keyed=keyed,
        )

    def read(self, arrow_batch: pa.RecordBatch) -> ReadRecords:
        """Read a batch with the columns key, value, partition and offset."""
        few = self._few.read(arrow_batch)
        return self._read_in_bulk(arrow_batch) if few is None else ReadRecords(few, [])

    def _read_in_bulk(self, arrow_batch: pa.RecordBatch) -> ReadRecords:
        values, value_errors = _as_text(arrow_batch.column("value"), "value")
        table, errors = self._parse(values)
        errors |= value_errors
        if self._keyed:
            keys, key_errors = _keys(arrow_batch.column("key"))
            errors |= key_errors
            table = table.append_column("key", keys)
        table = table.append_column("tombstone", pc.is_null(arrow_batch.column("value")))
        for name in self._keep:
            table = table.append_column(name, arrow_batch.column(name))
        if not errors:
            return ReadRecords(table, [])
        order = sorted(errors)
        poisons = [_poison(arrow_batch, index, errors[index]) for index in order]
        return ReadRecords(table.take(_all_but(len(table), order)), poisons)

    def read_values(self, values: pa.Array) -> tuple[pa.Array, dict[int, str]]:
        """What ``read`` reads of values alone: the structs of the columns, and index → error where one is poison."""
        texts, errors = _as_text(values, "value")
        parsed, parse_errors = self._parse(texts)
        return parsed.column("row").combine_chunks(), parse_errors | errors

    def close(self) -> None:
        """Free the memory. Idempotent."""
        self._connection.close()

    def _parse(self, values: pa.Array) -> tuple[pa.Table, dict[int, str]]:
        """The columns of every value, null where there is an error, and index → error."""
        try:
            table = self._query(self._fast, values)
            errors: dict[int, str] = {}
        except duckdb.Error:
            table = self._query(self._careful, values)
            errors = self._reasons(table, values)
        for index in _perhaps_too_deep(values):
            if is_too_deep(values[index].as_py()):
                errors.setdefault(index, f"the value is nested deeper than {DEPTH_MAX} levels")
        self._require(table, values, errors)
        return table.select([name for name in ("text", "row") if name in table.column_names]), errors

    def _query(self, query: str, values: pa.Array) -> pa.Table:
        self._connection.register("records", pa.table({"value": values}))
        try:
            return self._connection.sql(query).to_arrow_table()
        finally:
            self._connection.unregister("records")

    def _reasons(self, table: pa.Table, values: pa.Array) -> dict[int, str]:
        errors = {}
        wrong = pc.and_(pc.is_valid(values), pc.invert(pc.fill_null(table.column("valid"), False)))
        for index in pc.indices_nonzero(wrong).to_pylist():
            errors[index] = _json_error(values[index].as_py())
        for index in pc.indices_nonzero(pc.not_equal(table.column("misfits"), "")).to_pylist():
            errors.setdefault(index, f"the value does not fit its column: {table.column('misfits')[index]}")
        return errors

    def _require(self, table: pa.Table, values: pa.Array, errors: dict[int, str]) -> None:
        """Note what is no object, and what lacks a column that may not be null."""
        present = pc.is_valid(values)
        for index in pc.indices_nonzero(pc.invert(pc.match_substring_regex(values, _OBJECT))).to_pylist():
            errors.setdefault(index, "the value is JSON, but not an object")
        for number, column in enumerate(self._columns):
            if column.nullable:
                continue
            lacking = pc.and_(present, pc.is_null(pc.struct_field(table.column("row"), [number])))
            for index in pc.indices_nonzero(lacking).to_pylist():
                errors.setdefault(index, f"the field {column.name!r} is missing or null")


def last_of_each_key(table: pa.Table) -> pa.Table:
    """Only the last row of each ``key``, in the order of these rows."""
    numbered = table.select(["key"]).append_column("index", pa.array(range(len(table)), pa.int64()))
    last = numbered.group_by("key", use_threads=False).aggregate([("index", "max")]).column("index_max")
    return table if len(last) == len(table) else table.take(last.take(pc.sort_indices(last)))


def _fast_query(structure: str, *, text: bool, columns: bool, strict: bool) -> str:
    transform = "json_transform_strict" if strict else "json_transform"
    parts = []
    if text:
        parts.append("json(value)::VARCHAR AS text")
    if columns:
        parts.append(f"{transform}(value, {structure}) AS row")
    if not text and not columns:
        raise ValueError("nothing to read")
    return f"SELECT {', '.join(parts)} FROM records"


def _careful_query(structure: str, columns: Sequence[JsonColumn], *, text: bool) -> str:
    parts = ["valid"]
    if text:
        parts.append("CASE WHEN valid THEN json(value)::VARCHAR END AS text")
    if not columns:
        return f"SELECT {', '.join(parts)}, '' AS misfits FROM (SELECT value, json_valid(value) AS valid FROM records)"
    paths = ", ".join(_literal("$." + json.dumps(column.name, ensure_ascii=False)) for column in columns)
    inner = (
        f"SELECT {', '.join(parts)}, CASE WHEN valid THEN json_transform(value, {structure}) END AS row, "
        f"CASE WHEN valid THEN json_type(value, [{paths}]) END AS types "
        "FROM (SELECT value, json_valid(value) AS valid FROM records)"
    )
    misfits = ", ".join(
        f"CASE WHEN struct_extract_at(row, {number}) IS NULL AND types[{number}] <> 'NULL' "
        f"THEN {_literal(f'{column.name} is not {column.type}')} END"
        for number, column in enumerate(columns, start=1)
    )
    return f"SELECT *, concat_ws(', ', {misfits}) AS misfits FROM ({inner})"


def _keys(column: pa.Array) -> tuple[pa.Array, dict[int, str]]:
    """The keys as text, and index → error for those that are none."""
    keys, undecodable = _as_text(column, "key")
    errors: dict[int, str] = {}
    for index in pc.indices_nonzero(pc.is_null(keys)).to_pylist():
        errors[index] = "the record has no key"
    for index in pc.indices_nonzero(pc.greater(pc.binary_length(keys), KEY_BYTES_MAX)).to_pylist():
        errors[index] = f"the key is longer than {KEY_BYTES_MAX} bytes"
    return keys, errors | undecodable


def _as_text(column: pa.Array, what: str) -> tuple[pa.Array, dict[int, str]]:
    """``column`` as text, null where it is no UTF-8, and index → error for those."""
    try:
        return column.cast(pa.string()), {}
    except pa.ArrowInvalid:
        texts: list[str | None] = []
        errors: dict[int, str] = {}
        for index, data in enumerate(column.to_pylist()):
            try:
                texts.append(None if data is None else data.decode())
            except UnicodeDecodeError as error:
                texts.append(None)
                errors[index] = f"the {what} is not UTF-8 text: {error.reason} at byte {error.start}"
        return pa.array(texts, pa.string()), errors


def _perhaps_too_deep(values: pa.Array) -> list[int]:
    """Where so many brackets open that the nesting may be too deep."""
    if (pc.max(pc.binary_length(values)).as_py() or 0) <= 2 * DEPTH_MAX:
        return []
    brackets = pc.add(pc.count_substring(values, "{"), pc.count_substring(values, "["))
    found: list[int] = pc.indices_nonzero(pc.greater(brackets, DEPTH_MAX)).to_pylist()
    return found


def _json_error(text: str) -> str:
    """What is wrong with a text that DuckDB does not take for JSON, in the words of Python's parser."""
    try:
        json.loads(text)
    except (ValueError, RecursionError) as error:
        return f"the value is not JSON: {error}"[:_ERROR_CHARS_MAX]
    return "the value is not JSON: it has a lone surrogate"


def _poison(arrow_batch: pa.RecordBatch, index: int, error: str) -> Poison:
    def cell(name: str) -> Any:
        return arrow_batch.column(name)[index].as_py()

    return Poison(cell("partition"), cell("offset"), cell("key"), cell("value"), error)


def _all_but(count: int, left_out: Sequence[int]) -> pa.Array:
    out = frozenset(left_out)
    return pa.array([index for index in range(count) if index not in out], pa.int64())


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
