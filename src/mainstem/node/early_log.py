"""A log process that loads its modules while ``mainstem serve`` still reads its own options.

The two take about as long and need a core each. The early process waits for its arguments on standard input, as one
line of JSON; when that ends before, it ends, too. Light to import. One thread uses this.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress

_PYTHON = (sys.executable, "-P", "-m", "mainstem.broker.process")
_early: subprocess.Popen[bytes] | None = None


def begin() -> None:
    """Start the process. ``discard`` ends it, if no role has taken it by then."""
    global _early
    _early = started([*_PYTHON, "--arguments-from-stdin"], {})


def take(argv: Sequence[str]) -> subprocess.Popen[bytes] | None:
    """The early process, with the arguments of this command line; None if there is none for it."""
    global _early
    process = _early
    if process is None or process.stdin is None or tuple(argv[: len(_PYTHON)]) != _PYTHON:
        return None
    try:
        process.stdin.write(json.dumps(argv[len(_PYTHON) :]).encode() + b"\n")
        process.stdin.flush()
    except OSError:  # it has ended: the role's own process says why, if it ends, too
        discard()
        return None
    _early = None
    return process


def discard() -> None:
    """End the process, if no role has taken it."""
    global _early
    process, _early = _early, None
    if process is None:
        return
    process.kill()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with suppress(OSError):
                pipe.close()
    process.wait()


def started(argv: Sequence[str], environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
    """A process of a node: it leads its own session, and its output is one pipe."""
    return subprocess.Popen(
        argv,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1", **environment},
    )
