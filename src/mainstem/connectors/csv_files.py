"""CSV files as typed Arrow batches, in bounded memory.

A file is read twice. The first pass, before anything is written, finds every broken row (also a null in a key or where
a derived column needs a value), and infers the types of columns without a given type, from the whole file. The second
pass yields batches. Everything is parsed as text first, so an error can name its row.

Inferred types: BOOLEAN (true, false), BIGINT, DOUBLE, else STRING. A column becomes a number only when every value has
the plain form of one: ``007`` and ``+1`` stay text, and so do whole numbers beyond 64 bits, which a DOUBLE would round.
Null tokens (default: ``""`` and ``NA``) are null in every column.

Rows are counted as lines are: the header is row 1. One thread uses one reader.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from mainstem.connectors.csv_quotes import QuoteChecker
from mainstem.connectors.json_text import NullValueError
from mainstem.connectors.schema_check import require_fit
from mainstem.connectors.sources import Source, open_source, refuse_utf16
from mainstem.connectors.tables import EncodedRows, Wanted, encode_batch, require_values, with_derived
from mainstem.errors import SchemaError
from mainstem.schema.arrow import arrow_type
from mainstem.schema.json_columns import JsonField, decode

_BLOCK_BYTES = 4 << 20
_HEADER_BYTES_MAX = 1 << 20
_MARK_BYTES = 2
_FIRST_ROW = 2  # rows count from 1, and the header is the first
_BOOLEANS = pa.array(["true", "false", "True", "False", "TRUE", "FALSE"])
# numbers by their look only: more digits than a double keeps, leading zeros, a plus
_NOT_A_PLAIN_DOUBLE = r"^-?\d{17,}$|^-?0\d|^\+"
_NUMBER = r"^-?\d+(\.\d+)?([eE][+-]?\d+)?$"
_LADDER = (pa.null(), pa.bool_(), pa.int64(), pa.float64(), pa.string())


@dataclass
class CsvFile:
    """A CSV file with a header; ``check`` first, then ``encoded``."""

    path: Path
    nulls: Sequence[str] = ("", "NA")
    delimiter: str = ","
    rungs: dict[str, int] = field(default_factory=dict)
    """The type that each column has reached, from the narrowest up; files that are loaded together share it."""
    types: dict[str, pa.DataType] = field(default_factory=dict)
    given: dict[str, str] = field(default_factory=dict)
    columns: tuple[str, ...] = ()

    def check(self, wanted: Wanted) -> None:
        """Read the file once: every row has its columns and its key, every column its type.

        Fills ``types``, ``rungs`` and ``columns``. Raises SchemaError, which names the row or what is wrong with the
        header.
        """
        schema = wanted.schema
        given = {column.name: _parsed_type(column.type) for column in schema.columns} if schema else {}
        self.given = {column.name: column.type for column in schema.columns} if schema else {}
        rows = 0
        with open_source(self.path) as source:
            self.columns = self._header()
            self._check_header()
            wanted.check_names(self.path, self.columns)
            for batch in self._text_batches(self._open(source, is_checked=True)):
                _climb(batch, [name for name in self.columns if name not in given], self.rungs)
                with self._located():
                    require_values(batch, wanted, first_row=rows + _FIRST_ROW)
                typed = [
                    self._typed(batch.column(name), name, given[name], rows) if name in given else batch.column(name)
                    for name in self.columns
                ]
                self._require_fit(pa.RecordBatch.from_arrays(typed, names=list(self.columns)), wanted, rows)
                rows += batch.num_rows
        self.types = given

    def _require_fit(self, batch: pa.RecordBatch, wanted: Wanted, rows: int) -> None:
        """Refuse what the topic's readers would take for null or poison."""
        if wanted.schema is not None:
            with self._located():
                complete = with_derived(batch, wanted.derived, rows + _FIRST_ROW)
            require_fit(wanted.schema, complete, lambda index: f"{self.path}: row {rows + index + _FIRST_ROW}")

    @contextmanager
    def _located(self) -> Iterator[None]:
        """Say of an error about a row which file it is in, and of a null where it comes from."""
        try:
            yield
        except NullValueError as error:
            tokens = " and ".join(repr(token) for token in self.nulls) or "nothing"
            hint = f'{tokens} in the file are null here; --null "" makes the empty field alone null'
            raise SchemaError(f"{self.path}: {error} ({hint})") from error
        except SchemaError as error:
            raise SchemaError(f"{self.path}: {error}") from error

    def encoded(self, key: Sequence[str], derived: Mapping[str, str]) -> Iterator[EncodedRows]:
        """All rows, typed and encoded, in the file's order."""
        rows = 0
        types = {name: self.types.get(name, _LADDER[self.rungs.get(name, len(_LADDER) - 1)]) for name in self.columns}
        with open_source(self.path) as source:
            for batch in self._text_batches(self._open(source)):
                typed = [self._typed(batch.column(name), name, types[name], rows) for name in self.columns]
                typed_batch = pa.RecordBatch.from_arrays(typed, names=list(self.columns))
                with self._located():
                    encoded = encode_batch(typed_batch, source, key, derived, first_row=rows + _FIRST_ROW)
                yield encoded
                rows += batch.num_rows

    def _open(self, source: Source, *, is_checked: bool = False) -> pa.csv.CSVStreamingReader:
        names = self.columns or self._header()
        convert = pa.csv.ConvertOptions(
            column_types={name: pa.string() for name in names}, null_values=list(self.nulls), strings_can_be_null=True
        )
        stream = QuoteChecker(source.stream, self.path, self.delimiter) if is_checked else source.stream
        try:
            return pa.csv.open_csv(
                stream,
                # one thread: only then do errors know their row
                read_options=pa.csv.ReadOptions(block_size=_BLOCK_BYTES, use_threads=False),
                parse_options=pa.csv.ParseOptions(delimiter=self.delimiter, newlines_in_values=True),
                convert_options=convert,
            )
        except (pa.ArrowInvalid, UnicodeDecodeError) as error:
            raise SchemaError(f"{self.path}: {_reason(error)}") from error

    def _header(self) -> tuple[str, ...]:
        """The column names alone: the types of columns can only be set by name."""
        with open_source(self.path) as source:
            refuse_utf16(self.path, source.stream.read(_MARK_BYTES))
        with open_source(self.path) as source:
            try:
                options = pa.csv.ReadOptions(block_size=min(_BLOCK_BYTES, _HEADER_BYTES_MAX), use_threads=False)
                parse = pa.csv.ParseOptions(delimiter=self.delimiter, newlines_in_values=True)
                return tuple(pa.csv.open_csv(source.stream, read_options=options, parse_options=parse).schema.names)
            except (pa.ArrowInvalid, UnicodeDecodeError) as error:
                raise SchemaError(f"{self.path}: {_reason(error)}") from error

    def _text_batches(self, reader: pa.csv.CSVStreamingReader) -> Iterator[pa.RecordBatch]:
        while True:
            try:
                batch = reader.read_next_batch()
            except StopIteration:
                return
            except pa.ArrowInvalid as error:
                raise SchemaError(f"{self.path}: {_reason(error)}") from error
            yield batch

    def _check_header(self) -> None:
        for name in self.columns:
            if not name:
                raise SchemaError(f"{self.path}: the header has a column without a name")
            if self.columns.count(name) > 1:
                raise SchemaError(f"{self.path}: the header names column {name!r} twice")

    def _typed(self, column: pa.Array, name: str, wanted: pa.DataType, rows_before: int) -> pa.Array:
        try:
            return _cast(column, wanted)
        except pa.ArrowInvalid as error:
            for index, text in enumerate(column.to_pylist()):
                if not _casts(text, wanted):
                    row = rows_before + index + _FIRST_ROW
                    raise SchemaError(
                        f"{self.path}: row {row}: column {name!r}: {text[:80]!r} is not {self.given.get(name, wanted)}"
                    ) from error
            raise


def _parsed_type(name: str) -> pa.DataType:
    """The Arrow type to parse a schema's column as: numbers and booleans; all other columns stay text."""
    wanted = arrow_type(name)
    if pa.types.is_integer(wanted) or pa.types.is_floating(wanted) or pa.types.is_boolean(wanted):
        return wanted
    return pa.string()


def _cast(column: pa.Array, wanted: pa.DataType) -> pa.Array:
    """Text as ``wanted``, by the table of types. Raises ArrowInvalid, also for NaN and the infinities."""
    if pa.types.is_boolean(wanted):
        _require(pc.or_(pc.is_in(column, _BOOLEANS), pc.is_null(column)))
    try:
        typed = pc.cast(column, wanted)
    except pa.ArrowInvalid:
        if not pa.types.is_integer(wanted):
            raise
        return _whole_numbers(column, wanted)
    if pa.types.is_integer(wanted) and _may_have_hex(column):
        return _whole_numbers(column, wanted)
    if pa.types.is_floating(wanted):
        _require(pc.is_finite(typed))
    return typed


def _whole_numbers(column: pa.Array, wanted: pa.DataType) -> pa.Array:
    """Whole numbers of which some may be written as ``2.0`` or ``1e3``."""
    _require(pc.match_substring_regex(column, _NUMBER))
    plain = pc.replace_substring_regex(column, pattern=r"^(-?)0+(\d)", replacement=r"\1\2")
    objects = pc.binary_join_element_wise('{"x":', pc.fill_null(plain, "null"), "}", "")
    [read] = decode(objects, [JsonField("x", wanted)]).columns
    if read.misfits is not None:
        raise pa.ArrowInvalid("a number that does not fit")
    return read.array


def _may_have_hex(column: pa.Array) -> bool:
    """Whether there is an ``x`` among the texts, which Arrow reads ``0x10`` by; all bytes are looked at in one go."""
    data = column.buffers()[2]
    return data is not None and bool((np.frombuffer(data, np.uint8) | 0x20 == ord("x")).any())


def _require(holds: pa.Array) -> None:
    if pc.all(holds).as_py() is False:
        raise pa.ArrowInvalid("a text that does not fit")


def _casts(text: str | None, wanted: pa.DataType) -> bool:
    try:
        _cast(pa.array([text], pa.string()), wanted)
    except pa.ArrowInvalid:
        return False
    return True


def _climb(batch: pa.RecordBatch, names: Sequence[str], rungs: dict[str, int]) -> None:
    """Move each column up the ladder null → boolean → integer → double → text until this batch fits too."""
    for name in names:
        column = batch.column(name)
        if column.null_count == len(column):
            continue
        rung = max(rungs.get(name, 0), 1)
        while not _fits(column, _LADDER[rung]):
            # true and false beside numbers are text, and so are values that are not numbers
            rung = len(_LADDER) - 1 if rung == 1 and rungs.get(name) else rung + 1
        rungs[name] = rung


def _fits(column: pa.Array, wanted: pa.DataType) -> bool:
    if pa.types.is_string(wanted):
        return True
    if pa.types.is_boolean(wanted):
        return bool(pc.all(pc.is_in(column.drop_null(), _BOOLEANS)).as_py())
    try:
        numbers = pc.cast(column, wanted)
    except pa.ArrowInvalid:
        return False
    if pa.types.is_integer(wanted):
        return bool(pc.all(pc.equal(pc.cast(numbers, pa.string()), column)).as_py())
    if not pc.all(pc.is_finite(numbers)).as_py():
        return False
    return not pc.any(pc.match_substring_regex(column, _NOT_A_PLAIN_DOUBLE)).as_py()


def _reason(error: Exception) -> str:
    """Arrow's reason in our words: which row, and what was expected."""
    text = str(error).replace("CSV parse error: ", "").replace("Row #", "row ")
    if "straddling object" in text:
        return f"a row is longer than {_BLOCK_BYTES >> 20} MiB, or a quote is not closed"
    if "Empty CSV" in text:
        return "the file is empty; its first line must name the columns"
    if isinstance(error, UnicodeDecodeError):
        return "the header is not UTF-8 text"
    if "invalid UTF8" in text:
        return "a value is not UTF-8 text; convert the file first (iconv -t UTF-8)"
    return text.splitlines()[0][:300]
