"""JSON lines, one JSON object a line, or one JSON array of objects. The text of each object is kept as it is.

The file is read twice: the first pass finds every row that is not a JSON object, does not fit its topic's schema, or
lacks its key or what a derived column needs, before anything has been written. Lines that are empty are passed over, a
byte order mark at the file's begin too. One thread uses one reader.
"""

from __future__ import annotations

import codecs
import io
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

import pyarrow as pa

from mainstem.client.values import json_text, key_bytes
from mainstem.connectors.sources import Source, open_source, refuse_utf16
from mainstem.connectors.tables import EncodedRows, Wanted, pieces_of
from mainstem.errors import SchemaError
from mainstem.schema.encoding import encode_key
from mainstem.schema.validation import SchemaCheck

_RUN_ROWS = 10_000
_LINE_BYTES_MAX = 64 << 20
_READ_BYTES = 1 << 20
_PEEKED_BYTES = 16
_SPACE = re.compile(r"[ \t\r\n]*")


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant)


@dataclass
class JsonLinesFile:
    """A file of JSON lines, or one JSON array; ``columns`` are those of all its objects after ``check``."""

    path: Path
    columns: tuple[str, ...] = ()

    def check(self, wanted: Wanted) -> None:
        """Read the file once: every row is a JSON object that fits the schema, with its key. Raises SchemaError."""
        fits = SchemaCheck.of(wanted.schema.columns if wanted.schema else ())
        with open_source(self.path) as source:
            numbers: list[int] = []
            values: list[bytes] = []
            columns: dict[str, None] = {}
            for number, text, row in self._rows(source):
                columns |= dict.fromkeys(row)
                numbers.append(number)
                values.append(self._record(number, text, row, wanted.key, wanted.derived)[1])
                if len(values) == _RUN_ROWS:
                    self._require(fits, numbers, values)
                    numbers, values = [], []
            self._require(fits, numbers, values)
        self.columns = tuple(columns)
        wanted.check_names(self.path, self.columns)

    def _require(self, fits: SchemaCheck, numbers: list[int], values: list[bytes]) -> None:
        fits.require(pa.array(values, pa.binary()), lambda index: f"{self.path}: line {numbers[index]}")

    def encoded(self, key: Sequence[str], derived: Mapping[str, str]) -> Iterator[EncodedRows]:
        """All objects as they stand (derived columns appended), in the file's order."""
        keys: list[bytes] = []
        values: list[bytes] = []
        with open_source(self.path) as source:
            for number, text, row in self._rows(source):
                row_key, value = self._record(number, text, row, key, derived)
                if row_key is not None:
                    keys.append(row_key)
                values.append(value)
                if len(values) == _RUN_ROWS:
                    yield _encoded(keys if key else None, values, source)
                    keys, values = [], []
            yield _encoded(keys if key else None, values, source)

    def _record(
        self, number: int, text: bytes, row: dict[str, Any], key: Sequence[str], derived: Mapping[str, str]
    ) -> tuple[bytes | None, bytes]:
        """A row's key and value: its text as it stands, and its derived columns after."""
        try:
            added = {name: _fill(template, row) for name, template in derived.items()}
            if added:
                text = text[:-1].rstrip() + b"," + json_text(added)[1:].encode()
            return encode_key(row | added, key), text
        except SchemaError as error:
            raise SchemaError(f"{self.path}: line {number}: {error}") from error
        except UnicodeEncodeError as error:  # half of a surrogate pair, which JSON can name and UTF-8 cannot hold
            raise SchemaError(f"{self.path}: line {number}: a value is not text that UTF-8 can hold") from error

    def _rows(self, source: Source) -> Iterator[tuple[int, bytes, dict[str, Any]]]:
        """Each object: the line in which it begins, its text, and what it says."""
        size = max(_READ_BYTES, _PEEKED_BYTES)
        stream = io.BufferedReader(source.stream, size)  # type: ignore[type-var]  # any readable stream will do
        refuse_utf16(self.path, stream.peek(len(codecs.BOM_UTF8)))
        if stream.peek(len(codecs.BOM_UTF8)).startswith(codecs.BOM_UTF8):
            stream.read(len(codecs.BOM_UTF8))
        line = 1
        while (byte := stream.peek(1)[:1]).isspace():
            line += byte == b"\n"
            stream.read(1)
        found = _elements(stream, self.path, line) if byte == b"[" else _lines(stream, self.path, line)
        for number, text, value in found:
            if not isinstance(value, dict):
                raise SchemaError(f"{self.path}: line {number} is not a JSON object: {text[:80].decode()}")
            yield number, text, value


def _lines(stream: BinaryIO, path: Path, first_line: int) -> Iterator[tuple[int, bytes, Any]]:
    number = first_line - 1
    while line := stream.readline(_LINE_BYTES_MAX):
        number += 1
        if len(line) == _LINE_BYTES_MAX:
            raise SchemaError(f"{path}: line {number} is longer than {_LINE_BYTES_MAX >> 20} MiB")
        text = line.strip()
        if text:
            try:
                value = _DECODER.decode(text.decode())
            except (ValueError, RecursionError) as error:
                raise SchemaError(f"{path}: line {number} is not JSON: {_fault(error)}") from error
            yield number, text, value


def _fault(error: Exception, begin: int = 0) -> str:
    """The reason why text is not JSON, and the character at fault, counted from ``begin``."""
    if isinstance(error, json.JSONDecodeError):
        return f"{error.msg[:1].lower()}{error.msg[1:]} at character {error.pos - begin + 1}"
    return "it is not UTF-8 text" if isinstance(error, UnicodeDecodeError) else str(error)


class _ArrayText:
    """The part of an array that was read: ``text`` from ``at`` on is still to parse; ``line`` is the line of ``at``."""

    def __init__(self, stream: BinaryIO, path: Path, first_line: int) -> None:
        self._stream = stream
        self._path = path
        self._decoder = codecs.getincrementaldecoder("utf-8")()
        self.text = ""
        self.at = 0
        self.line = first_line

    def more(self) -> bool:
        """Read on; whether there was anything. Raises SchemaError for bytes that are not UTF-8."""
        waiting = self.text[self.at :]
        if len(waiting) >= _LINE_BYTES_MAX:
            raise SchemaError(
                f"{self._path}: line {self.line}: an element of the array is longer than {_LINE_BYTES_MAX >> 20} MiB"
            )
        # As much again as is there: an element that is longer than a block is parsed a few times, not many.
        data = self._stream.read(max(_READ_BYTES, len(waiting)))
        try:
            self.text, self.at = waiting + self._decoder.decode(data, final=not data), 0
        except UnicodeDecodeError as error:
            raise SchemaError(f"{self._path}: after line {self.line}: the array is not UTF-8 text: {error}") from error
        return bool(data)

    def pass_to(self, end: int) -> str:
        """Skip the text up to ``end``, and return it. The rest is not copied."""
        passed = self.text[self.at : end]
        self.line += passed.count("\n")
        self.at = end
        return passed

    def next(self) -> str:
        """The next character that is not white space, which is passed over; empty at the end."""
        while True:
            found = _SPACE.match(self.text, self.at)
            self.pass_to(found.end() if found is not None else self.at)
            if self.at < len(self.text) or not self.more():
                return self.text[self.at : self.at + 1]


def _elements(stream: BinaryIO, path: Path, first_line: int) -> Iterator[tuple[int, bytes, Any]]:
    """The elements of the array that the stream holds, a few in memory at a time."""
    waiting = _ArrayText(stream, path, first_line)
    waiting.next()
    waiting.pass_to(waiting.at + 1)
    if waiting.next() != "]":
        while True:
            waiting.next()
            value, end = _element(waiting, path)
            line = waiting.line
            yield line, waiting.pass_to(end).encode(), value
            separator = waiting.next()
            if separator == "]":
                break
            if separator != ",":
                raise SchemaError(f"{path}: line {waiting.line}: the array is cut short, or a comma is missing in it")
            waiting.pass_to(waiting.at + 1)
    waiting.pass_to(waiting.at + 1)
    if waiting.next():
        raise SchemaError(f"{path}: line {waiting.line}: there is text after the array")


def _element(waiting: _ArrayText, path: Path) -> tuple[Any, int]:
    """The next element, and where it ends in the text."""
    while True:
        begin = waiting.at
        try:
            value, end = _DECODER.raw_decode(waiting.text, begin)
            if end < len(waiting.text) or not waiting.more():  # a number may go on
                return value, end
        except json.JSONDecodeError as error:
            if not waiting.more():
                raise SchemaError(f"{path}: line {waiting.line} is not JSON: {_fault(error, begin)}") from error
        except (ValueError, RecursionError) as error:
            if not waiting.more():
                raise SchemaError(f"{path}: line {waiting.line} is not JSON: {error}") from error


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
