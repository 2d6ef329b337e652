"""Tables and what they are written to."""

from __future__ import annotations

import io
import json
import sys

import pytest

from mainstem.cli.output import out_rows


def test_a_row_is_one_line_however_long_where_no_terminal_reads_it(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [{"key": f"k{number}", "expected": {"text": "x " * 300 * number}, "more": 1} for number in range(3)]
    out_rows(rows)
    lines = [line for line in capsys.readouterr().out.splitlines() if line.strip("─ ")]
    assert [line.split()[0] for line in lines] == ["key", "k0", "k1", "k2"]
    assert lines[3].rstrip().endswith(" 1")
    assert json.dumps(rows[2]["expected"]) in lines[3]


def test_a_terminal_gets_no_line_that_is_wider_than_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = io.StringIO()
    terminal.isatty = lambda: True  # type: ignore[method-assign]
    monkeypatch.setattr(sys, "stdout", terminal)
    for name, value in (("COLUMNS", "60"), ("TERM", "xterm"), ("NO_COLOR", "1")):
        monkeypatch.setenv(name, value)
    out_rows([{"key": "k", "text": "z" * 500}])
    parts = [line.count("z") for line in terminal.getvalue().splitlines()]
    assert (sum(parts), 40 < max(parts) <= 60) == (500, True)
