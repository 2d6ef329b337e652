"""``load`` takes of each file format what the table of types says, and refuses the rest before anything is written."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.parquet
import pytest

from mainstem.client.log import Log
from mainstem.connectors.files import load
from mainstem.errors import SchemaError
from mainstem.schema.infer import schema_of
from mainstem.schema.topic_schemas import register
from tests.support.type_matrix import (
    CASES,
    DDL,
    LACKING,
    MISFIT,
    MISSING,
    REFUSED,
    TYPES,
    Case,
    as_read,
    column_of,
    expected,
    read_columns,
    value_of,
    wrong_cells,
)

COLUMNS = [f"c{number}" for number in range(len(TYPES))]
REQUIRED = [column for column, name in zip(COLUMNS, TYPES, strict=True) if name.endswith("NOT NULL")]
NESTED = ("ARRAY", "MAP", "STRUCT")
TEXTS = ("STRING", "CHAR", "VARCHAR")
BARE = ("BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE")
"""The types that ``load`` reads from a CSV file's bare text."""

Write: TypeAlias = Callable[[Path, Sequence[Case]], list[Path]]


def is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def csv_text(case: Case) -> str | None:
    """The case's field in a CSV file, which has text alone; None: it has no such field."""
    if case.text in ("null", MISSING):
        return ""
    if not case.text.startswith('"'):
        return None if case.type == "STRING" and case.text.startswith("[") else case.text
    text = str(json.loads(case.text))
    is_bare = case.type.startswith(BARE)
    return None if not text or (is_bare and is_json(text)) else text


CSV_ALONE = [
    Case("BOOLEAN", "TRUE", True),
    Case("BOOLEAN", "False", False),
    Case("INT", "007", 7),
    Case("INT", "-0012.0", -12),
    Case("INT", "+-1", MISFIT),
    Case("INT", '1,"x":2', MISFIT),
    Case("DOUBLE", "-inf", MISFIT),
]


def in_csv(case: Case) -> Case:
    """The case as it is in CSV: a nested column takes nothing."""
    is_nested = case.type.startswith(NESTED) and case.text not in ("null", MISSING)
    return case._replace(value=MISFIT) if is_nested else case


def write_csv(directory: Path, cases: Sequence[Case]) -> list[Path]:
    path = directory / "cells.csv"
    with path.open("w", newline="") as file:
        rows = csv.DictWriter(file, COLUMNS)
        rows.writeheader()
        rows.writerows({**dict.fromkeys(REQUIRED, "1"), column_of(case): csv_text(case)} for case in cases)
    return [path]


NULLS = json.dumps({name: 1 if name in REQUIRED else None for name in COLUMNS}).encode()
"""The first object of a file: every column is in it."""


def write_json_lines(directory: Path, cases: Sequence[Case]) -> list[Path]:
    path = directory / "cells.jsonl"
    path.write_bytes(b"\n".join([NULLS, *map(value_of, cases)]))
    return [path]


def write_json_array(directory: Path, cases: Sequence[Case]) -> list[Path]:
    path = directory / "cells.json"
    path.write_bytes(b"[" + b",\n".join([NULLS, *map(value_of, cases)]) + b"]")
    return [path]


def parquet_type(case: Case) -> pa.DataType | None:
    """What the case's JSON is in a Parquet file; None where there is no such column, or it would be another value."""
    value = None if case.text == MISSING else json.loads(case.text)
    is_written = isinstance(value, float) and (case.type == "STRING" or case.value == 2**53 + 1)
    try:
        kind = pa.uint64() if value == 2**63 else pa.array([value]).type
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        return None
    return None if is_written or kind == pa.struct([]) else kind


def write_parquet(directory: Path, cases: Sequence[Case]) -> list[Path]:
    """A file for each type that the values have, so that a column has one type in a file."""
    kinds = list(dict.fromkeys(map(parquet_type, cases)))
    paths = []
    for number, kind in enumerate(kinds):
        fields = [
            {**dict.fromkeys(REQUIRED, 1), column_of(case): None if case.text == MISSING else json.loads(case.text)}
            for case in cases
            if parquet_type(case) == kind
        ]
        paths.append(directory / f"cells-{number:02}.parquet")
        columns = {}
        for name in COLUMNS:
            values = [each.get(name) for each in fields]
            columns[name] = pa.array(values) if name in REQUIRED else pa.array(values, kind)
        pa.parquet.write_table(pa.table(columns), paths[-1])
    return paths


def write_parquet_of_own_types(directory: Path, cases: Sequence[Case]) -> list[Path]:
    path = directory / "own.parquet"
    pa.parquet.write_table(pa.table(dict(zip(COLUMNS, read_columns(cases), strict=True))), path)
    return [path]


FORMATS: dict[str, tuple[Write, list[Case]]] = {
    "CSV": (write_csv, [in_csv(case) for case in [*CASES, *CSV_ALONE] if csv_text(case) is not None]),
    "JSON lines": (write_json_lines, CASES),
    "JSON array": (write_json_array, CASES),
    "Parquet": (write_parquet, [case for case in CASES if parquet_type(case) is not None]),
    "Parquet, own types": (write_parquet_of_own_types, [case for case in CASES if case.value != MISFIT]),
}


INFINITE = "is not a JSON number: write null in its place"


def is_named(case: Case, directory: Path, error: str) -> bool:
    """Whether an error says which file, column and type it is about."""
    if not case.is_finite:
        return error.startswith(f"{directory}/")
    end = "the schema says NOT NULL" if case.value == LACKING else f"is not {case.type.removesuffix(' NOT NULL')}"
    return (
        error.startswith(f"{directory}/")
        and f": column '{column_of(case)}'" in error
        and error.endswith((end, INFINITE))
    )


@pytest.mark.parametrize("name", FORMATS)
def test_load_takes_what_fits_and_refuses_the_rest(
    mainstem_log: Log, mainstem_topic: str, tmp_path: Path, name: str
) -> None:
    register(mainstem_log, mainstem_topic, schema_of(DDL))
    write, cases = FORMATS[name]

    def made(case: Case) -> Any:
        try:
            load(mainstem_log, write(tmp_path, [case]), mainstem_topic)
        except SchemaError as error:
            return REFUSED if is_named(case, tmp_path, str(error)) else error
        return "taken"

    taken = [case for case in cases if expected(case, "load") != REFUSED]
    if name == "Parquet":
        taken.sort(key=lambda case: str(parquet_type(case)))
    load(mainstem_log, write(tmp_path, taken), mainstem_topic)
    values = [record.value or b"" for record in mainstem_log.read(mainstem_topic)]
    found = [(case, as_read(case, value)) for case, value in zip(taken, values[-len(taken) :], strict=True)]
    end = mainstem_log.end(mainstem_topic)
    found += [(case, made(case)) for case in cases if expected(case, "load") == REFUSED]
    assert wrong_cells("load", found) == []
    assert mainstem_log.end(mainstem_topic) == end
