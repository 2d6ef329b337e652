"""Finding a Java that Spark can run on, or saying what to install; and ending it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any, NamedTuple

from mainstem.errors import MissingDependencyError

VERSION_MIN = 17
_TIMEOUT_S = 20
_END_TIMEOUT_S = 120  # it may have a class archive to write
_INSTALL = (
    f"install Java {VERSION_MIN} or newer (Debian and Ubuntu: apt install openjdk-{VERSION_MIN}-jre-headless), "
    "or set JAVA_HOME to where it is"
)


class Java(NamedTuple):
    """A Java's home directory and its version, e.g. ``17.0.15``."""

    home: Path
    version: str

    @property
    def command(self) -> Path:
        return self.home / "bin" / "java"


def find_java() -> Java:
    """``JAVA_HOME``, else the ``java`` on PATH. Raises MissingDependencyError with what to install."""
    home = os.environ.get("JAVA_HOME")
    command = Path(home) / "bin" / "java" if home else Path(shutil.which("java") or "")
    if not command.is_file():
        where = f"JAVA_HOME is {home}, but there is no bin/java in it" if home else "there is no java on PATH"
        raise MissingDependencyError(f"Spark needs Java, and {where}; {_INSTALL}")
    java_home = command.resolve().parent.parent
    version = _released_version(java_home) or _asked_version(command)
    if _major(version) < VERSION_MIN:
        raise MissingDependencyError(f"{command} is Java {version}, which is too old for Spark; {_INSTALL}")
    return Java(java_home, version)


def end_java() -> None:
    """End the JVM of this process's stopped Spark, and wait until it is gone; Spark by itself leaves it to its exit."""
    from pyspark import SparkContext

    gateway: Any = SparkContext._gateway
    process = getattr(gateway, "proc", None)
    if process is not None:
        # Else py4j's thread may still tell it of objects that Python has freed, and prints an error when it is gone.
        gateway._gateway_client.is_connected = False
        process.stdin.close()
        process.wait(_END_TIMEOUT_S)


def _released_version(home: Path) -> str | None:
    """The version in Java's own ``release`` file, read without starting a process."""
    release = home / "release"
    match = re.search(r'^JAVA_VERSION="([^"]+)"', release.read_text(), re.MULTILINE) if release.is_file() else None
    return match[1] if match else None


def _asked_version(command: Path) -> str:
    try:
        asked = subprocess.run([command, "-version"], capture_output=True, text=True, timeout=_TIMEOUT_S, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        raise MissingDependencyError(f"{command} does not run ({error}); {_INSTALL}") from error
    match = re.search(r'version "([^"]+)"', asked.stderr)
    if match is None:
        raise MissingDependencyError(f"{command} does not say its version; {_INSTALL}")
    return match[1]


def _major(version: str) -> int:
    parts = version.split(".")
    return int(parts[1] if parts[0] == "1" else re.sub(r"\D.*", "", parts[0]))
