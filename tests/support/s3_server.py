"""A real S3 server for tests: versitygw over a directory. It keeps conditional writes, as S3 does.

It is compiled from source, which takes minutes, so the tests take one that is there: on PATH, named by
``MAINSTEM_VERSITYGW``, or made by ``make s3-server``. Without one, tests of S3 are skipped.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.eventually import eventually
from tests.support.ports import accepts, free_port

_MADE = Path(__file__).resolve().parents[2] / ".cache" / "s3-server" / "versitygw"
BUCKET = "backups"
KEY, SECRET = "tester", "tester-secret"


def versitygw() -> str:
    """The program; skips the test where there is none."""
    named = os.environ.get("MAINSTEM_VERSITYGW") or shutil.which("versitygw")
    found = named or (str(_MADE) if _MADE.is_file() else None)
    if found is None:
        pytest.skip("versitygw, an S3 server, is not here: make s3-server compiles it (minutes, once)")
    return found


class S3Server:
    """A server with one bucket, from ``start`` to ``stop``; it may be stopped and started again."""

    def __init__(self, directory: Path) -> None:
        self._program = versitygw()
        self._directory = directory
        (directory / BUCKET).mkdir(parents=True)
        self._port = free_port()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def environment(self) -> dict[str, str]:
        """What a client of it needs."""
        return {
            "AWS_ACCESS_KEY_ID": KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{self._port}",
            "AWS_REGION": "us-east-1",
        }

    def start(self) -> S3Server:
        """Start it, and return when it accepts connections."""
        argv = [self._program, "--port", f"127.0.0.1:{self._port}", "--access", KEY, "--secret", SECRET, "--quiet"]
        argv += ["posix", str(self._directory)]
        self._process = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        eventually(lambda: accepts(self._port), "the S3 server accepts connections")
        return self

    def stop(self) -> None:
        """Kill it."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(30)
            self._process = None
