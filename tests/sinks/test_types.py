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


@pytest.mark.parametrize("line", _TYPES.strip().splitlines(), ids=lambda line: line.partition(" ")[0])
def test_each_type_has_its_column(sink_database: SinkDatabase, tmp_path: Path, line: str) -> None:
    spark, *names = (part.strip() for part in line.split("|"))
    wanted = dict(zip(("postgres", "mariadb", "sqlite"), names, strict=True))
    with serving(tmp_path / "store", definition(sink_database, schema_of(f"id INT, c {spark}"), ("id",))):
        assert sink_database.column_type("orders", "c").lower() == wanted[sink_database.name].lower()
