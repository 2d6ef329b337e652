"""JSON lines: one JSON object a line. The text of a line is kept as it is, so nothing in it can be lost on the way.

The file is read twice: the first pass finds every line that is no JSON object, or lacks its key or what a derived
column needs, before anything has been written. Lines that are empty are passed over. One thread uses one reader.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import pyarrow as pa

from mainstem.client.values import key_bytes
from mainstem.connectors.sources import Source, open_source
from mainstem.connectors.tables import EncodedRows, Wanted, pieces_of
from mainstem.errors import SchemaError
from mainstem.schema.encoding import encode_key, encode_value

_RUN_LINES = 10_000
_LINE_BYTES_MAX = 64 << 20


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant)


@dataclass
class JsonLinesFile:
    """A file of JSON lines; ``columns`` are those of its first line after ``check``."""

    path: Path
    columns: tuple[str, ...] = ()

    def check(self, wanted: Wanted) -> None:
        """Read the file once: every line is a JSON object with its key and every column that may not be null."""
        required = [column.name for column in wanted.schema.columns if not column.nullable] if wanted.schema else []
        with open_source(self.path) as source:
            for number, text, row in self._rows(source):
                if not self.columns:
                    self.columns = tuple(row)
                    wanted.check_names(self.path, self.columns)
                for name in required:
                    if row.get(name) is None and name not in wanted.derived:
                        raise SchemaError(f"{self.path}: line {number} has no {name!r}, which its schema requires")
                self._record(number, text, row, wanted.key, wanted.derived)
        if not self.columns:
            wanted.check_names(self.path, self.columns)

    def encoded(self, key: Sequence[str], derived: Mapping[str, str]) -> Iterator[EncodedRows]:
        """All lines as they stand (derived columns appended), in the file's order."""
        keys: list[bytes] = []
        values: list[bytes] = []
        with open_source(self.path) as source:
            for number, text, row in self._rows(source):
                row_key, value = self._record(number, text, row, key, derived)
                if row_key is not None:
                    keys.append(row_key)
                values.append(value)
                if len(values) == _RUN_LINES:
                    yield _encoded(keys if key else None, values, source)
                    keys, values = [], []
            yield _encoded(keys if key else None, values, source)

    def _record(
        self, number: int, text: bytes, row: dict[str, Any], key: Sequence[str], derived: Mapping[str, str]
    ) -> tuple[bytes | None, bytes]:
        """A line's key and value; its derived columns are put into ``row``."""
        try:
            row.update({name: _fill(template, row) for name, template in derived.items()})
            return encode_key(row, key), (encode_value(row) or b"") if derived else text
        except SchemaError as error:
            raise SchemaError(f"{self.path}: line {number}: {error}") from error
        except UnicodeEncodeError as error:  # half of a surrogate pair, which JSON can name and UTF-8 cannot hold
            raise SchemaError(f"{self.path}: line {number}: a value is not text that UTF-8 can hold") from error

    def _rows(self, source: Source) -> Iterator[tuple[int, bytes, dict[str, Any]]]:
        lines = io.BufferedReader(source.stream, 1 << 20)  # type: ignore[type-var]  # any readable stream will do
        number = 0
        while line := lines.readline(_LINE_BYTES_MAX):
            number += 1
            if len(line) == _LINE_BYTES_MAX:
                raise SchemaError(f"{self.path}: line {number} is longer than {_LINE_BYTES_MAX >> 20} MiB")
            text = line.strip()
            if text:
                yield number, text, self._object(number, text)

    def _object(self, number: int, text: bytes) -> dict[str, Any]:
        try:
            row = _DECODER.decode(text.decode("utf-8-sig" if number == 1 else "utf-8"))
        except (ValueError, RecursionError) as error:
            raise SchemaError(f"{self.path}: line {number} is not JSON: {error}") from error
        if not isinstance(row, dict):
            raise SchemaError(f"{self.path}: line {number} is not a JSON object")
        return row


def _encoded(keys: list[bytes] | None, values: list[bytes], source: Source) -> EncodedRows:
    key_column = None if keys is None else pa.array(keys, pa.binary())
    return EncodedRows(key_column, pa.array(values, pa.binary()), source.bytes_read, source.total_bytes)


def _fill(template: str, row: Mapping[str, Any]) -> str:
    """The template filled from one row. Raises SchemaError when a value that it needs is missing or null."""
    pieces = pieces_of(template)
    for name in pieces[1::2]:
        if row.get(name) is None:
            raise SchemaError(f"column {name!r}, which {template!r} needs, is null or missing")
    return "".join(
        piece if index % 2 == 0 else (key_bytes(row[piece]) or b"").decode() for index, piece in enumerate(pieces)
    )
