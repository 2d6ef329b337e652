"""The output of commands: results go to standard output, everything else to standard error.

With ``--json`` a result is one JSON document on one line. rich is loaded only when a table is drawn. Characters that
the output's encoding lacks (in any encoding: half of a surrogate pair) are escaped: one record must not end a command.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from mainstem.errors import InputError, StorageError

_UNLIMITED: Final = 1 << 40
"""Columns of a line that no terminal shows: a row is one line, for ``grep`` and ``awk``."""


class OutputClosedError(Exception):
    """The reader of the output closed it. Not an OSError, because typer handles those differently."""


def out(text: str) -> None:
    """Print a line of the result. Raises StorageError when the output cannot be written."""
    with _writing():
        sys.stdout.write(_sayable(text) + "\n")
        sys.stdout.flush()


@contextmanager
def _writing() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError as error:
        discard()
        raise OutputClosedError from error
    except OSError as error:
        discard()
        raise StorageError(f"the output cannot be written: {(error.strerror or str(error)).lower()}") from error


def discard() -> None:
    """Let what is still buffered, and all that follows, go nowhere: it must not complain at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _sayable(text: str) -> str:
    """The text, with what the output's encoding cannot say escaped as JSON and Python do."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    return text.encode(encoding, "backslashreplace").decode(encoding)


def note(text: str) -> None:
    """A line about what goes on; never part of the result."""
    sys.stderr.write(f"mainstem: {text}\n")
    sys.stderr.flush()


def confirm(question: str) -> None:
    """Ask for a yes on standard error. Raises InputError for any other answer, and for none."""
    sys.stderr.write(f"{question} [y/N]: ")
    sys.stderr.flush()
    answer = sys.stdin.readline()
    if not (answer.endswith("\n") and sys.stdin.isatty()):  # a terminal has shown the end of the line
        sys.stderr.write("\n")
    if answer.strip().lower() not in ("y", "yes"):
        raise InputError("not confirmed: nothing was changed; --yes answers the question")


def out_json(document: Any) -> None:
    """A result as one line of JSON."""
    out(json.dumps(document, ensure_ascii=False, separators=(",", ":"), default=str))


def out_rows(rows: Sequence[dict[str, Any]], *, title: str | None = None) -> None:
    """Rows as a table; columns in the order in which they first appear."""
    columns = list(dict.fromkeys(name for row in rows for name in row))
    out_table(columns, [[row.get(name) for name in columns] for row in rows], title=title)


def out_table(columns: Sequence[str], rows: Sequence[Sequence[Any]], *, title: str | None = None) -> None:
    """A table with these columns; numbers are aligned to the right. Lines are wrapped only on a terminal."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for index, name in enumerate(columns):
        numeric = any(isinstance(row[index], int | float) for row in rows)
        table.add_column(name, justify="right" if numeric else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(_sayable(cell_text(cell))) for cell in row))
    width = None if sys.stdout.isatty() else _UNLIMITED
    console = Console(file=sys.stdout, width=width, highlight=False, soft_wrap=False)
    with _writing():
        if title is not None:
            console.print(Text(_sayable(title), style="bold"))  # rich would fold a table's own title to its width
        console.print(table)
        sys.stdout.flush()


def cell_text(value: Any) -> str:
    """A value as a table shows it."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:,.2f}"
    if isinstance(value, int):
        return f"{value:,}"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
