"""One run at a time on an App's checkpoints."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mainstem.errors import DirectoryLockedError, StorageError
from mainstem.spark.checkpoints.checkpoint_lock import locked


def test_a_second_run_is_refused_and_told_who_holds_it(tmp_path: Path) -> None:
    with (
        locked(tmp_path / "app"),
        pytest.raises(DirectoryLockedError, match=f"in process {os.getpid()}: "),
        locked(tmp_path / "app"),
    ):
        raise AssertionError("two hold it")


def test_the_next_run_may_have_it(tmp_path: Path) -> None:
    for _ in range(2):
        with locked(tmp_path / "app"):
            assert (tmp_path / "app").is_dir()


def test_a_directory_that_cannot_be_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(StorageError, match=r"checkpoints' directory .*file/app cannot be used"),
        locked(tmp_path / "file" / "app"),
    ):
        raise AssertionError("it cannot be held")
