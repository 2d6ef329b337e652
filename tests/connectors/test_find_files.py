"""Files, patterns and directories that a load names."""

from __future__ import annotations

from pathlib import Path

import pytest

from mainstem.connectors.find_files import LAKE_FILES, find_files
from mainstem.errors import InputError
from mainstem.lake.table import CATALOG


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    for name in ("b.csv", "a.csv.gz", "notes.txt", "_SUCCESS.csv", ".hidden.csv", "year=2024/c.parquet", "_log/d.json"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.touch()
    return tmp_path


def test_a_directory_is_the_files_in_it_and_below(directory: Path) -> None:
    found = [str(path.relative_to(directory)) for path in find_files([directory])]
    assert found == ["a.csv.gz", "b.csv", "year=2024/c.parquet"]


def test_a_pattern_is_the_files_that_match(directory: Path) -> None:
    assert find_files([f"{directory}/[ab].csv*"]) == [directory / "a.csv.gz", directory / "b.csv"]
    assert find_files([f"{directory}/**/*.parquet", directory / "b.csv"]) == [
        directory / "year=2024/c.parquet",
        directory / "b.csv",
    ]


def test_a_file_is_named_once(directory: Path) -> None:
    assert find_files([directory / "b.csv", f"{directory}/b*"]) == [directory / "b.csv"]


def test_a_name_with_brackets_is_a_file_where_there_is_one(tmp_path: Path) -> None:
    (tmp_path / "a[1].csv").touch()
    assert find_files([tmp_path / "a[1].csv"]) == [tmp_path / "a[1].csv"]


@pytest.mark.parametrize(("name", "reason"), [("*.json", "no file matches"), ("empty", "neither a lake nor")])
def test_where_nothing_is_found_is_said(tmp_path: Path, name: str, reason: str) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match=reason):
        find_files([tmp_path / name])


def test_the_name_of_a_lake_s_catalog_is_known() -> None:
    assert CATALOG in LAKE_FILES


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"missing\.csv: no such file"):
        find_files([tmp_path / "missing.csv"])
