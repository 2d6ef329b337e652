"""The doctor's checks: what this machine has and lacks, each with what to do. They change nothing."""

from __future__ import annotations

import os
import platform
import re
import resource
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, NamedTuple

from mainstem.addresses import parse_address
from mainstem.cli.options import DEFAULT_HTTP, DEFAULT_LISTEN
from mainstem.extras import EXTRAS, missing_modules

_PYTHON_MIN = (3, 11)
_JAVA_MIN = 17
_OPEN_FILES_MIN = 4096
_FREE_BYTES_MIN = 2 << 30
_SLOW_SYNC_MS = 50.0


class Check(NamedTuple):
    """One thing looked at. ``advice`` says what to do when it is not well."""

    name: str
    state: Literal["ok", "warning", "failed"]
    found: str
    advice: str = ""


def run_checks(data: Path) -> Iterator[Check]:
    """Every check, in order."""
    yield _python()
    yield _java()
    for extra in EXTRAS:
        yield _extra(extra)
    yield from _data_directory(data)
    yield _port("log's port", DEFAULT_LISTEN, "--listen")
    yield _port("HTTP port", DEFAULT_HTTP, "--http")
    yield _open_files()


def _python() -> Check:
    version = platform.python_version()
    if sys.version_info[:2] < _PYTHON_MIN:
        return Check("Python", "failed", version, "install Python 3.11 or newer")
    return Check("Python", "ok", version)


def _java() -> Check:
    advice = "install a JRE 17 or newer, e.g. apt-get install openjdk-17-jre-headless; only Spark needs it"
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if java is None:
        return Check("Java", "failed", "not found", advice)
    try:
        said = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=20, check=True).stderr
    except (OSError, subprocess.SubprocessError) as error:
        return Check("Java", "failed", f"{java} does not run: {error}", advice)
    match = re.search(r'version "(\d+)', said)
    version = int(match[1]) if match else 0
    found = said.splitlines()[0] if said else java
    return Check("Java", "ok", found) if version >= _JAVA_MIN else Check("Java", "failed", found, advice)


def _extra(extra: str) -> Check:
    missing = missing_modules(extra)
    if missing:
        return Check(f"extra {extra}", "warning", f"without {', '.join(missing)}", f"pip install 'mainstem[{extra}]'")
    return Check(f"extra {extra}", "ok", ", ".join(EXTRAS[extra]))


def _data_directory(data: Path) -> Iterator[Check]:
    """Writable, with room, and how long a sync takes: that is what an append waits for."""
    place = data.absolute()
    try:
        while not place.exists():
            place = place.parent
        with tempfile.NamedTemporaryFile(dir=place) as file:
            started_s = time.perf_counter()
            file.write(b"\0" * 4096)
            file.flush()
            os.fsync(file.fileno())
            sync_ms = (time.perf_counter() - started_s) * 1000
    except OSError as error:
        yield Check("data directory", "failed", f"{place}: {error.strerror}", "choose one that is writable (--data)")
        return
    yield Check("data directory", "ok", f"{data} is writable")
    slow = sync_ms > _SLOW_SYNC_MS
    advice = "each append waits for the disk; a faster one, or flush=os for topics that may lose a tail"
    yield Check("disk sync", "warning" if slow else "ok", f"{sync_ms:.1f} ms", advice if slow else "")
    free = shutil.disk_usage(place).free
    tight = free < _FREE_BYTES_MIN
    yield Check(
        "disk space", "warning" if tight else "ok", f"{free / 2**30:.1f} GiB free", "free some" if tight else ""
    )


def _port(name: str, address: str, option: str) -> Check:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(parse_address(address))
        except OSError:
            return Check(name, "warning", f"{address} is in use", f"stop what uses it, or choose another ({option})")
    return Check(name, "ok", f"{address} is free")


def _open_files() -> Check:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < _OPEN_FILES_MIN:
        return Check("open files", "warning", f"{soft} (hard limit {hard})", f"ulimit -n {_OPEN_FILES_MIN}")
    return Check("open files", "ok", str(soft))
