"""The interface of file formats for ``load``, and the columns that it adds: encoded rows, key and value bytes.

Every format is one class with the same three members: ``columns`` (known after ``check``), ``check`` (reads the whole
file, to find errors before anything is written) and ``encoded`` (yields rows as bytes).

Invariant: ``encoded`` yields every row of a file that ``check`` accepted, unless the file changes in between. A load
that fails in the middle leaves its rows in the topic, and the repaired file, which is another load, would append them
again. All else are pure functions.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from mainstem.connectors.json_text import json_objects, key_column, key_texts, keys, source_column
from mainstem.errors import InputError, SchemaError
from mainstem.schema.types import TopicSchema

_PLACE = re.compile(r"\{([^{}]+)\}")


class EncodedRows(NamedTuple):
    """A run of rows as they will be appended, columns of text or bytes, and how far the reading is."""

    keys: pa.Array | None
    values: pa.Array
    bytes_read: int
    bytes_total: int
    headers: pa.Array | None = None


class Reading(Protocol):
    """How far the reading of a file is."""

    @property
    def bytes_read(self) -> int: ...

    @property
    def total_bytes(self) -> int: ...


@dataclass(frozen=True, slots=True)
class Wanted:
    """The columns that a file's rows must have: the topic's schema, the key's columns, and derived columns."""

    schema: TopicSchema | None = None
    key: Sequence[str] = ()
    derived: Mapping[str, str] = field(default_factory=dict)
    is_complete: bool = False
    """Whether the schema has to have all columns: an encoded topic has no place for others."""

    def check_names(self, path: object, columns: Sequence[str]) -> None:
        """Raise SchemaError when the file's columns are not all that is needed; InputError for a bad template."""
        twice = [name for name in self.derived if name in columns]
        if twice:
            raise SchemaError(f"{path} has a column {twice[0]!r} already; give the derived one another name")
        all_columns = (*columns, *self.derived)
        named = {name for template in self.derived.values() for name in pieces_of(template)[1::2]}
        _check_columns(path, columns, "a derived column needs", sorted(named))
        _check_columns(path, all_columns, "is the key", self.key)
        if self.schema is not None:
            _check_columns(path, all_columns, "the topic's schema asks for", self.schema.names)
            others = sorted(set(all_columns) - set(self.schema.names)) if self.is_complete else []
            if others:
                raise SchemaError(
                    f"{path} has a column {others[0]!r}, which the schema of the topic lacks, and the topic is "
                    "encoded by that schema: add the column to the topic, or leave it out of the file"
                )


class RowsFile(Protocol):
    """One file's rows."""

    columns: tuple[str, ...]

    def check(self, wanted: Wanted) -> None:
        """Find what is wrong with the file before anything is written. Raises SchemaError, which names the row."""
        ...

    def encoded(self, key: Sequence[str], derived: Mapping[str, str]) -> Iterator[EncodedRows]:
        """All rows in the file's order. Raises SchemaError for what ``check`` would have found."""
        ...


def encode_batch(
    batch: pa.RecordBatch, reading: Reading, key: Sequence[str], derived: Mapping[str, str], *, first_row: int
) -> EncodedRows:
    """Add the derived columns, and encode. Raises SchemaError, which names the row."""
    batch = with_derived(batch, derived, first_row)
    return EncodedRows(
        keys(batch, key, first_row=first_row), json_objects(batch), reading.bytes_read, reading.total_bytes
    )


def require_values(batch: pa.RecordBatch, wanted: Wanted, *, first_row: int) -> None:
    """Raise SchemaError where a key's column, or one that another is derived of, is null."""
    for template in wanted.derived.values():
        for name in pieces_of(template)[1::2]:
            source_column(batch, name, first_row)
    for name in wanted.key:
        if name not in wanted.derived:
            key_column(batch, name, first_row)


def check_batch(batch: pa.RecordBatch, key: Sequence[str], derived: Mapping[str, str], *, first_row: int) -> None:
    """Raise SchemaError for a value that ``encode_batch`` cannot encode. Types that always have a JSON form pass."""
    try:
        batch = with_derived(batch, derived, first_row)
        keys(batch, key, first_row=first_row)
    except pa.ArrowException as error:  # more text in a run of rows than an array holds, for one
        last = first_row + batch.num_rows - 1
        raise SchemaError(f"rows {first_row} to {last}: the key cannot be made: {_line_of(error)}") from error
    for at, each in enumerate(batch.schema):
        if not _always_encodes(each.type):
            _require_json(batch.select([at]), first_row)


def _require_json(column: pa.RecordBatch, first_row: int) -> None:
    """Raise SchemaError for the first value of a batch of one column that has no JSON form."""
    reason = _why_not_json(column)
    if reason is None:
        return
    while column.num_rows > 1:
        half = column.num_rows // 2
        if _why_not_json(column.slice(0, half)) is not None:
            column = column.slice(0, half)
        elif _why_not_json(column.slice(half)) is not None:
            column, first_row = column.slice(half), first_row + half
        else:
            break  # only together: more text than an array holds
    last = first_row + column.num_rows - 1
    rows = f"row {first_row}" if last == first_row else f"rows {first_row} to {last}"
    raise SchemaError(f"{rows}: column {column.schema.names[0]!r}: a value has no JSON form: {reason}")


def _why_not_json(column: pa.RecordBatch) -> str | None:
    try:
        json_objects(column)
    except (SchemaError, pa.ArrowException) as error:
        return _line_of(error)
    return None


def _line_of(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


def with_derived(batch: pa.RecordBatch, derived: Mapping[str, str], first_row: int) -> pa.RecordBatch:
    """The batch with its derived columns. Raises SchemaError when a value that one needs is null."""
    for name, template in derived.items():
        batch = batch.append_column(name, fill(template, batch, first_row))
    return batch


def _always_encodes(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_integer(kind) or pa.types.is_boolean(kind))


def pieces_of(template: str) -> list[str]:
    """Text, column, text, column, …, text of a template such as ``{carrier}-{flight}``.

    Raises InputError when it names no column.
    """
    pieces = _PLACE.split(template)
    if len(pieces) == 1 or any("{" in text or "}" in text for text in pieces[::2]):
        raise InputError(f"invalid template {template!r}: write column names in braces, e.g. {{carrier}}-{{flight}}")
    return pieces


def fill(template: str, batch: pa.RecordBatch, first_row: int) -> pa.Array:
    """The template filled from each row. Raises SchemaError when a value that it needs is null."""
    parts = [
        piece if index % 2 == 0 else key_texts(batch, piece, first_row)
        for index, piece in enumerate(pieces_of(template))
    ]
    return pc.binary_join_element_wise(*parts, "")


def _check_columns(path: object, columns: Sequence[str], purpose: str, names: Sequence[str]) -> None:
    missing = [name for name in names if name not in columns]
    if missing:
        raise SchemaError(
            f"{path} has no column {', '.join(map(repr, missing))}, which {purpose}; it has {', '.join(columns)}"
        )
