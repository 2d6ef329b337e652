"""What commands print: results to standard output, everything else to standard error.

With ``--json`` a result is one JSON document on one line. rich is loaded only when a table is drawn.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Any


class OutputClosedError(Exception):
    """Whoever read the output went away. Not an OSError: typer has ideas of its own about those."""


def out(text: str) -> None:
    """A line of the result."""
    try:
        sys.stdout.write(text + "\n")
        sys.stdout.flush()
    except BrokenPipeError as error:
        raise OutputClosedError from error


def note(text: str) -> None:
    """A line about what goes on; never part of the result."""
    sys.stderr.write(f"mainstem: {text}\n")
    sys.stderr.flush()


def out_json(document: Any) -> None:
    """A result as one line of JSON."""
    out(json.dumps(document, ensure_ascii=False, separators=(",", ":"), default=str))


def out_rows(rows: Sequence[dict[str, Any]], *, title: str | None = None) -> None:
    """Rows as a table; columns in the order in which they first appear."""
    columns = list(dict.fromkeys(name for row in rows for name in row))
    out_table(columns, [[row.get(name) for name in columns] for row in rows], title=title)


def out_table(columns: Sequence[str], rows: Sequence[Sequence[Any]], *, title: str | None = None) -> None:
    """A table with these columns; numbers stand right."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for index, name in enumerate(columns):
        numeric = any(isinstance(row[index], int | float) for row in rows)
        table.add_column(name, justify="right" if numeric else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell_text(cell)) for cell in row))
    wide = None if sys.stdout.isatty() else 200
    console = Console(file=sys.stdout, width=wide, highlight=False, soft_wrap=False)
    if title is not None:
        console.print(Text(title, style="bold"))  # rich would fold a table's own title to the table's width
    console.print(table)
    sys.stdout.flush()


def cell_text(value: Any) -> str:
    """A value as it stands in a table."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:,.2f}"
    if isinstance(value, int):
        return f"{value:,}"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
