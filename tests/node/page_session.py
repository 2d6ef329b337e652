"""Runs the blocks of a page as a reader would: in a shell, in a directory of its own, with processes that stay.

A node's line gets ``--no-console``, unless the test asks for the console: no page needs it, and it is a process more.
A line that starts a server runs in the background from its first line of output on, until ``stop`` or the end. Every
other line has to end well within ``_LINE_S``. ``pip install`` is passed over: the package is there.
"""

from __future__ import annotations

import os
import queue
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path

from tests.house.pages import Block, lines_of_shell
from tests.support.eventually import eventually
from tests.support.ports import free_port

_LINE_S = 300.0
_READY_S = 120.0
_UNTIL_S = 180.0
_PAUSE_S = 1.0
_SERVES = re.compile(
    r"mainstem (?:serve|run|mcp|mirror|connect postgres|backup (?!points|verify)\S)(?!.*--(?:once|status))"
    r"|python -u |python examples/\w+\.py(?: \d+| work| follow .*)?$"
)
_NODE = re.compile(r"mainstem (?:serve|run)\b(?!.*--no-(?:http|console))")
_PASSED_OVER = re.compile(r"pip install ")


class PageSession:
    """A shell in ``directory``. ``places``: names of a page, and what the test has for them."""

    def __init__(self, directory: Path, places: Mapping[str, str] | None = None, *, console: bool = False) -> None:
        self.log, self.http = (f"127.0.0.1:{free_port()}" for _ in range(2))
        self._directory = directory
        self._console = console
        self._places = dict(places or {})
        self._servers: list[subprocess.Popen[bytes]] = []
        self._environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("MAINSTEM_")},
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "MAINSTEM_LISTEN": self.log,
            "MAINSTEM_HTTP": self.http,
            "MAINSTEM_BOOTSTRAP": self.log,
            "MAINSTEM_URL": f"http://{self.http}",
        }

    def set(self, name: str, value: str) -> None:
        """Set a variable of the shell."""
        self._environment[name] = value

    def unset(self, name: str) -> None:
        """Remove a variable of the shell."""
        del self._environment[name]

    def place(self, name: str, ours: str) -> None:
        """Say what the test has for a name of the page."""
        self._places[name] = ours

    def here(self, text: str) -> str:
        """A text of the page with the places of the test."""
        for name, ours in self._places.items():
            text = text.replace(name, ours)
        return text

    def run(self, block: Block) -> str:
        """Run the lines of a block; what they print, of a server its first line."""
        return "".join(map(self.line, lines_of_shell(block.text)))

    def line(self, line: str) -> str:
        """Run one line, which has to succeed; what it prints, of a server its first line."""
        line = self.here(line)
        if _PASSED_OVER.match(line):
            return ""
        if _SERVES.match(line):
            return self._serve(line if self._console else _NODE.sub(r"\g<0> --no-console", line))
        done = self._shell(line)
        assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
        return done.stdout

    def fails(self, line: str, code: int) -> str:
        """Run one line, which has to end with this exit code; its standard error."""
        done = self._shell(self.here(line))
        assert done.returncode == code, f"{line}\n{done.stdout}{done.stderr}"
        return done.stderr

    def until(self, line: str, is_there: Callable[[str], bool], what: str) -> None:
        """Run one line again and again, until what it prints is right."""
        eventually(lambda: is_there(self._shell(self.here(line)).stdout), what, _UNTIL_S, _PAUSE_S)

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """End the servers, the last one first; by default as ctrl-C does."""
        while self._servers:
            server = self._servers.pop()
            os.killpg(server.pid, how)
            server.wait(60)
            assert server.stdout is not None
            server.stdout.close()

    def _shell(self, line: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["bash", "-c", line],
            cwd=self._directory,
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=_LINE_S,
        )

    def _serve(self, line: str) -> str:
        server = subprocess.Popen(
            ["bash", "-c", f"exec {line}"],
            cwd=self._directory,
            env=self._environment,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        self._servers.append(server)
        first: queue.Queue[str] = queue.Queue(1)

        def read() -> None:
            assert server.stdout is not None
            first.put(server.stdout.readline().decode())
            for _ in server.stdout:
                pass

        threading.Thread(target=read, daemon=True).start()
        try:
            said = first.get(timeout=_READY_S)
        except queue.Empty:
            raise AssertionError(f"{line} printed nothing") from None
        assert said, f"{line} ended"
        return said

    def __enter__(self) -> PageSession:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
