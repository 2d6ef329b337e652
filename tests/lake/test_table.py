from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog.sql import SqlCatalog

from mainstem.lake import compaction as lake_compaction
from mainstem.lake import table as lake_table
from mainstem.lake.columns import RECORD
from mainstem.lake.compaction import merged
from mainstem.lake.files import own_path
from mainstem.lake.table import _PROPERTIES, ROW_GROUP_BYTES, LakeTable

NO_COLUMNS = pa.schema([])
COUNTED = "write.metadata.metrics.column._value"


def rows(first: int, count: int = 3) -> pa.Table:
    """Records of partition 0 from that offset on."""
    nothing = {name: pa.nulls(count, RECORD.field(name).type) for name in RECORD.names}
    offsets = pa.array(range(first, first + count), pa.int64())
    return pa.table({**nothing, "_partition": pa.array([0] * count, pa.int32()), "_offset": offsets}, schema=RECORD)


def append(directory: Path, first: int) -> None:
    table = LakeTable(directory, NO_COLUMNS)
    table.append(rows(first), {"mainstem.bookmark": str(first + 3)})
    table.close()


def offsets(directory: Path) -> list[int]:
    """What the lake in ``directory`` has, opened as a view host opens it."""
    table = LakeTable(directory, NO_COLUMNS)
    found = [offset for file in table.files for offset in pq.read_table(file.path)["_offset"].to_pylist()]
    assert int(table.properties["mainstem.bookmark"]) == len(found)
    table.close()
    return found


def files(directory: Path) -> set[Path]:
    return {path.relative_to(directory) for path in directory.rglob("*") if path.is_file()}


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    append(tmp_path / "real" / "lake", 0)
    return tmp_path / "real" / "lake"


@pytest.mark.parametrize("spelling", ["link/lake", "other/../real/lake"])
def test_a_lake_is_the_same_however_its_path_is_spelled(lake: Path, tmp_path: Path, spelling: str) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "real")
    (tmp_path / "other").mkdir()
    append(tmp_path / spelling, 3)
    assert offsets(lake) == [*range(6)]
    assert offsets(tmp_path / spelling) == [*range(6)]


def test_a_relative_path_is_that_of_the_same_lake(lake: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    append(Path("real/lake"), 3)
    monkeypatch.chdir(lake)
    assert offsets(Path()) == [*range(6)]


def test_a_copy_and_the_lake_that_it_was_copied_from_go_on_apart(lake: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(lake, copy)
    append(copy, 3)
    in_copy = files(copy)
    append(lake, 3)
    append(lake, 6)
    assert files(copy) == in_copy
    assert (offsets(copy), offsets(lake)) == ([*range(6)], [*range(9)])


def test_a_lake_that_was_moved_goes_on_where_it_is(lake: Path, tmp_path: Path) -> None:
    append(lake, 3)
    moved = lake.rename(tmp_path / "moved")
    append(moved, 6)
    assert offsets(moved) == [*range(9)]
    assert not lake.exists()


def test_other_readers_of_iceberg_find_the_files_of_a_lake_that_was_moved(lake: Path, tmp_path: Path) -> None:
    moved = lake.rename(tmp_path / "moved")
    LakeTable(moved, NO_COLUMNS).close()
    catalog = SqlCatalog("mainstem", uri=f"sqlite:///{moved}/catalog.db")
    assert catalog.load_table("mainstem.records").scan().to_arrow()["_offset"].to_pylist() == [0, 1, 2]
    catalog.close()


def test_an_empty_lake_may_be_moved_too(tmp_path: Path) -> None:
    LakeTable(tmp_path / "lake", NO_COLUMNS).close()
    moved = (tmp_path / "lake").rename(tmp_path / "moved")
    append(moved, 0)
    assert offsets(moved) == [0, 1, 2]


def test_memory_is_bounded_by_bytes_however_large_values_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    group_bytes = ROW_GROUP_BYTES // 32
    for module in (lake_table, lake_compaction):
        monkeypatch.setattr(module, "ROW_GROUP_BYTES", group_bytes)
    table = LakeTable(tmp_path, NO_COLUMNS)
    many = rows(0, 64)
    large = many.set_column(1, "_value", pa.array([b"x" * (group_bytes // 32)] * len(many), pa.binary()))
    for number in range(2):
        table.append(large, {"mainstem.bookmark": str(number)})
    assert max(part.nbytes for part in merged(table.files)) < 2 * group_bytes
    table.replace(table.files, merged(table.files))
    groups = pq.ParquetFile(table.files[0].path).metadata
    assert max(groups.row_group(number).num_rows for number in range(groups.num_row_groups)) <= 33
    table.close()


@pytest.mark.parametrize("name", ["/etc/passwd", "/lake/table/data/..", "x", "/lake/retired.json"])
def test_a_name_that_is_no_lake_file_s_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match="invalid name"):
        own_path(tmp_path, name)


def test_every_file_of_a_lake_lies_in_directories_whose_names_are_on_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or a power cut takes files away that the catalog names."""
    durable: set[Path] = set()
    fsync = os.fsync

    def note(descriptor: int) -> None:
        fsync(descriptor)
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            directory = Path(f"/proc/self/fd/{descriptor}").readlink()
            durable.update(directory.iterdir())

    monkeypatch.setattr(os, "fsync", note)
    lake = tmp_path / "views" / "lake"
    append(lake, 0)
    named = [path for part in ("data", "metadata") for path in (lake / "table" / part).iterdir()]
    assert {path.parent.name for path in named} == {"data", "metadata"}
    for path in named:
        missing = {each for each in (path, *path.parents) if each.is_relative_to(tmp_path)} - durable - {tmp_path}
        assert missing == set()


def test_directories_of_a_killed_process_are_made_durable(lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may have made them, and not have synced them."""
    (lake / "catalog.db").unlink()
    synced: list[Path] = []
    fsync = os.fsync

    def note(descriptor: int) -> None:
        fsync(descriptor)
        synced.append(Path(f"/proc/self/fd/{descriptor}").readlink())

    monkeypatch.setattr(os, "fsync", note)
    LakeTable(lake, NO_COLUMNS).close()
    assert {lake, lake / "table"} <= set(synced)


def test_tombstones_are_counted_also_in_a_lake_that_an_older_version_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as older:
        older.delitem(_PROPERTIES, COUNTED)
        append(tmp_path / "lake", 0)
    append(tmp_path / "lake", 3)
    table = LakeTable(tmp_path / "lake", NO_COLUMNS)
    assert [file.tombstones for file in table.files] == [None, 3]
    table.close()
