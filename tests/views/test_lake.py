from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog.sql import SqlCatalog

from mainstem.errors import DefinitionError, MissingDependencyError, QueryError, StorageError, UnavailableError
from mainstem.lake.installed import require_iceberg
from mainstem.lake.reading import read_lake
from mainstem.model import Position
from mainstem.pipelines.kinds import Lake
from mainstem.schema.types import Column, TopicSchema
from mainstem.views.requests import SqlQuery
from mainstem.views.stores.lake.lake import LakeLimits, LakeStore
from mainstem.views.stores.store import Bookmark, StoreDefinition, no_dead_letters
from mainstem.views.verification.verify import differences
from tests.views.support import SCHEMA, TOPIC, apply, arrow_batch, flight, history, tombstone

AT_ONCE = LakeLimits(commit_s=0.0)


def open_lake(path: Path, schema: TopicSchema | None = SCHEMA, limits: LakeLimits = AT_ONCE) -> LakeStore:
    return LakeStore(path, StoreDefinition("routes", Lake(), schema), limits)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[LakeStore]:
    opened = open_lake(tmp_path / "lake")
    yield opened
    opened.close()


def rows(store: LakeStore, query: str, **limits: Any) -> list[dict[str, Any]]:
    return store.query(SqlQuery(query, **limits)).rows


def settle(store: LakeStore, times: int = 1) -> None:
    for _ in range(times):
        store.settle()


def data_files(path: Path) -> list[Path]:
    return sorted((path / "table" / "data").glob("*.parquet"))


def test_every_record_is_a_row_tombstones_too(store: LakeStore) -> None:
    apply(store, [flight("1", "A", "B", 10), flight("1", "A", "C", 20), tombstone("1")])
    found = rows(store, "SELECT _offset, decode(_key) AS key, _value IS NULL AS gone, dest, miles FROM routes")
    assert found == [
        {"_offset": 0, "key": "1", "gone": False, "dest": "B", "miles": 10},
        {"_offset": 1, "key": "1", "gone": False, "dest": "C", "miles": 20},
        {"_offset": 2, "key": "1", "gone": True, "dest": None, "miles": None},
    ]


@pytest.mark.parametrize("value", [b"not json", b'{"miles": "many"}', b"\xff", b"[1]"])
def test_a_value_that_does_not_fit_is_kept_with_the_reason_and_is_no_dead_letter(
    store: LakeStore, value: bytes
) -> None:
    assert apply(store, [flight("1", "A", "B"), (b"\xff", value)]) == []
    [row] = rows(store, "SELECT hex(_value) AS value, origin, miles, _error FROM routes WHERE _error IS NOT NULL")
    assert (bytes.fromhex(row["value"]), row["origin"], row["miles"]) == (value, None, None)
    assert "value" in row["_error"]
    assert store.bookmark.dead_letters == 0


def test_queries_see_what_is_committed_and_what_is_not_yet(tmp_path: Path) -> None:
    store = open_lake(tmp_path, limits=LakeLimits(commit_s=3600))
    apply(store, [flight("1", "A", "B")])
    store.commit()
    apply(store, [flight("2", "A", "C")], 1)
    settle(store)
    assert len(data_files(tmp_path)) == 1
    assert rows(store, "SELECT dest FROM routes ORDER BY _offset") == [{"dest": "B"}, {"dest": "C"}]
    store.close()


def test_a_lake_commits_when_enough_was_gathered(tmp_path: Path) -> None:
    store = open_lake(tmp_path, limits=LakeLimits(commit_bytes=1, commit_s=3600))
    apply(store, [flight("1", "A", "B")])
    apply(store, [flight("2", "A", "B")], 1)
    assert len(data_files(tmp_path)) == 1
    store.close()


def test_what_was_not_committed_is_gone_after_a_crash_and_comes_again(tmp_path: Path) -> None:
    crashed = open_lake(tmp_path, limits=LakeLimits(commit_s=3600))
    apply(crashed, [flight("1", "A", "B")])
    crashed.commit()
    apply(crashed, [flight("2", "A", "C")], 1)
    again = open_lake(tmp_path)
    assert (again.position, again.count()) == (Position.of(TOPIC, 0, 1), 1)
    apply(again, [flight("2", "A", "C")], 1)
    assert again.digest() == crashed.digest()
    again.close()


def seen(store: LakeStore) -> tuple[object, ...]:
    everything = rows(store, "SELECT * FROM routes ORDER BY _partition, _offset")
    return store.digest(), store.bookmark, store.count(), everything


def test_small_files_become_one_and_nothing_else_changes(tmp_path: Path) -> None:
    store = open_lake(tmp_path)
    for number in range(8):
        apply(store, history(number, 20), number * 20)
        store.commit()
    before = seen(store)
    settle(store)
    assert len(store.statistics().files) == 1
    assert seen(store) == before
    store.close()
    again = open_lake(tmp_path)
    assert seen(again) == before
    again.close()


def test_a_file_that_was_replaced_stays_for_whoever_reads_it(store: LakeStore, tmp_path: Path) -> None:
    for number in range(8):
        apply(store, [flight("1", "A", "B", number)], number)
        settle(store)
    with store.snapshot() as snapshot:
        settle(store)
        assert len(store.statistics().files) == 1
        assert snapshot.count() == len(snapshot.query(SqlQuery("SELECT * FROM routes"))) == 8
    store.close()
    again = open_lake(tmp_path / "lake")
    assert len(data_files(tmp_path / "lake")) == 9
    again.close()


def test_files_of_a_killed_commit_are_removed_at_the_opening(tmp_path: Path) -> None:
    store = open_lake(tmp_path)
    apply(store, [flight("1", "A", "B")])
    store.close()
    strays = [tmp_path / "table" / part / "0000000009-0000-stray.parquet" for part in ("data", "metadata")]
    for stray in strays:
        stray.write_bytes(b"half of a fi")
    again = open_lake(tmp_path)
    assert (again.count(), [stray.exists() for stray in strays]) == (1, [False, False])
    again.close()


def test_a_file_is_sorted_by_partition_and_offset(store: LakeStore, tmp_path: Path) -> None:
    batch = arrow_batch([flight("1", "A", "B"), flight("2", "A", "B"), flight("3", "A", "B")])
    partitions = batch.set_column(
        batch.schema.get_field_index("partition"), "partition", pa.array([1, 0, 1], pa.int32())
    )
    store.apply(partitions, Bookmark(Position.parse("routes/0:2,routes/1:3")), no_dead_letters)
    store.commit()
    [file] = data_files(tmp_path / "lake")
    table = pq.read_table(file)
    assert table.column("_partition").to_pylist() == [0, 1, 1]
    assert table.column("_offset").to_pylist() == [1, 0, 2]


EVERY_TYPE = "TINYINT SMALLINT BIGINT FLOAT DOUBLE BOOLEAN DATE TIMESTAMP TIMESTAMP_NTZ DECIMAL(9,2) BINARY ARRAY<INT>"
TYPES = TopicSchema(tuple(Column(n.lower().partition("(")[0].partition("<")[0], n) for n in EVERY_TYPE.split()))


def test_every_type_of_a_schema_is_kept(tmp_path: Path) -> None:
    value = {
        "tinyint": 1,
        "smallint": 2,
        "bigint": 1 << 60,
        "float": 0.5,
        "double": 0.1,
        "boolean": True,
        "date": "2026-01-02",
        "timestamp": "2026-01-02T03:04:05Z",
        "timestamp_ntz": "2026-01-02T03:04:05",
        "decimal": "1.25",
        "binary": "AAE=",
        "array": [1, 2],
    }
    store = open_lake(tmp_path, TYPES)
    apply(store, [(b"1", json.dumps(value).encode())])
    gathered = rows(store, "SELECT * EXCLUDE (_key, _value) FROM routes")
    store.commit()
    assert rows(store, "SELECT * EXCLUDE (_key, _value) FROM routes") == gathered
    assert {name: gathered[0][name] for name in value} == {**value, "array": "[1,2]"}
    store.close()


def test_a_topic_without_a_schema_is_kept_as_records(tmp_path: Path) -> None:
    store = open_lake(tmp_path, None)
    apply(store, [(None, b"anything"), (b"k", None)])
    assert rows(store, "SELECT decode(_value) AS value, _error FROM routes WHERE _value IS NOT NULL") == [
        {"value": "anything", "_error": None}
    ]
    store.close()


def test_columns_that_the_schema_gains_are_filled_for_older_records_too(tmp_path: Path) -> None:
    store = open_lake(tmp_path, TopicSchema((Column("origin", "STRING"),)))
    apply(store, [flight("1", "A", "B", 7), flight("2", "B", "C", 8)])
    store.close()
    again = open_lake(tmp_path)
    with pytest.raises(UnavailableError, match="schema"):
        again.digest()
    assert rows(again, "SELECT origin, miles FROM routes WHERE _offset = 0") == [{"origin": "A", "miles": None}]
    settle(again)
    assert rows(again, "SELECT origin, miles FROM routes WHERE _offset = 0") == [{"origin": "A", "miles": 7}]
    fresh = open_lake(tmp_path / "fresh")
    apply(fresh, [flight("1", "A", "B", 7), flight("2", "B", "C", 8)])
    assert again.digest() == fresh.digest()


def test_a_column_that_the_schema_loses_is_left_out_and_the_view_goes_on(tmp_path: Path) -> None:
    records = [flight("1", "A", "B", 7), (b"2", b'{"origin": "B", "miles": "many"}')]
    store = open_lake(tmp_path / "lake")
    apply(store, records)
    store.close()
    fewer = TopicSchema((Column("origin", "STRING"),))
    again, fresh = open_lake(tmp_path / "lake", fewer), open_lake(tmp_path / "fresh", fewer)
    settle(again)
    apply(fresh, records)
    for each in (again, fresh):
        apply(each, [flight("3", "B", "C")], 2)
        each.commit()
    assert again.digest() == fresh.digest()
    assert rows(again, "SELECT * EXCLUDE (_timestamp) FROM routes WHERE _error IS NOT NULL") == []
    for each in (again, fresh):
        each.close()


def test_a_column_that_comes_back_is_filled_for_the_records_that_came_meanwhile(tmp_path: Path) -> None:
    for number, schema in enumerate((SCHEMA, TopicSchema((Column("origin", "STRING"),)), SCHEMA)):
        store = open_lake(tmp_path, schema)
        settle(store, number)
        apply(store, [flight(str(number), "A", "B", number)], number)
        store.close()
    store = open_lake(tmp_path)
    settle(store, 3)
    assert rows(store, "SELECT miles FROM routes ORDER BY _offset") == [{"miles": 0}, {"miles": 1}, {"miles": 2}]
    store.close()


@pytest.mark.parametrize("timestamp_us", [253_402_300_800_000_000, -62_135_596_800_000_001, (1 << 63) // 1000 * 1000])
def test_a_time_that_no_calendar_has_is_kept(tmp_path: Path, timestamp_us: int) -> None:
    store = open_lake(tmp_path)
    batch = arrow_batch([flight("1", "A", "B")])
    field = batch.schema.field("timestamp")
    times = pa.array([min(timestamp_us, (1 << 63) - 1_000)], field.type)
    far = batch.set_column(batch.schema.get_field_index("timestamp"), field, times)
    store.apply(far, Bookmark(Position.of(TOPIC, 0, 1)), no_dead_letters)
    before = seen(store)
    store.commit()
    assert seen(store) == before
    assert len(data_files(tmp_path)) == 1
    [table] = read_lake(tmp_path).records(0)
    assert table.column("_timestamp").cast(pa.int64()).to_pylist() == times.cast(pa.int64()).to_pylist()
    store.close()


def test_a_column_that_changes_its_type_asks_for_a_rebuild(tmp_path: Path) -> None:
    open_lake(tmp_path).close()
    with pytest.raises(StorageError, match=r"miles: int32 → string.*rebuild"):
        open_lake(tmp_path, TopicSchema((Column("miles", "STRING"),)))


def test_a_column_may_not_have_the_name_of_the_record_s_own(tmp_path: Path) -> None:
    with pytest.raises(DefinitionError, match="_value"):
        open_lake(tmp_path, TopicSchema((Column("_value", "STRING"),)))


FORBIDDEN = [
    "INSERT INTO routes VALUES (1)",
    "COPY routes TO 'x.parquet'",
    "SELECT * FROM read_text('/etc/passwd')",
    "SELECT * FROM read_parquet('{lake}/table/data/*.parquet')",
    "SELECT * FROM glob('{lake}/*')",
    "SELECT * FROM sqlite_scan('{lake}/catalog.db', 'iceberg_tables')",
    "SET memory_limit = '10GB'",
    "ATTACH '{lake}/catalog.db'",
    "SELECT 1; SELECT 2",
    "SELECT getenv('HOME')",
]


@pytest.mark.parametrize("query", FORBIDDEN)
def test_queries_touch_nothing_but_the_files_of_their_snapshot(store: LakeStore, tmp_path: Path, query: str) -> None:
    apply(store, [flight("1", "A", "B")])
    store.commit()
    with pytest.raises(QueryError):
        rows(store, query.replace("{lake}", str(tmp_path / "lake")))
    assert store.count() == 1


def test_a_query_that_runs_or_answers_too_long_is_an_error(store: LakeStore) -> None:
    apply(store, [flight("1", "A", "B"), flight("2", "A", "B")])
    with pytest.raises(QueryError, match="more than 1 rows"):
        rows(store, "SELECT * FROM routes", limit=1)
    with pytest.raises(QueryError, match="time limit"):
        rows(store, "SELECT count(*) FROM range(100000000000)", timeout_s=0.2)


def test_duckdb_reads_the_files_by_itself(store: LakeStore, tmp_path: Path) -> None:
    apply(store, [flight("1", "A", "B", 10)])
    store.commit()
    found = duckdb.sql(f"SELECT origin, miles FROM '{tmp_path}/lake/table/data/*.parquet'").fetchall()
    assert found == [("A", 10)]


def test_the_content_is_a_function_of_the_position_over_any_cut_and_upkeep(tmp_path: Path) -> None:
    records = history(5, 300)
    whole = open_lake(tmp_path / "whole")
    apply(whole, records)
    cut = open_lake(tmp_path / "cut")
    chance, first = random.Random(5), 0
    while first < len(records):
        part = records[max(0, first - 3) : first + chance.randrange(1, 40)]
        apply(cut, part, max(0, first - 3))
        first = max(0, first - 3) + len(part)
        settle(cut, 2)
    assert (cut.digest(), cut.bookmark) == (whole.digest(), whole.bookmark)
    for opened in (whole, cut):
        opened.close()


def test_iceberg_is_loaded_only_with_the_first_lake() -> None:
    modules = "mainstem.views.stores.store_kinds, mainstem.views.stores.sql.sql"
    code = f"import sys, {modules}; sys.exit('pyiceberg' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], timeout=120, env=os.environ, check=False).returncode == 0


def test_a_record_changed_by_hand_in_a_file_is_found_and_named(tmp_path: Path) -> None:
    store, replay = open_lake(tmp_path / "lake"), open_lake(tmp_path / "replay")
    for each in (store, replay):
        apply(each, [flight(str(n), "A", "B", n) for n in range(5)])
        each.commit()
    [file] = data_files(tmp_path / "lake")
    table = pq.read_table(file)
    column = table.schema.get_field_index("miles")
    pq.write_table(table.set_column(column, "miles", pa.array([0, 1, 2, 99, 4], pa.int32())), file)
    with store.snapshot() as actual, replay.snapshot() as expected:
        assert actual.digest() != expected.digest()
        [difference] = differences(expected.entries(), actual.entries())
    assert difference.key == "0000000000/00000000000000000003"
    assert [side and side["miles"] for side in (difference.expected, difference.actual)] == [3, 99]
    store.close()
    replay.close()


def test_pyiceberg_reads_the_table_by_its_catalog(store: LakeStore, tmp_path: Path) -> None:
    apply(store, [flight("1", "A", "B", 10), tombstone("1")])
    store.commit()
    catalog = SqlCatalog("mainstem", uri=f"sqlite:///{tmp_path}/lake/catalog.db")
    table = catalog.load_table("mainstem.records")
    assert table.scan().to_duckdb("flights").sql("SELECT origin, miles FROM flights ORDER BY _offset").fetchall() == [
        ("A", 10),
        (None, None),
    ]
    catalog.close()


def test_a_copy_of_a_lake_is_read_where_it_lies_before_any_view_has_opened_it(tmp_path: Path) -> None:
    store = open_lake(tmp_path / "lake")
    apply(store, [flight("1", "A", "B"), flight("2", "A", "B")])
    store.close()
    (tmp_path / "lake").rename(tmp_path / "moved")
    lake = read_lake(tmp_path / "moved")
    assert (lake.rows, lake.position) == (2, Position.of(TOPIC, 0, 2))
    assert [len(part) for part in lake.records(0)] == [2]


def test_without_iceberg_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(MissingDependencyError, match=r"mainstem\[views\]"):
        require_iceberg()
