"""Records as rows of a foreign database's table, and which records cannot be rows: **poison**.

A value is read as in every view (`views.stores.json_reader`). The database adds bounds: text without the character
U+0000 for some, and keys that an index can hold. Where key columns of the topic are the primary key, the record's key
must be the one that these columns of its value make, so that key and row name each other; a tombstone's key is read
back into them.

Invariant: the verdict on a record depends on that record alone, as in every view. Rows come in the order of their keys,
so that two writers of a table lock its rows in the same order. Pure functions; safe from any thread.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from mainstem.schema.arrow import value_type
from mainstem.schema.arrow_json import joint_key, lone_key
from mainstem.schema.json_columns import JsonField, decode
from mainstem.views.stores.json_reader import JsonReader, last_of_each_key
from mainstem.views.stores.store import Poison, ReadRecords
from mainstem.views.stores.table.table_columns import SinkColumn, SinkColumns

DELETED: Final = "deleted"
"""The column beside those of the table: whether the row shall be deleted."""
_ORIGIN: Final = ("partition", "offset", "value")
_NO_NUMBER: Final = r"(?i)nan|inf"
_STRING_OR_NO_NUMBER: Final = re.compile(r'"(?:[^"\\]|\\.)*"|-?(?:nan|inf(?:inity)?)', re.DOTALL | re.IGNORECASE)


class RowReader:
    """Reads records as rows of one table."""

    def __init__(self, columns: SinkColumns) -> None:
        self._columns = columns
        self._reader = JsonReader(columns.fields, text=not columns.has_schema, keep=_ORIGIN)

    def read(self, arrow_batch: pa.RecordBatch) -> ReadRecords:
        """A row for each record of a batch that can be one, in order; of the columns key, value, partition and offset.

        A row has ``deleted``, the table's columns by their numbers (``cell``), and key, value, partition and offset of
        the record.
        """
        read = self._reader.read(arrow_batch)
        table = read.table.combine_chunks()
        cells = self._cells(table)
        errors = self._errors(table, cells)
        made = pa.table(
            {
                "key": table.column("key"),
                DELETED: table.column("tombstone"),
                **{cell(number): column for number, column in enumerate(cells)},
                **{name: table.column(name) for name in _ORIGIN},
            }
        )
        poisons = [*read.poisons, *(poison_of(made, index, error) for index, error in errors.items())]
        return ReadRecords(made.take(_others(len(made), errors)) if errors else made, sorted(poisons, key=_place))

    def read_key(self, key: str) -> list[Any] | None:
        """The values of the primary key in the row of a record's key; None where it is the key of no row."""
        if "\0" in key:
            return None
        if self._columns.has_own_key:
            return [key]
        cells = self._read_keys(pa.array([key], pa.string()))
        if any(column.null_count for column in cells):
            return None
        made = lone_key(cells[0]) if len(cells) == 1 else joint_key(cells)
        return [column[0].as_py() for column in cells] if made[0].as_py() == key else None

    def _cells(self, table: pa.Table) -> list[pa.Array]:
        """The table's columns: of the value, and for a tombstone those that its key makes."""
        keys = _only(table, "key")
        if not self._columns.has_schema:
            return [keys, _json(_only(table, "text"))]
        made: list[pa.Array] = _only(table, "row").flatten()
        if self._columns.has_own_key:
            return [keys, *made]
        tombstones = pc.indices_nonzero(_only(table, "tombstone"))
        if len(tombstones):
            read = self._read_keys(keys.take(tombstones))
            for number, cells in zip(self._columns.key_numbers, read, strict=True):
                made[number] = _replaced(made[number], tombstones, cells)
        return made

    def _read_keys(self, keys: pa.Array) -> list[pa.Array]:
        """The key columns that keys were made of; null where a key is another thing."""
        columns = self._columns.key_columns
        if len(columns) == 1 and columns[0].type == "STRING":
            return [keys]
        objects = pa.array([_object(columns, key).encode() for key in keys.to_pylist()], pa.binary())
        fields = [JsonField(column.name, value_type(column.type)) for column in columns]
        return [column.array for column in decode(objects, fields).columns]

    def _errors(self, table: pa.Table, cells: Sequence[pa.Array]) -> dict[int, str]:
        errors: dict[int, str] = {}
        keys = _only(table, "key")
        if not self._columns.has_own_key:
            errors |= self._other_keys(keys, _only(table, "tombstone"), cells)
        dialect = self._columns.dialect
        for index in where(pc.greater(pc.binary_length(keys), dialect.key_bytes_max)):
            bytes_max = f"{dialect.key_bytes_max} bytes, which an index of {dialect.product} may not hold"
            errors[index] = f"the key is longer than {bytes_max}"
        return errors | dialect.faults(self._columns, cells)

    def _other_keys(self, keys: pa.Array, tombstones: pa.Array, cells: Sequence[pa.Array]) -> dict[int, str]:
        """The records whose key is not the one that their key columns make."""
        columns = [cells[number] for number in self._columns.key_numbers]
        is_read = columns[0].is_valid()
        for column in columns[1:]:
            is_read = pc.and_(is_read, column.is_valid())
        read = [column.filter(is_read) for column in columns]
        same = pc.equal(lone_key(read[0]) if len(read) == 1 else joint_key(read), keys.filter(is_read))
        wrong = where(pc.invert(is_read))
        if not pc.all(same).as_py():
            wrong += pc.indices_nonzero(is_read).take(pc.indices_nonzero(pc.invert(same))).to_pylist()
        names = ", ".join(self._columns.key)
        return {
            index: f"the key {keys[index].as_py()!r} cannot be read as {names}"
            if tombstones[index].as_py()
            else f"the key {keys[index].as_py()!r} is not the one that {names} of the value make"
            for index in wrong
        }


def cell(number: int) -> str:
    """The name of the table's column of that number among rows: the topic's own names may be any."""
    return f"c{number}"


def latest(rows: pa.Table) -> pa.Table:
    """The last row of each key, in the order of the keys' bytes."""
    rows = last_of_each_key(rows)
    return rows.take(pc.sort_indices(rows.column("key").cast(pa.binary())))


def poison_of(rows: pa.Table, index: int, error: str) -> Poison:
    """The record of the row at ``index`` as poison."""
    partition, offset, key, value = (rows.column(n)[index].as_py() for n in ("partition", "offset", "key", "value"))
    return Poison(partition, offset, key.encode(), value, error)


def cell_columns(rows: pa.Table, columns: SinkColumns) -> list[pa.ChunkedArray]:
    """The table's columns of rows, as every product takes them: bytes as such, decimals as text, times in UTC."""
    return [_written(rows.column(cell(number)), column) for number, column in enumerate(columns.columns)]


def _written(column: pa.ChunkedArray, of: SinkColumn) -> pa.ChunkedArray:
    if of.type == "BINARY":
        cells = [None if text is None else base64.b64decode(text) for text in column.to_pylist()]
        return pa.chunked_array([pa.array(cells, pa.binary())])
    if of.is_json:
        return _json(column)
    return column.cast(pa.string()) if pa.types.is_decimal(column.type) else column


def _json(texts: Any) -> Any:
    """JSON texts without NaN and Infinity, which views forgive and databases do not: they are null."""
    if not pc.any(pc.match_substring_regex(texts, _NO_NUMBER)).as_py():
        return texts
    return pa.array([None if text is None else _strict(text) for text in texts.to_pylist()], pa.string())


def _strict(text: str) -> str:
    return _STRING_OR_NO_NUMBER.sub(lambda found: found[0] if found[0].startswith('"') else "null", text)


def _object(columns: Sequence[SinkColumn], key: str) -> str:
    """A JSON object of key columns, as text; one that reads as null where the key cannot be theirs."""
    if len(columns) == 1:
        [column] = columns
        return f"{{{json.dumps(column.name)}: {json.dumps(key) if column.type == 'DATE' else key}}}"
    try:
        values = json.loads(key)
    except (ValueError, RecursionError):
        return "{}"
    if not isinstance(values, list) or len(values) != len(columns):
        return "{}"
    return json.dumps({column.name: value for column, value in zip(columns, values, strict=True)})


def _replaced(column: pa.Array, indices: pa.Array, cells: pa.Array) -> pa.Array:
    mask = pa.array([False] * len(column), pa.bool_()).to_numpy(zero_copy_only=False)
    mask[indices.to_numpy()] = True
    return pc.replace_with_mask(column, pa.array(mask), cells.cast(column.type))


def _others(count: int, left_out: Mapping[int, str]) -> pa.Array:
    return pa.array([index for index in range(count) if index not in left_out], pa.int64())


def _place(poison: Poison) -> tuple[int, int]:
    return poison.partition, poison.offset


def _only(table: pa.Table, name: str) -> pa.Array:
    column = table.column(name)
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def where(truths: pa.Array) -> list[int]:
    """The indices of what is true."""
    found: list[int] = pc.indices_nonzero(truths).to_pylist()
    return found
