"""Where things lie under a data directory."""

from __future__ import annotations

from pathlib import Path

import pytest

from mainstem.errors import StorageError
from mainstem.node.layout import Layout


def test_sockets_lie_in_the_run_directory(tmp_path: Path) -> None:
    assert Layout(tmp_path).socket("views") == tmp_path / "run" / "views.sock"


def test_a_socket_path_stays_short_under_a_long_data_directory(tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 100)
    layout = Layout(deep)
    layout.make_directories()
    assert len(str(layout.socket("views"))) < 108
    assert layout.socket("views").parent.stat().st_mode & 0o077 == 0
    layout.socket("views").parent.rmdir()


def test_the_run_directory_is_for_its_owner_only(tmp_path: Path) -> None:
    layout = Layout(tmp_path / "data")
    layout.make_directories()
    assert layout.run.stat().st_mode & 0o777 == 0o700


def test_a_data_directory_that_is_a_file_is_a_storage_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="cannot be used"):
        Layout(tmp_path / "file").make_directories()
