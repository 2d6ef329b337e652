"""Run a command in this process: its exit code, its result, its error line."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import pytest

from mainstem.cli.main import execute


class Done(NamedTuple):
    """A command that has ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The one line of JSON that the result is."""
        (line,) = self.out.splitlines()
        return json.loads(line)

    @property
    def error(self) -> str:
        """The one line that says what went wrong."""
        (line,) = self.err.splitlines()
        assert line.startswith("mainstem: error: ")
        return line.removeprefix("mainstem: error: ")


class Commands:
    """``run("topics", "list")``; every command gets the log's address from the environment."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def run(self, *arguments: str) -> Done:
        code = execute(list(arguments))
        captured = self._capsys.readouterr()
        return Done(code, captured.out, captured.err)
