"""A sink's table has each value as the table of types says."""

from __future__ import annotations

from pathlib import Path

import pytest

from mainstem.schema.infer import schema_of
from mainstem.views.requests import RangeQuery
from tests.sinks.databases import SinkDatabase
from tests.sinks.support import definition, serving
from tests.support.type_matrix import CASES, DDL, POISON, column_of, value_of, wrong_cells
from tests.views.support import apply

RECORDS = [(f"{number:03d}".encode(), value_of(case)) for number, case in enumerate(CASES)]


@pytest.mark.parametrize("size", [1, len(RECORDS)], ids=["alone", "together"])
def test_a_sink_has_what_fits_and_the_rest_is_poison(sink_database: SinkDatabase, tmp_path: Path, size: int) -> None:
    with serving(tmp_path / "store", definition(sink_database, schema_of(DDL), ())) as store:
        for first in range(0, len(RECORDS), size):
            apply(store, RECORDS[first : first + size], first)
        rows = {row["_key"]: row for row in store.query(RangeQuery(limit=10_000)).rows}
    found = [
        (case, rows[key.decode()][column_of(case)] if key.decode() in rows else POISON)
        for (key, _), case in zip(RECORDS, CASES, strict=True)
    ]
    assert wrong_cells("sink", found) == []


_TYPES = """
STRING | text | longtext | TEXT
BOOLEAN | boolean | tinyint(1) | INTEGER
TINYINT | smallint | tinyint(4) | INTEGER
SMALLINT | smallint | smallint(6) | INTEGER
INT | integer | int(11) | INTEGER
BIGINT | bigint | bigint(20) | INTEGER
FLOAT | real | double | REAL
DOUBLE | double precision | double | REAL
DECIMAL(10,2) | numeric(10,2) | decimal(10,2) | TEXT
DATE | date | date | TEXT
TIMESTAMP | timestamp with time zone | datetime(6) | TEXT
TIMESTAMP_NTZ | timestamp without time zone | datetime(6) | TEXT
BINARY | bytea | longblob | BLOB
ARRAY<INT> | jsonb | longtext | TEXT
MAP<STRING, INT> | jsonb | longtext | TEXT
STRUCT<a: INT> | jsonb | longtext | TEXT
"""


def test_each_type_has_its_column(sink_database: SinkDatabase, tmp_path: Path) -> None:
    lines = [[part.strip().lower() for part in line.split("|")] for line in _TYPES.strip().splitlines()]
    number = 1 + ("postgres", "mariadb", "sqlite").index(sink_database.name)
    ddl = ", ".join(f"c{place} {line[0]}" for place, line in enumerate(lines))
    with serving(tmp_path / "store", definition(sink_database, schema_of(f"id INT, {ddl}"), ("id",))):
        found = {line[0]: sink_database.column_type("orders", f"c{n}").lower() for n, line in enumerate(lines)}
    assert found == {line[0]: line[number] for line in lines}
