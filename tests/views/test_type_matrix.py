"""SQL, lake and metrics views read each value as the table of types says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mainstem.pipelines.folds import FoldRecord
from mainstem.pipelines.kinds import SQL, KeyValue, Lake, Metrics
from mainstem.schema.infer import schema_of
from mainstem.views.requests import MetricsQuery, RangeQuery, SqlQuery
from mainstem.views.stores.store import Poison, StoreDefinition, ViewStore
from mainstem.views.stores.store_kinds import open_store
from tests.support.type_matrix import (
    CASES,
    DDL,
    LACKING,
    MISFIT,
    MISSING,
    POISON,
    Case,
    column_of,
    value_of,
    wrong_cells,
)
from tests.views.support import apply

SCHEMA = schema_of(DDL)
RECORDS = [(f"{number:03d}".encode(), value_of(case)) for number, case in enumerate(CASES)]


def opened(path: Path, kind: Any) -> ViewStore:
    return open_store(path, StoreDefinition("v", kind, SCHEMA))


@pytest.mark.parametrize("size", [1, len(RECORDS)], ids=["alone", "together"])
def test_a_sql_view_has_what_fits_and_the_rest_is_poison(tmp_path: Path, size: int) -> None:
    store = opened(tmp_path, SQL())
    poisons: list[Poison] = []
    for first in range(0, len(RECORDS), size):
        poisons += apply(store, RECORDS[first : first + size], first)
    with store.snapshot() as snapshot:
        rows = {row["_key"]: row for row in snapshot.query(SqlQuery("SELECT * FROM v", limit=10_000))}
    store.close()
    wrong = {poison.key: poison.error for poison in poisons}
    found = [
        (case, rows[key.decode()][column_of(case)] if key.decode() in rows else POISON)
        for (key, _), case in zip(RECORDS, CASES, strict=True)
    ]
    assert wrong_cells("SQL view", found) == []
    for (key, _), case in zip(RECORDS, CASES, strict=True):
        assert why(case) in wrong.get(key, ""), case


def why(case: Case) -> str:
    """What an error says of the case; nothing where there is none."""
    if case.value == LACKING:
        return f"the field '{column_of(case)}' is missing or null"
    return (
        f"{column_of(case)} is not {case.type.removesuffix(' NOT NULL')} but {case.text}"
        if case.value == MISFIT
        else ""
    )


def test_a_lake_has_what_fits_and_an_error_beside_the_rest(tmp_path: Path) -> None:
    store = opened(tmp_path, Lake())
    apply(store, RECORDS)
    with store.snapshot() as snapshot:
        rows = snapshot.query(SqlQuery("SELECT * FROM v ORDER BY _offset", limit=10_000))
    store.close()
    assert wrong_cells("lake", [(case, row[column_of(case)]) for row, case in zip(rows, CASES, strict=True)]) == []
    for row, case in zip(rows, CASES, strict=True):
        assert why(case) in (row["_error"] or ""), case
        assert bool(row["_error"]) == bool(why(case)), case


MEASURED = [case for case in CASES if case.type == "DOUBLE" or case.type.startswith("DECIMAL")]


@pytest.mark.parametrize("case", MEASURED, ids=lambda case: f"{case.type} {case.text}")
def test_a_metrics_view_counts_doubles_and_decimals_and_the_rest_is_poison(tmp_path: Path, case: Any) -> None:
    store = opened(tmp_path, Metrics(values=(column_of(case),)))
    poisons = apply(store, [(None, value_of(case))])
    with store.snapshot() as snapshot:
        rows = snapshot.query(MetricsQuery())
    store.close()
    assert len(poisons) == (case.value == MISFIT)
    assert [row["records"] for row in rows] == ([] if case.value == MISFIT else [1])
    if case.value not in (MISFIT, None):
        assert rows[0]["values"][column_of(case)]["sum"] == float(case.value)


def test_a_fold_gets_the_json_value_whatever_its_column(tmp_path: Path) -> None:
    def kept(_: Any, record: FoldRecord) -> Any:
        return {name: [type(value).__name__, value] for name, value in record.value.items()}

    store = opened(tmp_path, KeyValue(fold=kept, initial={}))
    assert apply(store, RECORDS) == []
    rows = {row["_key"]: row for row in store.query(RangeQuery(limit=10_000)).rows}
    store.close()
    for (key, _), case in zip(RECORDS, CASES, strict=True):
        row = rows[key.decode()]
        if case.text == MISSING:
            assert column_of(case) not in row
            continue
        value = json.loads(case.text, parse_constant=lambda _: None)
        value = case.text if value == float("inf") else value
        assert row[column_of(case)] == [type(value).__name__, value], case
