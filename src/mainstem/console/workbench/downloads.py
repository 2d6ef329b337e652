"""An answer's rows as a file: CSV, JSON or Parquet. Pure functions, for a thread.

CSV and JSON hold the values as the answer has them. Parquet gets the types that the database names; a column that does
not fit its type is written as text, so that no value is lost.
"""

from __future__ import annotations

import csv
import datetime
import io
import json
import re
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

Rows = Sequence[Mapping[str, Any]]

_DECIMAL = re.compile(r"DECIMAL\((\d{1,2}),\s*(\d{1,2})\)")
_WHOLE = {
    "TINYINT": "int8",
    "SMALLINT": "int16",
    "INTEGER": "int32",
    "BIGINT": "int64",
    "UTINYINT": "uint8",
    "USMALLINT": "uint16",
    "UINTEGER": "uint32",
    "UBIGINT": "uint64",
}


def as_csv(rows: Rows) -> bytes:
    """CSV with a header line. Null is an empty cell; nested values are JSON."""
    file = io.StringIO()
    names = names_of(rows)
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(names)
    for row in rows:
        writer.writerow(["" if row.get(name) is None else _text(row[name]) for name in names])
    return file.getvalue().encode()


def as_json(rows: Rows) -> bytes:
    """One array of objects, a row a line."""
    return ("[\n" + ",\n".join(json.dumps(dict(row), ensure_ascii=False) for row in rows) + "\n]\n").encode()


def as_parquet(rows: Rows, types: Sequence[str]) -> bytes:
    """Parquet. ``types``: DuckDB's type of each column; columns without one are inferred."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    names = names_of(rows)
    known = types if len(types) == len(names) else [""] * len(names)
    columns = [_column([row.get(name) for row in rows], kind) for name, kind in zip(names, known, strict=True)]
    sink = io.BytesIO()
    pq.write_table(pa.Table.from_arrays(columns, names=names), sink, compression="zstd")
    return sink.getvalue()


def names_of(rows: Rows) -> list[str]:
    """The columns, in the order of the first row that has each."""
    return list(dict.fromkeys(name for row in rows for name in row))


def _column(values: Sequence[Any], kind: str) -> pa.Array:
    import pyarrow as pa

    made = _typed(kind)
    try:
        if made is not None:
            arrow_type, read = made
            return pa.array([None if value is None else read(value) for value in values], arrow_type)
        if not kind and not any(isinstance(value, dict | list) for value in values):
            return pa.array(values)
    except (pa.ArrowException, ValueError, TypeError, OverflowError, ArithmeticError):
        return _text_column(values)  # a value that the type does not hold
    return _text_column(values)


def _text_column(values: Sequence[Any]) -> pa.Array:
    import pyarrow as pa

    return pa.array([None if value is None else _text(value) for value in values], pa.string())


def _typed(kind: str) -> tuple[pa.DataType, Callable[[Any], Any]] | None:
    """The Arrow type for a type of DuckDB, and what reads a value of the answer's JSON; None for text."""
    import pyarrow as pa

    if kind in _WHOLE:
        return pa.type_for_alias(_WHOLE[kind]), int
    if kind in ("FLOAT", "DOUBLE"):
        return (pa.float32() if kind == "FLOAT" else pa.float64()), float
    if kind == "BOOLEAN":
        return pa.bool_(), _same
    if kind == "DATE":
        return pa.date32(), datetime.date.fromisoformat
    if kind == "TIMESTAMP WITH TIME ZONE":
        return pa.timestamp("us", "UTC"), datetime.datetime.fromisoformat
    if kind == "TIMESTAMP":
        return pa.timestamp("us"), datetime.datetime.fromisoformat
    found = _DECIMAL.fullmatch(kind)
    if found is not None:
        return pa.decimal128(int(found[1]), int(found[2])), lambda value: Decimal(str(value))
    return None


def _same(value: Any) -> Any:
    return value


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False)
