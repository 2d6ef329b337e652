"""A sink's table has each value as the table of types says."""

from __future__ import annotations

from pathlib import Path

import pytest

from mainstem.schema.infer import schema_of
from mainstem.views.requests import RangeQuery
from tests.sinks.support import definition, serving
from tests.support.postgres import PostgresDatabase
from tests.support.type_matrix import CASES, DDL, POISON, column_of, value_of, wrong_cells
from tests.views.support import apply

RECORDS = [(f"{number:03d}".encode(), value_of(case)) for number, case in enumerate(CASES)]


@pytest.mark.parametrize("size", [1, len(RECORDS)], ids=["alone", "together"])
def test_a_sink_has_what_fits_and_the_rest_is_poison(
    postgres_database: PostgresDatabase, tmp_path: Path, size: int
) -> None:
    with serving(tmp_path / "store", definition(postgres_database.dsn, schema_of(DDL), ())) as store:
        for first in range(0, len(RECORDS), size):
            apply(store, RECORDS[first : first + size], first)
        rows = {row["_key"]: row for row in store.query(RangeQuery(limit=10_000)).rows}
    found = [
        (case, rows[key.decode()][column_of(case)] if key.decode() in rows else POISON)
        for (key, _), case in zip(RECORDS, CASES, strict=True)
    ]
    assert wrong_cells("sink", found) == []


@pytest.mark.parametrize(
    ("spark", "postgres"),
    [
        ("STRING", "text"),
        ("BOOLEAN", "boolean"),
        ("TINYINT", "smallint"),
        ("SMALLINT", "smallint"),
        ("INT", "integer"),
        ("BIGINT", "bigint"),
        ("FLOAT", "real"),
        ("DOUBLE", "double precision"),
        ("DECIMAL(10,2)", "numeric(10,2)"),
        ("DATE", "date"),
        ("TIMESTAMP", "timestamp with time zone"),
        ("TIMESTAMP_NTZ", "timestamp without time zone"),
        ("BINARY", "bytea"),
        ("ARRAY<INT>", "jsonb"),
        ("MAP<STRING, INT>", "jsonb"),
        ("STRUCT<a: INT>", "jsonb"),
    ],
)
def test_each_type_has_its_column(
    postgres_database: PostgresDatabase, tmp_path: Path, spark: str, postgres: str
) -> None:
    with serving(tmp_path / "store", definition(postgres_database.dsn, schema_of(f"id INT, c {spark}"), ("id",))):
        query = "SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute WHERE attrelid = 'orders'::regclass"
        assert ("c", postgres) in postgres_database.execute(query)
