"""Records' JSON values into Arrow columns, in bulk, and the records whose values do not fit: **poison**.

The rules for a value are the same for every kind of view, and for every other reader (`schema.json_columns`): UTF-8
text, one JSON object at most 400 levels deep, and fit for the columns asked for. A key must be UTF-8 text of at most
60,000 bytes, which every store can index. A null value is a tombstone. Two things are forgiven that many writers emit:
a trailing comma (it is taken out of the text that is kept), NaN and Infinity (they stay in it; ``rows.row_of`` answers
them as null).

Invariant: the verdict on a record, and what is read from it, depend on that record alone, never on its neighbors; else
a replay, which cuts the log into other batches, could differ from the view. ``READING_VERSION`` says how values are
read: a store that another version has filled may differ from what a replay would give, and is built again.

Safe from any thread.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mainstem.record.native.native_json import GOOD
from mainstem.schema.arrow import value_type
from mainstem.schema.json_columns import NO_VALUE, JsonColumns, JsonField, compact_texts, decode, reason
from mainstem.views.stores.store import KEY_ERROR, VALUE_ERROR, Poison, ReadRecords

READING_VERSION: Final = 2
KEY_BYTES_MAX: Final = 60_000
"""The longest key that every store can index."""


@dataclass(frozen=True, slots=True)
class JsonColumn:
    """A field to read: its name in the object, its type in Spark SQL, whether it may be null or missing.

    A nested value is read as its JSON text, and BINARY as its base64 text, after its parts were checked.
    """

    name: str
    type: str = "STRING"
    nullable: bool = True


class JsonReader:
    """Reads ``columns`` of every value, and the whole text if ``text``; keeps the batch's columns named ``keep``.

    Not ``keyed``: a record's key does not matter, and is not read.
    """

    def __init__(
        self, columns: Sequence[JsonColumn], *, text: bool, keep: Sequence[str] = (), keyed: bool = True
    ) -> None:
        self._columns = tuple(columns)
        self._fields = [JsonField(column.name, value_type(column.type), as_text=True) for column in columns]
        self._text = text
        self._keep = tuple(keep)
        self._keyed = keyed

    def read(self, arrow_batch: pa.RecordBatch) -> ReadRecords:
        """Read a batch with the columns key, value, partition and offset: the records that are well, in their order.

        Columns: ``key`` (string, where it is read), ``tombstone`` (bool), ``text`` (string: the JSON text without
        spaces, where asked for), ``row`` (a struct of the columns asked for, in their order), and the batch's own
        columns that were to be kept.
        """
        values = arrow_batch.column("value")
        decoded = decode(values, self._fields)
        errors = self._errors(decoded, values) | _errors_in(arrow_batch, VALUE_ERROR)
        made: dict[str, pa.Array] = {}
        if self._text:
            made["text"] = compact_texts(decoded)
        if self._columns:
            made["row"] = self._rows(decoded)
        if self._keyed:
            made["key"], key_errors = _keys(arrow_batch.column("key"))
            errors |= key_errors | _errors_in(arrow_batch, KEY_ERROR)
        made["tombstone"] = pc.is_null(values)
        table = pa.table({**made, **{name: arrow_batch.column(name) for name in self._keep}})
        if not errors:
            return ReadRecords(table, [])
        order = sorted(errors)
        poisons = [_poison(arrow_batch, index, errors[index]) for index in order]
        return ReadRecords(table.take(_all_but(len(table), order)), poisons)

    def read_values(self, values: pa.Array) -> tuple[pa.Array, dict[int, str]]:
        """The structs of the columns of values alone, and index → error where one would be poison."""
        decoded = decode(values, self._fields)
        return self._rows(decoded), self._errors(decoded, values)

    def _rows(self, decoded: JsonColumns) -> pa.Array:
        arrays = [column.array for column in decoded.columns]
        fields = [pa.field(column.name, array.type) for column, array in zip(self._columns, arrays, strict=True)]
        mask = None if decoded.all_good else pa.array(decoded.verdicts != GOOD)
        return pa.StructArray.from_arrays(arrays, fields=fields, mask=mask)

    def _errors(self, decoded: JsonColumns, values: pa.Array) -> dict[int, str]:
        errors = {}
        for index in np.flatnonzero((decoded.verdicts != GOOD) & (decoded.verdicts != NO_VALUE)).tolist():
            errors[index] = reason(values[index].as_py(), decoded.verdicts[index])
        misfits: dict[int, list[str]] = {}
        for number, column in enumerate(self._columns):
            found = decoded.columns[number]
            if found.misfits is not None:
                for index in np.flatnonzero(found.misfits).tolist():
                    said = f"{column.name} is not {column.type} but {decoded.shown(number, index)}"
                    misfits.setdefault(index, []).append(said)
            if not column.nullable and found.array.null_count:
                lacking = np.asarray(found.array.is_null()) & (decoded.verdicts == GOOD)
                for index in np.flatnonzero(lacking).tolist():
                    errors.setdefault(index, f"the field {column.name!r} is missing or null")
        for index, said_of in misfits.items():
            errors[index] = f"the value does not fit its column: {', '.join(said_of)}"
        return errors


def _errors_in(arrow_batch: pa.RecordBatch, name: str) -> dict[int, str]:
    """Index → error of the keys or values that could not be read by their schemas."""
    if name not in arrow_batch.schema.names:
        return {}
    errors = arrow_batch.column(name)
    return {index: errors[index].as_py() for index in pc.indices_nonzero(pc.is_valid(errors)).to_pylist()}


def last_of_each_key(table: pa.Table) -> pa.Table:
    """Only the last row of each ``key``, in the order of these rows."""
    numbered = table.select(["key"]).append_column("index", pa.array(range(len(table)), pa.int64()))
    last = numbered.group_by("key", use_threads=False).aggregate([("index", "max")]).column("index_max")
    return table if len(last) == len(table) else table.take(last.take(pc.sort_indices(last)))


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


def _poison(arrow_batch: pa.RecordBatch, index: int, error: str) -> Poison:
    def cell(name: str) -> Any:
        return arrow_batch.column(name)[index].as_py()

    return Poison(cell("partition"), cell("offset"), cell("key"), cell("value"), error)


def _all_but(count: int, left_out: Sequence[int]) -> pa.Array:
    out = frozenset(left_out)
    return pa.array([index for index in range(count) if index not in out], pa.int64())
