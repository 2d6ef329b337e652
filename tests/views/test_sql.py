from __future__ import annotations

import datetime
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

from mainstem.errors import QueryError, StorageError
from mainstem.pipelines.kinds import SQL
from mainstem.schema.types import Column, TopicSchema
from mainstem.views.requests import SqlQuery
from mainstem.views.stores.sql.sql import SqlStore
from mainstem.views.stores.sql.sql_queries import REFUSED_FUNCTIONS
from mainstem.views.stores.store import StoreDefinition
from tests.views.support import SCHEMA, apply, flight, tombstone


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SqlStore]:
    """One store for all tests: none of them may be able to change it."""
    opened = SqlStore(tmp_path_factory.mktemp("sql") / "store", StoreDefinition("routes", SQL(), SCHEMA))
    apply(opened, [flight("1", "A", "B", 10), flight("2", "B", "C", 20), flight("3", "B", "D", 30)])
    yield opened
    opened.close()


def rows(store: SqlStore, query: str, **limits: Any) -> list[dict[str, Any]]:
    return store.query(SqlQuery(query, **limits)).rows


def test_the_table_has_the_view_s_name_the_key_and_the_schema_s_columns(store: SqlStore) -> None:
    assert rows(store, "SELECT * FROM routes ORDER BY miles LIMIT 1") == [
        {"_key": "1", "origin": "A", "dest": "B", "miles": 10}
    ]


def test_any_select_is_answered(store: SqlStore) -> None:
    query = "WITH far AS (SELECT * FROM routes WHERE miles > 10) SELECT origin, sum(miles) AS miles FROM far GROUP BY 1"
    assert rows(store, query) == [{"origin": "B", "miles": 50}]
    assert rows(store, "VALUES (1)") == [{"col0": 1}]


def test_two_columns_of_one_name_are_both_answered(store: SqlStore) -> None:
    assert rows(store, "SELECT 1 AS a, 2 AS a") == [{"a": 1, "a_2": 2}]


@pytest.mark.parametrize(
    ("query", "quoted"),
    [
        ("SELECT * FROM by-id", '"by-id"'),
        ('SELECT at, miles FROM "by-id"', '"at"'),
        ("SELECT max(at) FROM by-id", '"at", "by-id"'),
    ],
)
def test_a_name_that_needs_quotes_is_named_in_the_parser_s_error(tmp_path: Path, query: str, quoted: str) -> None:
    schema = TopicSchema((Column("at", "INT"), Column("miles", "INT")))
    opened = SqlStore(tmp_path / "store", StoreDefinition("by-id", SQL(), schema))
    with pytest.raises(QueryError, match="syntax error") as caught:
        rows(opened, query)
    assert str(caught.value).endswith(f"; write in double quotes: {quoted}")
    with pytest.raises(QueryError) as caught:
        rows(opened, 'SELEC "at" FROM "by-id"')
    assert "double quotes" not in str(caught.value)
    assert rows(opened, 'SELECT "at" FROM "by-id"') == []
    opened.close()


WRITES = [
    "INSERT INTO routes VALUES ('9', 'X', 'Y', 1)",
    "UPDATE routes SET miles = 0",
    "DELETE FROM routes",
    "DROP TABLE routes",
    "CREATE TABLE mine AS SELECT 1",
    "ALTER TABLE routes ADD COLUMN x INT",
    "WITH gone AS (DELETE FROM routes RETURNING *) SELECT * FROM gone",
    "WITH new AS (INSERT INTO routes VALUES ('9', 'X', 'Y', 1) RETURNING *) SELECT * FROM new",
    "UPDATE _mainstem.bookmark SET document = '{}'",
    "SELECT 1; DELETE FROM routes",
    "COMMIT",
    "BEGIN; DELETE FROM routes; COMMIT",
    "EXPLAIN ANALYZE DELETE FROM routes",
    "PRAGMA threads=1",
    "SET memory_limit='10GB'",
    "CHECKPOINT",
    "ATTACH ':memory:' AS other",
    "CALL force_checkpoint()",
]


@pytest.mark.parametrize("query", WRITES)
def test_nothing_can_be_written(store: SqlStore, query: str) -> None:
    digest = store.digest()
    with pytest.raises(QueryError):
        store.query(SqlQuery(query))
    assert store.digest() == digest


WITH_EFFECTS = [
    "FROM checkpoint()",
    "SELECT count(*) FROM system.main.Force_Checkpoint()",
    "SELECT 1 WHERE EXISTS (FROM checkpoint())",
    "WITH x AS MATERIALIZED (FROM checkpoint()) SELECT * FROM x",
    "DESCRIBE FROM checkpoint()",
    "FROM query('FROM checkpoint()')",
    "SELECT * FROM json_execute_serialized_sql(json_serialize_sql('FROM checkpoint()'))",
    "FROM enable_logging()",
    "FROM enable_profiling()",
    "FROM truncate_duckdb_logs()",
    "SELECT write_log('mine')",
    "SELECT * FROM arrow_scan(1::POINTER, 2::POINTER, 3::POINTER)",
    "FROM python_map_function(1)",
]


@pytest.mark.parametrize("query", WITH_EFFECTS)
def test_a_query_cannot_do_anything_by_a_function(store: SqlStore, query: str) -> None:
    with pytest.raises(QueryError, match=r"may not use \w+"):
        store.query(SqlQuery(query))


def test_a_query_writes_no_checkpoint(tmp_path: Path) -> None:
    store = SqlStore(tmp_path / "store", StoreDefinition("routes", SQL(), SCHEMA))
    apply(store, [flight(str(number), "A", "B", number) for number in range(100)])
    before = {path.name: path.read_bytes() for path in (tmp_path / "store").iterdir()}
    with pytest.raises(QueryError):
        store.query(SqlQuery("FROM checkpoint()"))
    assert {path.name: path.read_bytes() for path in (tmp_path / "store").iterdir()} == before
    store.close()


@pytest.mark.parametrize(
    "query",
    [
        "SELECT range AS n FROM range(1)",
        "SELECT 0 AS n FROM (VALUES ('FROM checkpoint()')) AS texts(checkpoint)",
        "SELECT 0 AS n FROM unnest([1]), json_each('[1]')",
        "SELECT 0 AS n FROM duckdb_tables() WHERE table_name = 'routes'",
    ],
)
def test_functions_that_only_make_rows_may_be_used(store: SqlStore, query: str) -> None:
    assert rows(store, query) == [{"n": 0}]


def test_every_function_that_is_not_the_same_each_time_is_known(store: SqlStore) -> None:
    harmless = [
        "currval",
        "current_query",
        "error",
        "gen_random_uuid",
        "random",
        "sleep_ms",
        "stats",
        "uuid",
        "uuidv4",
        "uuidv7",
        "vector_type",
    ]
    harmless += [f"current_{what}_id" for what in ("connection", "query", "transaction")]
    volatile = "SELECT DISTINCT function_name FROM duckdb_functions() WHERE stability = 'VOLATILE'"
    assert {row["function_name"] for row in rows(store, volatile)} <= REFUSED_FUNCTIONS | {*harmless}


OUTSIDE = [
    "SELECT * FROM read_csv('/etc/passwd')",
    "SELECT * FROM '/etc/passwd'",
    "SELECT * FROM read_text('/etc/passwd')",
    "SELECT * FROM read_parquet('https://example.com/x.parquet')",
    "SELECT * FROM glob('/*')",
    "SELECT * FROM read_json('/etc/passwd')",
    "SELECT * FROM read_blob('/etc/passwd')",
    "SELECT * FROM sniff_csv('/etc/passwd')",
    "SELECT * FROM parquet_metadata('/etc/passwd')",
    "SELECT * FROM 'http://127.0.0.1:1/x.csv'",
    "SELECT getenv('HOME')",
    "SELECT * FROM query('SELECT 1')",
    "SELECT * FROM duckdb_secrets()",
    "ATTACH '/tmp/stolen.duckdb' AS stolen",
    "SET enable_external_access = true",
    "SELECT * FROM which_secret('x', 's3')",
    "COPY routes TO '/tmp/stolen.csv'",
    "INSTALL httpfs",
    "LOAD httpfs",
    "EXPORT DATABASE '/tmp/stolen'",
]


@pytest.mark.parametrize("query", OUTSIDE)
def test_nothing_outside_the_view_can_be_reached(store: SqlStore, query: str) -> None:
    with pytest.raises(QueryError):
        store.query(SqlQuery(query))


def test_no_variable_of_the_process_can_be_read(store: SqlStore) -> None:
    secret = duckdb.sql("SELECT 'secret' AS word").to_arrow_table()
    with pytest.raises(QueryError, match="secret"):
        store.query(SqlQuery("SELECT * FROM secret"))
    assert len(secret) == 1


@pytest.mark.parametrize(
    "query",
    [
        "SELECT count(*) FROM range(1000000000000)",
        "WITH RECURSIVE x AS (SELECT 1 AS a UNION ALL SELECT a + 1 FROM x) SELECT count(*) FROM x",
        "SELECT count(*) FROM range(1000000) a, range(1000000) b WHERE a.range + b.range = 5",
    ],
)
def test_a_query_that_never_ends_is_interrupted(store: SqlStore, query: str) -> None:
    with pytest.raises(QueryError, match=r"time limit of 0\.2 s"):
        store.query(SqlQuery(query, timeout_s=0.2))
    assert rows(store, "SELECT count(*) AS n FROM routes") == [{"n": 3}]


def test_a_table_that_is_not_there_is_answered_with_the_one_that_is(store: SqlStore) -> None:
    with pytest.raises(QueryError, match=r"Table with name x does not exist; the view's table has the view's name$"):
        store.query(SqlQuery("SELECT * FROM x"))


def test_more_rows_than_the_limit_are_an_error_and_not_a_cut(store: SqlStore) -> None:
    assert len(rows(store, "SELECT * FROM routes", limit=3)) == 3
    with pytest.raises(QueryError, match="more than 2 rows"):
        store.query(SqlQuery("SELECT * FROM routes", limit=2))
    with pytest.raises(QueryError, match="more than 10 rows"):
        store.query(SqlQuery("SELECT * FROM range(100000000000)", limit=10))


@pytest.mark.parametrize(
    "query", ["SELEC 1", "SELECT nothing FROM routes", "", "   ", "-- only a comment", "SELECT 1/", "SELECT '\ud800'"]
)
def test_a_wrong_query_is_one_clear_line(store: SqlStore, query: str) -> None:
    with pytest.raises(QueryError) as caught:
        store.query(SqlQuery(query))
    assert str(caught.value)
    assert "\n" not in str(caught.value)


TYPES = {
    "STRING": ("text", "text"),
    "BOOLEAN": (True, True),
    "TINYINT": (-7, -7),
    "SMALLINT": (300, 300),
    "INT": (70_000, 70_000),
    "BIGINT": (2**62, 2**62),
    "FLOAT": (0.5, 0.5),
    "DOUBLE": (0.1, 0.1),
    "DECIMAL(10,2)": ("12.30", "12.30"),
    "DATE": ("2013-01-31", "2013-01-31"),
    "TIMESTAMP": ("2013-01-01T12:00:00+02:00", "2013-01-01T10:00:00Z"),
    "TIMESTAMP_NTZ": ("2013-01-01T12:00:00", "2013-01-01T12:00:00"),
    "BINARY": ("AAE=", "AAE="),
    "ARRAY<INT>": ([1, 2], "[1,2]"),
    "STRUCT<a: INT>": ({"a": 1}, '{"a":1}'),
}


def typed_store(path: Path, *columns: Column) -> SqlStore:
    return SqlStore(path, StoreDefinition("typed", SQL(), TopicSchema(columns)))


@pytest.mark.parametrize("spark_type", TYPES)
def test_a_column_has_the_type_of_the_schema(tmp_path: Path, spark_type: str) -> None:
    store = typed_store(tmp_path, Column("c", spark_type))
    given, answered = TYPES[spark_type]
    poisons = apply(store, [(b"1", json.dumps({"c": given}).encode()), (b"2", b'{"c": null}'), (b"3", b"{}")])
    assert poisons == []
    assert [row["c"] for row in rows(store, "SELECT c FROM typed ORDER BY _key")] == [answered, None, None]
    store.close()


def test_a_value_that_does_not_fit_its_column_is_poison(tmp_path: Path) -> None:
    store = typed_store(tmp_path, Column("n", "INT"), Column("must", "STRING", nullable=False))
    good = b'{"n": 1, "must": "x"}'
    bad = [b'{"n": "many", "must": "x"}', b'{"n": 99999999999, "must": "x"}', b'{"n": 1}', b'{"n": 1, "must": null}']
    poisons = apply(store, [(b"1", good), *((b"1", value) for value in bad)])
    assert [poison.value for poison in poisons] == bad
    assert 'n is not INT but "many"' in poisons[0].error
    assert "'must' is missing or null" in poisons[2].error
    assert rows(store, "SELECT n, must FROM typed") == [{"n": 1, "must": "x"}]
    store.close()


def test_a_topic_without_a_schema_has_one_json_column(tmp_path: Path) -> None:
    store = SqlStore(tmp_path, StoreDefinition("raw", SQL()))
    apply(store, [(b"1", b'{"a": {"b": 5}}'), (b"2", b'{"x": 1}'), tombstone("2")])
    assert rows(store, "SELECT _key, value->>'$.a.b' AS b FROM raw") == [{"_key": "1", "b": "5"}]
    store.close()


def test_names_may_be_any_text(tmp_path: Path) -> None:
    columns = (Column('a "b" c', "INT"), Column("select", "STRING"), Column("ünï'q", "STRING"), Column("$x.y", "INT"))
    store = SqlStore(tmp_path, StoreDefinition("my-view.v2", SQL(), TopicSchema(columns)))
    row = {'a "b" c': 1, "select": "s", "ünï'q": "u", "$x.y": 4}
    apply(store, [(b"1", json.dumps(row).encode()), (b"2", json.dumps({**row, "$x.y": "no"}).encode())])
    assert rows(store, 'SELECT * EXCLUDE (_key) FROM "my-view.v2"') == [row]
    store.close()


def test_more_rows_than_one_statement_takes_are_applied(tmp_path: Path) -> None:
    store = typed_store(tmp_path, Column("n", "INT"))
    apply(store, [(b"%d" % n, b'{"n": %d}' % n) for n in range(60_000)])
    assert rows(store, "SELECT count(*) AS rows, sum(n) AS total FROM typed") == [
        {"rows": 60_000, "total": sum(range(60_000))}
    ]
    store.close()


def test_times_are_answered_in_utc_wherever_the_machine_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "America/New_York")
    store = typed_store(tmp_path, Column("t", "TIMESTAMP"))
    apply(store, [(b"1", b'{"t": "2013-07-01T10:00:00Z"}')])
    assert rows(store, "SELECT t, date_trunc('day', t) AS day FROM typed") == [
        {"t": "2013-07-01T10:00:00Z", "day": "2013-07-01T00:00:00Z"}
    ]
    assert datetime.datetime.fromisoformat("2013-07-01T10:00:00+00:00").tzinfo is not None
    store.close()


def test_a_file_that_is_no_database_is_a_storage_error(tmp_path: Path) -> None:
    (tmp_path / "view.duckdb").write_bytes(b"x" * 8192)
    with pytest.raises(StorageError, match="cannot be opened"):
        SqlStore(tmp_path, StoreDefinition("routes", SQL(), SCHEMA))


EXTREMES: dict[str, tuple[Any, ...]] = {
    "STRING": ("", "Ünï\u2028", "o'clock; --", "a\u0000b", "x" * 10_000),
    "BOOLEAN": (True, False),
    "TINYINT": (-128, 127),
    "SMALLINT": (-32_768, 32_767),
    "INT": (-(2**31), 2**31 - 1),
    "BIGINT": (-(2**63), 2**63 - 1, 2**53 + 1),
    "FLOAT": (0.1, -0.0, 3.4028234663852886e38, 1e-45),
    "DOUBLE": (0.1, -0.0, 1.7976931348623157e308, 5e-324, 1),
    "DATE": ("0001-01-01", "9999-12-31"),
    "TIMESTAMP": ("2013-01-01T05:00:00Z", "1969-12-31T23:59:59.999999+14:00", "9999-12-31T23:59:59.999999Z"),
    "TIMESTAMP_NTZ": ("2013-01-01 05:00:00.000001", "0001-01-01 00:00:00", "9999-12-31 23:59:59"),
    "DECIMAL(38,10)": ("9999999999999999999999999999.9999999999", "-0.0000000001", 0),
    "BINARY": ("AAEC",),
    "STRUCT<a: INT, b: ARRAY<STRING>>": ({"a": 1, "b": ["x", None]}, {}),
    "MAP<STRING, DOUBLE>": ({"é": 1e300},),
}


@pytest.mark.parametrize("spark_type", EXTREMES)
def test_a_record_alone_becomes_the_row_that_it_becomes_among_many(tmp_path: Path, spark_type: str) -> None:
    values = [json.dumps({"v": value}).encode() for value in (*EXTREMES[spark_type], None)]
    records = [(f"k{number}".encode(), values[number % len(values)]) for number in range(20)]
    digests = []
    for name, size in (("alone", 1), ("together", 20)):
        store = typed_store(tmp_path / name, Column("v", spark_type))
        poisons = [
            poison for first in range(0, 20, size) for poison in apply(store, records[first : first + size], first)
        ]
        assert poisons == []
        snapshot = store.snapshot()
        digests.append((snapshot.digest(), list(snapshot.entries())))
        snapshot.close()
        store.close()
    assert digests[0] == digests[1]


def test_a_query_is_explained_and_not_run(store: SqlStore) -> None:
    [row] = rows(store, "SELECT count(*) FROM routes, range(100000000000)", explain=True)
    assert "routes" in row["plan"]
    assert "Total Time" not in row["plan"]  # as EXPLAIN ANALYZE would say
    with pytest.raises(QueryError, match=r"nope.*\(line 2, column 3\)"):
        rows(store, "SELECT 1,\n  nope FROM routes", explain=True)


@pytest.mark.parametrize(
    "query", [*WRITES, *WITH_EFFECTS, "ANALYZE SELECT 1", "(FORMAT json) SELECT 1", "SELECT 1; SELECT 2"]
)
def test_nothing_is_explained_that_would_not_run(store: SqlStore, query: str) -> None:
    digest = store.digest()
    with pytest.raises(QueryError):
        rows(store, query, explain=True)
    assert store.digest() == digest


def test_a_plan_without_end_is_refused(store: SqlStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mainstem.views.stores.sql.sql_queries.PLAN_CHARS_MAX", 50)
    with pytest.raises(QueryError, match="explain parts of the query"):
        rows(store, "SELECT * FROM routes", explain=True)
