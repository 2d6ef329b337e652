"""Runs the tests of the Spark source and sink on each older PySpark: ``make spark-versions``.

Each version gets a virtual environment in a temporary directory that holds PySpark alone. The rest comes from the
tree's ``.venv``, so that only Spark differs. The directory is removed when the tests end. A PySpark is 300 to 450 MB to
download, so this is a command of its own and not part of ``.ci/run``.

    make spark-versions ARGS="4.1.4"              one version
    make spark-versions ARGS="4.1.4 -- -k sink"   options after -- are pytest's
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import sysconfig
import tempfile
import time
from pathlib import Path
from typing import Final

VERSIONS: Final = ("4.0.5", "4.1.4", "4.2.0")
"""The last release of each older line; the locked version runs in the tests of each change."""
SUITES: Final = (
    "test_batch_reader",
    "test_columns",
    "test_environment",
    "test_filters",
    "test_plan_text",
    "test_progress_log",
    "test_round_trip",
    "test_session",
    "test_sink",
    "test_source",
    "test_start_tracking_reader",
    "test_stream_reader",
    "test_streams",
    "test_tables",
    "test_task_exchange",
    "test_transactions",
    "test_type_matrix",
)
_ROOT = Path(__file__).resolve().parents[1]
_INSTALL_S = 900.0
_TESTS_S = 1800.0


def main() -> int:
    """Exit code 1 when the tests of a version fail."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("versions", nargs="*", default=VERSIONS, metavar="VERSION")
    own, pytest_options = _split(sys.argv[1:])
    results = {version: _run(version, pytest_options) for version in parser.parse_args(own).versions}
    for version, result in results.items():
        _say(f"PySpark {version}: {result or 'passed'}")
    return int(any(results.values()))


def _split(arguments: list[str]) -> tuple[list[str], list[str]]:
    at = arguments.index("--") if "--" in arguments else len(arguments)
    return arguments[:at], arguments[at + 1 :]


def _run(version: str, pytest_options: list[str]) -> str:
    """Run the suites on this version. Returns the failure; empty when all passed."""
    with tempfile.TemporaryDirectory(prefix=f"mainstem-pyspark-{version}-") as directory:
        python = Path(directory) / "venv" / "bin" / "python"
        try:
            _make(python, version)
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
            return f"could not be installed: {error}"
        suites = [f"tests/spark/{suite}.py" for suite in SUITES]
        command = [str(python), "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider", *suites, *pytest_options]
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_"))}
        began_s = time.monotonic()
        _say(f"PySpark {version}")
        try:
            done = subprocess.run(command, cwd=_ROOT, env=environment, timeout=_TESTS_S, check=False)
        except subprocess.TimeoutExpired:
            return f"did not end within {_TESTS_S:.0f} s"
        _say(f"PySpark {version}: {time.monotonic() - began_s:.0f} s")
        return f"tests ended with {done.returncode}" if done.returncode else ""


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def _make(python: Path, version: str) -> None:
    """An environment with this PySpark, before the tree's own packages on the path."""
    uv = str(_ROOT / ".venv" / "bin" / "uv")
    subprocess.run([uv, "venv", "--quiet", "--python", sys.executable, str(python.parents[1])], check=True, timeout=60)
    install = [uv, "pip", "install", "--quiet", "--no-cache", "--python", str(python), f"pyspark=={version}"]
    subprocess.run(install, check=True, timeout=_INSTALL_S)
    ours = sysconfig.get_path("purelib")
    theirs = subprocess.run(
        [str(python), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
        check=True,
        timeout=60,
        capture_output=True,
        text=True,
    ).stdout.strip()
    (Path(theirs) / "tree.pth").write_text(f"import site; site.addsitedir({ours!r})\n")


if __name__ == "__main__":
    sys.exit(main())
