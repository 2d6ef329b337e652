"""A few records' JSON values into the columns that `views.json_reader` makes of them, without the cost of a query.

DuckDB reads a value in 1–3 µs, but plans for some milliseconds first, which a reader of its own write waits for. So a
batch of a few records is read by Python's parser, where that is certain to give the same: values written as
``json.dumps`` writes them, compact or with its spaces, in which nothing is escaped, no number has an exponent or more
than 18 digits, and each column has the JSON type that its own type says. Anything else, and all that may be poison, is
left to DuckDB. A property test holds both to each other, value by value.
"""

from __future__ import annotations

import datetime
import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa

RECORDS_MAX: Final = 100
_BYTES_MAX: Final = 256 << 10
_BRACKETS_MAX: Final = 100
KEY_BYTES_MAX: Final = 60_000
"""What every store can index."""
_INTEGER_DIGITS_MAX: Final = 18
_EXACT_IN_DOUBLE: Final = 1 << 53
_INSTANT: Final = re.compile(r"[12]\d{3}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d{6})?Z")
_compact = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
_spaced = json.JSONEncoder(ensure_ascii=False).encode


class _UncertainError(Exception):
    """DuckDB has to read this."""


class FewReader:
    """Reads batches of at most ``RECORDS_MAX`` records.

    ``columns``: the name, DuckDB type and nullability of each; ``row_type``: the Arrow type that DuckDB gives them.
    """

    def __init__(
        self,
        columns: Sequence[tuple[str, str, bool]],
        row_type: pa.DataType | None,
        *,
        text: bool,
        keep: Sequence[str],
        keyed: bool,
    ) -> None:
        self._columns = [(name, _READERS.get(type_), nullable) for name, type_, nullable in columns]
        self._row_type = row_type
        self._text = text
        self._keep = tuple(keep)
        self._keyed = keyed

    def read(self, arrow_batch: pa.RecordBatch) -> pa.Table | None:
        """The table of ``ReadRecords`` when all records are well and it is certain; None when DuckDB has to say."""
        if arrow_batch.num_rows > RECORDS_MAX or arrow_batch.nbytes > _BYTES_MAX:
            return None
        try:
            return self._read(arrow_batch)
        except (_UncertainError, ValueError, pa.ArrowInvalid):  # UnicodeDecodeError is a ValueError
            return None

    def _read(self, arrow_batch: pa.RecordBatch) -> pa.Table:
        values = arrow_batch.column("value").to_pylist()
        parsed = [None if value is None else _parsed(value.decode()) for value in values]
        made: dict[str, Any] = {}
        if self._text:
            made["text"] = pa.array([None if value is None else _compact(value) for value in parsed], pa.string())
        if self._row_type is not None:
            rows = [None if value is None else self._row(value) for value in parsed]
            made["row"] = pa.array(rows, self._row_type)
        if self._keyed:
            made["key"] = pa.array([_key(key) for key in arrow_batch.column("key").to_pylist()], pa.string())
        made["tombstone"] = pa.array([value is None for value in parsed], pa.bool_())
        return pa.table({**made, **{name: arrow_batch.column(name) for name in self._keep}})

    def _row(self, value: Mapping[str, Any]) -> dict[str, Any]:
        row = {}
        for name, read, nullable in self._columns:
            field = value.get(name)
            if field is None:
                if not nullable:
                    raise _UncertainError
            elif read is None:
                raise _UncertainError
            else:
                field = read(field)
            row[name] = field
        return row


def _parsed(text: str) -> dict[str, Any]:
    """The object that ``text`` is. What one of the two writings gives again has no name twice and no space more."""
    if "\\" in text or text.count("[") + text.count("{") > _BRACKETS_MAX:
        raise _UncertainError
    value = _decode(text)
    if not isinstance(value, dict) or text not in (_compact(value), _spaced(value)):
        raise _UncertainError
    return value


def _key(key: bytes | None) -> str:
    if key is None or len(key) > KEY_BYTES_MAX:
        raise _UncertainError
    return key.decode()


def _float(text: str) -> float:
    if "e" in text or "E" in text:
        raise _UncertainError
    return float(text)


def _int(text: str) -> int:
    if len(text) > _INTEGER_DIGITS_MAX:
        raise _UncertainError
    return int(text)


def _no_number(_name: str) -> float:
    raise _UncertainError


def _is(kind: type) -> Callable[[Any], Any]:
    def read(value: Any) -> Any:
        if type(value) is not kind:
            raise _UncertainError
        return value

    return read


def _integer(bits: int) -> Callable[[Any], int]:
    end = 1 << (bits - 1)

    def read(value: Any) -> int:
        if type(value) is not int or not -end <= value < end:
            raise _UncertainError
        return value

    return read


def _double(value: Any) -> float:
    if type(value) is float:
        return value
    if type(value) is not int or abs(value) > _EXACT_IN_DOUBLE:
        raise _UncertainError
    return float(value)


def _instant(value: Any) -> datetime.datetime:
    if type(value) is not str or _INSTANT.fullmatch(value) is None:
        raise _UncertainError
    return datetime.datetime.fromisoformat(value)


_decode: Final = json.JSONDecoder(parse_float=_float, parse_int=_int, parse_constant=_no_number).decode
_READERS: Final[Mapping[str, Callable[[Any], Any]]] = {
    "VARCHAR": _is(str),
    "BOOLEAN": _is(bool),
    "TINYINT": _integer(8),
    "SMALLINT": _integer(16),
    "INTEGER": _integer(32),
    "BIGINT": _integer(64),
    "DOUBLE": _double,
    "TIMESTAMPTZ": _instant,
}
