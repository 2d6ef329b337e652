"""Any history of any records: the sink has the rows of the SQL view, and the two call the same records poison."""

from __future__ import annotations

import itertools
import json
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mainstem.pipelines.kinds import SQL
from mainstem.schema.encoding import encode_key, encode_value
from mainstem.schema.infer import schema_of
from mainstem.views.requests import GetQuery, RangeQuery, SqlQuery
from mainstem.views.stores.store import Poison, StoreDefinition, ViewStore
from mainstem.views.stores.store_kinds import open_store
from tests.sinks.databases import SinkDatabase
from tests.sinks.support import definition, serving
from tests.support.type_matrix import CASES, DDL, value_of
from tests.views.support import KeyAndValue, apply

SCHEMA = schema_of(DDL)
_NUMBERS = itertools.count()
_TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=6)
_KEYS = st.sampled_from(["", "a", "b", "%s", "\\\\.", "é", "{}", "0"]) | _TEXT
_VALUES = (
    st.none()
    | st.sampled_from(CASES).map(value_of)
    | _TEXT.map(lambda text: json.dumps({"c0": text, "c22": 1, "c16": {"b": []}}).encode())
    | st.binary(max_size=8)
)
_RECORDS = st.lists(st.tuples(_KEYS.map(str.encode), _VALUES), max_size=25)


_PARTS = {
    "a": st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=8),
    "b": st.integers(-(2**63), 2**63 - 1),
    "c": st.booleans(),
    "d": st.dates(),
}
_KEYED = schema_of("a STRING, b BIGINT, c BOOLEAN, d DATE, more STRING")


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(
    key=st.lists(st.sampled_from("abcd"), min_size=1, unique=True),
    rows=st.lists(st.fixed_dictionaries(_PARTS), min_size=1, max_size=8),
)
def test_a_row_and_its_records_key_name_each_other(
    sink_database: SinkDatabase, key: list[str], rows: list[dict[str, Any]]
) -> None:
    of = definition(sink_database, _KEYED, tuple(key), f"k{next(_NUMBERS)}")
    records = [(encode_key(row, key), encode_value(row)) for row in rows]
    with tempfile.TemporaryDirectory() as directory, serving(Path(directory) / "sink", of) as sink:
        assert applied(sink, records, 3) == []
        names = [row["_key"].encode() for row in sink.query(RangeQuery(limit=1_000)).rows]
        assert names == sorted({name for name, _ in records if name is not None})
        for name in names:
            assert len(sink.query(GetQuery(name.decode())).rows) == 1
        assert applied(sink, [(name, None) for name in names], 3) == []
        assert sink.count() == 0


def applied(store: ViewStore, records: list[KeyAndValue], size: int) -> list[int]:
    """The offsets that were poison."""
    poisons: list[Poison] = []
    for first in range(0, len(records), size):
        poisons += apply(store, records[first : first + size], first)
    return [poison.offset for poison in poisons]


def read(row: dict[str, Any]) -> dict[str, Any]:
    """A row whose JSON columns are read."""
    nested = {column.name for column in SCHEMA.columns if column.type.startswith(("ARRAY", "MAP", "STRUCT"))}
    return {
        name: json.loads(value, parse_constant=lambda _: None) if name in nested and isinstance(value, str) else value
        for name, value in row.items()
    }


@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(records=_RECORDS, size=st.integers(1, 25))
def test_a_sink_is_as_a_sql_view(sink_database: SinkDatabase, records: list[KeyAndValue], size: int) -> None:
    of = definition(sink_database, SCHEMA, (), f"t{next(_NUMBERS)}")
    with tempfile.TemporaryDirectory() as directory:
        sql = open_store(Path(directory) / "sql", StoreDefinition("v", SQL(), SCHEMA))
        with serving(Path(directory) / "sink", of) as sink:
            assert applied(sink, records, size) == applied(sql, records, size)
            rows = sink.query(RangeQuery(limit=1_000)).rows
        wanted = sql.query(SqlQuery("SELECT * FROM v ORDER BY encode(_key)")).rows
        sql.close()
    assert [read(row) for row in rows] == [read(row) for row in wanted]
