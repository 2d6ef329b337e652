"""Java is found, or the error says what to install."""

from __future__ import annotations

from pathlib import Path

import pytest

from mainstem.errors import MissingDependencyError
from mainstem.spark.startup.java import find_java


def java_home(directory: Path, release: str) -> Path:
    command = directory / "bin" / "java"
    command.parent.mkdir()
    command.write_text("#!/bin/sh\nexit 1\n")
    command.chmod(0o755)
    (directory / "release").write_text(release)
    return directory


def test_the_release_file_tells_the_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(java_home(tmp_path, 'JAVA_VERSION="21.0.2"\n')))
    assert find_java().version == "21.0.2"


@pytest.mark.parametrize("version", ["11.0.2", "1.8.0_392"])
def test_an_old_java_is_refused(version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(java_home(tmp_path, f'JAVA_VERSION="{version}"\n')))
    with pytest.raises(MissingDependencyError, match=f"{version}, which is too old for Spark; install Java 17"):
        find_java()


def test_a_missing_java_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(MissingDependencyError, match="no java on PATH; install Java 17 or newer"):
        find_java()


def test_a_wrong_java_home_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(MissingDependencyError, match="there is no bin/java in it"):
        find_java()


def test_a_java_that_does_not_run_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(java_home(tmp_path, "")))
    with pytest.raises(MissingDependencyError, match="does not run"):
        find_java()
