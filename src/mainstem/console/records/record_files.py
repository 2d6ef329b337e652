"""The records of a JSON lines or CSV file, as the gateway takes them, each with its line. Pure functions."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

BATCH_RECORDS: Final = 500
_BATCH_CHARS: Final = 500_000
_FIELD_CHARS_MAX: Final = 1 << 20
_WHOLE: Final = ("TINYINT", "SMALLINT", "INT", "BIGINT")
_RECORD_FIELDS: Final = ("key", "value", "headers", "partition", "timestamp_ms")


class FileError(ValueError):
    """A file, or a line of it, that cannot be read; the text says which line and why."""


@dataclass(frozen=True, slots=True)
class FileForm:
    """The form of a file. ``key``: the columns or fields that make the key; ``is_records``: a line has key and value.

    ``columns``: the types of the topic's columns, by which cells of a CSV file become numbers.
    """

    is_csv: bool
    is_records: bool
    key: tuple[str, ...]
    columns: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class FileBatch:
    """Some records in order, and the line of each."""

    lines: tuple[int, ...]
    records: tuple[dict[str, Any], ...]

    def halves(self) -> tuple[FileBatch, FileBatch]:
        """The first and the second half."""
        middle = len(self.lines) // 2
        return (
            FileBatch(self.lines[:middle], self.records[:middle]),
            FileBatch(self.lines[middle:], self.records[middle:]),
        )


def batches(written: str, form: FileForm) -> Iterator[FileBatch]:
    """The records of a file in batches that one request may have. Raises FileError at the first line that is wrong."""
    rows = _csv_rows(written, form) if form.is_csv else _json_lines(written, form)
    lines: list[int] = []
    records: list[dict[str, Any]] = []
    size = 0
    for line, record, chars in rows:
        if records and (len(records) == BATCH_RECORDS or size + chars > _BATCH_CHARS):
            yield FileBatch(tuple(lines), tuple(records))
            lines, records, size = [], [], 0
        lines.append(line)
        records.append(record)
        size += chars
    if records:
        yield FileBatch(tuple(lines), tuple(records))


def _json_lines(written: str, form: FileForm) -> Iterator[tuple[int, dict[str, Any], int]]:
    for number, line in enumerate(written.split("\n"), 1):
        if not line.strip():
            continue
        try:
            document = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise FileError(f"line {number} is not JSON: {error}") from error
        yield number, _record(document, form, number), len(line)


def _record(document: Any, form: FileForm, line: int) -> dict[str, Any]:
    if not form.is_records:
        return _keyed(document, form.key, line)
    if not isinstance(document, dict) or "value" not in document:
        raise FileError(f'line {line} is not a record: give an object with "value", and perhaps "key" and "headers"')
    record = {name: document[name] for name in _RECORD_FIELDS if document.get(name) is not None}
    record["value"] = document["value"]
    if isinstance(record.get("headers"), list):  # as reads show them
        record["headers"] = {header.get("name", ""): header.get("value") for header in record["headers"]}
    return record


def _csv_rows(written: str, form: FileForm) -> Iterator[tuple[int, dict[str, Any], int]]:
    csv.field_size_limit(_FIELD_CHARS_MAX)
    reader = csv.reader(io.StringIO(written.removeprefix("\ufeff"), newline=""), strict=True)
    try:
        names = next(reader, None)
        if not names:
            raise FileError("the file is empty: line 1 has the names of the columns")
        for row in reader:
            if not row:
                continue
            if len(row) != len(names):
                raise FileError(f"line {reader.line_num} has {len(row)} values, and line 1 has {len(names)} names")
            value = {name: _cell(cell, form.columns.get(name)) for name, cell in zip(names, row, strict=True)}
            yield reader.line_num, _keyed(value, form.key, reader.line_num), sum(map(len, row)) + len(row)
    except csv.Error as error:
        raise FileError(f"line {reader.line_num} is not CSV: {error}") from error


def _cell(cell: str, kind: str | None) -> Any:
    """A cell as its column's type has it; as text where it does not fit, which the check then refuses."""
    if cell == "":
        return None
    try:
        if kind in _WHOLE:
            return int(cell)
        if kind in ("FLOAT", "DOUBLE"):
            return float(cell)
        if kind is not None and kind.startswith(("ARRAY", "MAP", "STRUCT")):
            return json.loads(cell)
    except (ValueError, RecursionError):
        return cell
    return cell.lower() == "true" if kind == "BOOLEAN" and cell.lower() in ("true", "false") else cell


def _keyed(value: Any, key: Sequence[str], line: int) -> dict[str, Any]:
    if not key:
        return {"value": value}
    lacking = [name for name in key if not isinstance(value, dict) or value.get(name) is None]
    if lacking:
        raise FileError(f"line {line} has no {lacking[0][:100]!r}, which the key is made of")
    parts = [value[name] for name in key]
    if len(parts) == 1 and isinstance(parts[0], str):
        return {"key": parts[0], "value": value}
    return {
        "key": json.dumps(parts if len(parts) > 1 else parts[0], separators=(",", ":"), ensure_ascii=False),
        "value": value,
    }
