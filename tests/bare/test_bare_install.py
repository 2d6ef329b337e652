"""``pip install mainstem`` without an extra: the log works in full, and what needs an extra names it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from mainstem.client.log import Log
from tests.bare.environment import bare_distributions, installed_bytes
from tests.support.eventually import eventually
from tests.support.ports import free_port

_MAIN = "mainstem.cli.start"
_S_MAX = 120
_COMMAND_MODULES_MAX = 250
_LOG_MODULES_MAX = 538
"""Each module costs the start a third of a millisecond. These go down; up only for what each log needs at its start."""
_TRIED = {"sitecustomize", "usercustomize", "org"}
"""Modules that the standard library tries to load: of this machine's Python, and of Jython."""
_MB_MAX = 85
"""Megabytes of all that is installed; it may only go down, and is promised to stay below 130."""


def _run(python: Path, *argv: str, given: str = "") -> subprocess.CompletedProcess[str]:
    command = [str(python), *argv]
    return subprocess.run(command, input=given, capture_output=True, text=True, timeout=_S_MAX, check=False)


def _mainstem(python: Path, *argv: str, given: str = "") -> str:
    """The output of a command that succeeds."""
    done = _run(python, "-m", _MAIN, *argv, given=given)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return done.stdout


@contextmanager
def _serving(
    python: Path,
    data: Path,
    address: str,
    settings: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
) -> Iterator[subprocess.Popen[str]]:
    argv = [str(python), "-m", _MAIN, "serve", "--no-http", "--data", str(data), "--listen", address]
    argv += [word for setting in settings for word in ("--set", setting)]
    node = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
    try:
        assert node.stdout is not None
        assert node.stdout.readline() == f"ready: kafka {address}\n"
        yield node
    finally:
        if node.poll() is None:
            node.terminate()
            node.communicate(timeout=_S_MAX)


def test_it_is_small() -> None:
    assert not {"numba", "numpy", "pyarrow"} & set(bare_distributions())
    assert installed_bytes() < _MB_MAX * 1_000_000


def test_serve_loads_little(bare_python: Path, tmp_path: Path) -> None:
    """Modules of other packages that ``mainstem serve`` and its log process load, and how many modules in all."""
    data, address = tmp_path / "data", f"127.0.0.1:{free_port()}"
    environment = {**os.environ, "PYTHONPROFILEIMPORTTIME": "1"}
    with _serving(bare_python, data, address, environment=environment) as node:
        node.terminate()
        _, imported = node.communicate(timeout=_S_MAX)
    command = _modules(imported)
    log = _modules((data / "run" / "log.log").read_text())
    assert _foreign(command) == {"annotated_doc", "shellingham", "typer"}
    assert _foreign(log) == {"cramjam", "uvloop"}, "of crc32c only its machine code"
    assert len(command) <= _COMMAND_MODULES_MAX
    assert len(log) <= _LOG_MODULES_MAX


def _modules(importtime: str) -> set[str]:
    lines = [line for line in importtime.splitlines() if line.startswith("import time:")]
    return {line.rpartition("|")[2].strip() for line in lines} - {"imported package"}


def _foreign(modules: set[str]) -> set[str]:
    packages = {module.partition(".")[0] for module in modules}
    return {package for package in packages if not package.startswith("_")} - {
        "mainstem",
        *sys.stdlib_module_names,
        *_TRIED,
    }


def test_nothing_of_the_extras_is_there(bare_python: Path) -> None:
    found = "import importlib.util as u; print([n for n in ('numpy', 'numba', 'pyarrow', 'fastapi') if u.find_spec(n)])"
    assert _run(bare_python, "-c", found).stdout == "[]\n"


_APPEND = """
import sys
import mainstem as ms
with ms.Log(sys.argv[1], timeout_s=60) as log:
    for first in range(0, 3000, 500):
        log.append_many("t", [(f"k{number % 7}", f"{number:0100d}") for number in range(first, first + 500)])
"""


def _log_pid(node: subprocess.Popen[str]) -> int:
    return int(Path(f"/proc/{node.pid}/task/{node.pid}/children").read_text().split()[0])


def test_the_log_serves_compacts_and_recovers(bare_python: Path, tmp_path: Path) -> None:
    address = f"127.0.0.1:{free_port()}"
    at = ("--bootstrap", address)
    settings = ("log.cleaner.backoff.ms=100", "log.segment.bytes=100000")
    with _serving(bare_python, tmp_path / "data", address, settings) as node:
        compacts = ("--config", "cleanup.policy=compact", "--config", "min.cleanable.dirty.ratio=0.01")
        _mainstem(bare_python, "topics", "create", "t", "--partitions", "1", *compacts, *at)
        done = _run(bare_python, "-c", _APPEND, address)
        assert done.returncode == 0, done.stderr
        with Log(address, timeout_s=60) as log:
            eventually(lambda: len(list(log.read("t"))) < 1500, "the closed segments are compacted", 300)
        os.kill(_log_pid(node), signal.SIGKILL)
        with Log(address, timeout_s=60) as log:
            log.end("t")  # commands wait for ten seconds
        lines = _mainstem(bare_python, "read", "t", "--json", *at).splitlines()
        _mainstem(bare_python, "append", "t", "after", "--key", "k", *at)
    latest = {record["key"]: record["value"] for record in map(json.loads, lines)}
    assert latest == {f"k{number % 7}": f"{number:0100d}" for number in range(2993, 3000)}


def test_native_code_checks_the_records(bare_python: Path) -> None:
    program = "from mainstem.record import record_check as c; c.load_kept(); print(c.is_native_loaded())"
    assert _run(bare_python, "-c", program).stdout == "True\n"


@pytest.mark.parametrize(
    ("argv", "extra"),
    [
        (("serve",), "gateway"),
        (("run", "app.py"), "spark,views,gateway"),
        (("demo",), "spark,views,gateway,demo"),
        (("connect", "postgres", "postgresql://localhost/x", "--tables", "t"), "postgres"),
        (("load", "airports.csv", "--topic", "t"), "arrow"),
        (("backup", "s3://bucket/log"), "backup"),
    ],
)
def test_a_command_that_needs_an_extra_names_it(
    argv: tuple[str, ...], extra: str, bare_python: Path, tmp_path: Path
) -> None:
    (tmp_path / "airports.csv").write_text("a\n1\n")
    done = subprocess.run(
        [str(bare_python), "-m", _MAIN, *argv],
        capture_output=True,
        text=True,
        timeout=_S_MAX,
        check=False,
        cwd=tmp_path,
    )
    assert (done.returncode, done.stdout) == (4, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith("mainstem: error: ")
    assert f"pip install 'mainstem[{extra}]'" in line


@pytest.mark.parametrize(
    ("statement", "extra"),
    [
        ("ms.Validator", "arrow"),
        ("ms.Codec", "arrow"),
        ("ms.spark.table", "spark"),
    ],
)
def test_a_name_that_needs_an_extra_names_it(statement: str, extra: str, bare_python: Path) -> None:
    done = _run(bare_python, "-c", f"import mainstem as ms; {statement}")
    assert done.stderr.splitlines()[-1].startswith("mainstem.errors.MissingDependencyError: ")
    assert f"pip install 'mainstem[{extra}]'" in done.stderr
