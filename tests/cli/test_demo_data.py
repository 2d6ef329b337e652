"""What the demo does to its directory, and where it finds its parts."""

from __future__ import annotations

from pathlib import Path

import pytest

from mainstem.cli.demo.data import TABLES, files_directory, own_directory, program
from mainstem.errors import DirectoryLockedError, MissingDependencyError, StorageError
from mainstem.pipelines.load import load_app


def test_its_own_directory_is_cleared(tmp_path: Path) -> None:
    for _ in range(2):
        with own_directory(tmp_path / "demo"):
            assert [entry.name for entry in (tmp_path / "demo").iterdir()] == [".mainstem-demo"]
            (tmp_path / "demo" / "flights-0").mkdir()
            (tmp_path / "demo" / "meta.properties").write_text("")


def test_a_directory_of_someone_else_is_never_cleared(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("")
    with pytest.raises(StorageError, match="holds something that is not the demo's"), own_directory(tmp_path):
        pytest.fail("it must not begin")
    assert (tmp_path / "precious").exists()


def test_a_directory_in_which_a_demo_runs_is_left_alone(tmp_path: Path) -> None:
    with own_directory(tmp_path / "demo"):
        (tmp_path / "demo" / "data").write_text("")
        with pytest.raises(DirectoryLockedError, match="a demo runs in it already"), own_directory(tmp_path / "demo"):
            pytest.fail("it must not begin")
        assert (tmp_path / "demo" / "data").exists()


def test_a_directory_that_cannot_be_is_a_storage_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="name another directory"), own_directory(tmp_path / "file" / "demo"):
        pytest.fail("it must not begin")


def test_every_file_is_there_and_its_topic_is_declared() -> None:
    app = load_app(program())
    for table in TABLES:
        assert (files_directory() / table.file_name).is_file()
        assert app.topics[table.topic].key


def test_missing_data_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(MissingDependencyError, match=r"pip install 'mainstem\[demo\]'"):
        files_directory()
