"""The wheel and the source archive: their contents, the same bytes each time, and a start from a read-only place."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from importlib.metadata import version
from pathlib import Path

import pytest

from tests.support.ports import free_port

ROOT = Path(__file__).resolve().parents[2]
_BUILT = ("src", "examples/flights.py", "LICENSE", "README.md", "CHANGELOG.md", "pyproject.toml")
_NEEDED = (
    "mainstem/py.typed",
    "mainstem/cli/demo/flights.py",
    "mainstem/console/static/console.js",
    "mainstem/gateway/streams/client.js",
    "mainstem/record/native/walk-linux-x86_64.code",
    "mainstem/spark/log4j2.properties",
    "pyspark_mainstem.py",
)
_S_MAX = 300
_NO_INDEX = ("Failed to fetch", "NewConnectionError", "ReadTimeoutError")
"""What uv and pip say when there is no network."""


def _build(source: Path, out: Path) -> tuple[Path, Path]:
    """The wheel and the source archive of a directory."""
    argv = [sys.executable, "-m", "hatchling", "build", "-d", str(out)]
    environment = {**os.environ, "SOURCE_DATE_EPOCH": "1700000000"}
    subprocess.run(argv, cwd=source, env=environment, check=True, capture_output=True, timeout=_S_MAX)
    (wheel,), (archive,) = out.glob("*.whl"), out.glob("*.tar.gz")
    return wheel, archive


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return _build(ROOT, tmp_path_factory.mktemp("dist"))


def test_the_wheel_has_what_runs_and_no_more(built: tuple[Path, Path]) -> None:
    wheel, _ = built
    with zipfile.ZipFile(wheel) as opened:
        names = opened.namelist()
        metadata = opened.read(next(name for name in names if name.endswith("/METADATA"))).decode()
    assert wheel.name == f"mainstem-{version('mainstem')}-py3-none-any.whl"
    assert [name for name in _NEEDED if name not in names] == []
    assert any(name.endswith("/licenses/LICENSE") for name in names)
    assert {name.split("/")[0].partition("-")[0] for name in names} == {"mainstem", "pyspark_mainstem.py"}
    assert [name for name in names if re.search(r"__pycache__|\.py[co]$|\.nb[ic]$|(^|/)(tests?|\.[^/]*)/", name)] == []
    assert "Requires-Python: <3.15,>=3.11" in metadata


def test_the_source_archive_builds_the_same_bytes(built: tuple[Path, Path], tmp_path: Path) -> None:
    wheel, archive = built
    with tarfile.open(archive) as opened:
        top = {name.split("/")[1] for name in opened.getnames()}
        opened.extractall(tmp_path, filter="data")
    assert top == {*(name.split("/")[0] for name in _BUILT), "PKG-INFO", ".gitignore"}
    again = _build(next(tmp_path.iterdir()), tmp_path / "again")
    assert [path.read_bytes() for path in again] == [wheel.read_bytes(), archive.read_bytes()]


@pytest.fixture
def read_only(built: tuple[Path, Path], tmp_path: Path) -> list[str]:
    """The start of a command line that sees the unpacked wheel, which cannot be written."""
    packages = tmp_path / "packages"
    with zipfile.ZipFile(built[0]) as opened:
        opened.extractall(packages)
    mount = 'mount --bind "$0" "$0" && mount -o remount,ro,bind "$0" && exec "$@"'
    argv = ["unshare", "--mount", "sh", "-c", mount, str(packages)]
    if shutil.which("unshare") is None or subprocess.run([*argv, "true"], timeout=_S_MAX, check=False).returncode:
        pytest.skip("a read-only mount needs unshare and the right to mount")
    return argv


def test_it_serves_from_a_read_only_place(read_only: list[str], tmp_path: Path) -> None:
    packages, address = Path(read_only[-1]), f"127.0.0.1:{free_port()}"
    environment = {**os.environ, "PYTHONPATH": str(packages), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    before = sorted(packages.rglob("*"))

    def command(*words: str) -> list[str]:
        return [*read_only, sys.executable, "-P", "-m", "mainstem.cli.start", *words]

    def run(*words: str, given: str = "") -> str:
        done = subprocess.run(
            command(*words), input=given, env=environment, capture_output=True, text=True, timeout=_S_MAX, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    serve = command("serve", "--no-http", "--data", str(tmp_path / "data"), "--listen", address)
    with subprocess.Popen(serve, env=environment, stdout=subprocess.PIPE, text=True) as node:
        try:
            assert node.stdout is not None
            assert node.stdout.readline() == f"ready: kafka {address}\n"
            run("topics", "create", "greetings", "--bootstrap", address)
            run("append", "greetings", "--bootstrap", address, given='{"hello": "world"}\n')
            assert "world" in run("read", "greetings", "--bootstrap", address)
        finally:
            node.terminate()
        assert node.wait(_S_MAX) == 0
    where = [*read_only, sys.executable, "-c", "import mainstem; print(mainstem.__file__)"]
    found = subprocess.run(where, env=environment, capture_output=True, text=True, timeout=_S_MAX, check=True).stdout
    assert found.startswith(str(packages)), "it is the unpacked wheel that ran"
    assert sorted(packages.rglob("*")) == before


@pytest.mark.parametrize(
    "install",
    [
        ("uvx", "--python", sys.executable, "--from", "WHEEL", "mainstem", "--version"),
        ("uvx", "pipx", "run", "--python", sys.executable, "--spec", "WHEEL", "mainstem", "--version"),
    ],
    ids=["uvx", "pipx"],
)
def test_one_command_installs_and_runs_the_wheel(
    install: tuple[str, ...], built: tuple[Path, Path], tmp_path: Path
) -> None:
    """It fetches what the wheel requires, as a user's machine does."""
    uvx, wheel = str(Path(sys.executable).with_name("uvx")), str(built[0])
    argv = [{"uvx": uvx, "WHEEL": wheel}.get(word, word) for word in install]
    places = {"UV_CACHE_DIR": "uv", "PIPX_HOME": "pipx", "PIPX_BIN_DIR": "bin"}
    environment = {**os.environ, **{name: str(tmp_path / place) for name, place in places.items()}}
    done = subprocess.run(argv, env=environment, capture_output=True, text=True, timeout=_S_MAX, check=False)
    if done.returncode and any(each in done.stderr for each in _NO_INDEX):
        pytest.skip("the package index cannot be reached")
    assert (done.returncode, done.stdout) == (0, f"mainstem {version('mainstem')}\n"), done.stderr
