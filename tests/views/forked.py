"""Processes that tests kill, forked from one that has imported what they need: two seconds of imports, once.

A process is forked before a thread or a store is there, and shares only modules with others.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from multiprocessing.connection import Connection
from typing import IO, Any, Final

_CONTEXT: Final = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(["pytest", "tests.views.preloaded"])


class ForkedProcess:
    """A process that does ``work``, a function of a module. ``stdout``: what it prints."""

    def __init__(self, work: Callable[..., None], arguments: tuple[Any, ...], environment: Mapping[str, str]) -> None:
        reader, writer = _CONTEXT.Pipe(duplex=False)
        with reader, writer:
            self._process = _CONTEXT.Process(target=_run, args=(work, arguments, {**environment}, writer), daemon=True)
            self._process.start()
            self.stdout: IO[str] = os.fdopen(os.dup(reader.fileno()), encoding="utf-8")

    def kill(self) -> None:
        """Send it SIGKILL."""
        self._process.kill()

    def wait(self, timeout_s: float) -> int:
        """Its exit status, -9 after a SIGKILL, when it has ended."""
        self._process.join(timeout_s)
        assert self._process.exitcode is not None, f"the process runs for more than {timeout_s:g} s"
        return self._process.exitcode


@contextmanager
def forked(
    work: Callable[..., None], *arguments: object, environment: Mapping[str, str] = os.environ
) -> Iterator[ForkedProcess]:
    """A process that does ``work`` with arguments, killed at the end."""
    process = ForkedProcess(work, arguments, environment)
    try:
        yield process
    finally:
        process.kill()
        process.wait(60)
        process.stdout.close()


def _run(work: Callable[..., None], arguments: tuple[Any, ...], environment: dict[str, str], out: Connection) -> None:
    os.environ.clear()
    os.environ.update(environment)
    os.dup2(out.fileno(), 1)
    out.close()
    work(*arguments)
