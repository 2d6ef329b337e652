"""What ``load`` asks of a file, and the columns that it adds: encoded rows, key and value bytes.

Every format is one class with the same three members: ``columns`` (known after ``check``), ``check`` (reads what it
must to find errors before anything is written) and ``encoded`` (yields rows as bytes). Pure functions beside that.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from mainstem.connectors.json_text import json_objects, key_texts, keys
from mainstem.errors import InputError, SchemaError
from mainstem.schema.types import TopicSchema

_PLACE = re.compile(r"\{([^{}]+)\}")


class EncodedRows(NamedTuple):
    """A run of rows as they will be appended, columns of text or bytes, and how far the reading is."""

    keys: pa.Array | None
    values: pa.Array
    bytes_read: int
    bytes_total: int


class Reading(Protocol):
    """How far the reading of a file is."""

    @property
    def bytes_read(self) -> int: ...

    @property
    def total_bytes(self) -> int: ...


class RowsFile(Protocol):
    """One file's rows."""

    columns: tuple[str, ...]

    def check(self, schema: TopicSchema | None) -> None:
        """Find what is wrong with the file before anything is written. Raises SchemaError, which names the row."""
        ...

    def encoded(self, key: Sequence[str], derived: Mapping[str, str]) -> Iterator[EncodedRows]:
        """All rows in the file's order. Raises SchemaError for a row without its key."""
        ...


def encode_batch(
    batch: pa.RecordBatch, reading: Reading, key: Sequence[str], derived: Mapping[str, str], *, first_row: int
) -> EncodedRows:
    """Add the derived columns, and encode."""
    for name, template in derived.items():
        batch = batch.append_column(name, fill(template, batch, first_row))
    return EncodedRows(
        keys(batch, key, first_row=first_row), json_objects(batch), reading.bytes_read, reading.total_bytes
    )


def pieces_of(template: str) -> list[str]:
    """Text, column, text, column, …, text of a template such as ``{carrier}-{flight}``.

    Raises InputError when it names no column.
    """
    pieces = _PLACE.split(template)
    if len(pieces) == 1 or any("{" in text or "}" in text for text in pieces[::2]):
        raise InputError(f"{template!r} is no template; write column names in braces, e.g. {{carrier}}-{{flight}}")
    return pieces


def fill(template: str, batch: pa.RecordBatch, first_row: int) -> pa.Array:
    """The template filled from each row. Raises SchemaError when a value that it needs is null."""
    parts = [
        piece if index % 2 == 0 else key_texts(batch, piece, first_row)
        for index, piece in enumerate(pieces_of(template))
    ]
    return pc.binary_join_element_wise(*parts, "")


def check_columns(path: str, columns: Sequence[str], wanted: Mapping[str, Sequence[str]]) -> None:
    """Raise SchemaError when a column that is ``wanted`` (what for → names) is not among ``columns``."""
    for purpose, names in wanted.items():
        missing = [name for name in names if name not in columns]
        if missing:
            raise SchemaError(
                f"{path} has no column {', '.join(map(repr, missing))}, which {purpose}; it has {', '.join(columns)}"
            )
