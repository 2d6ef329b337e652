"""Asking a SQL view: an editor, the rows as a table, and as a chart where two columns fit."""

from __future__ import annotations

from collections.abc import Sequence

from nicegui import ui

from mainstem.console import charts
from mainstem.console.query_boxes.box import QueryBox, Row, rows_table
from mainstem.console.requests import ConsoleRequest, path

_ROWS_MAX = 10_000


def show(box: QueryBox, *, has_past: bool = True) -> None:
    """Build the form. ``has_past``: the view answers as of earlier positions, too."""

    async def ask() -> None:
        body = {"query": editor.value or "", "limit": _ROWS_MAX}
        await box.run(ConsoleRequest(path("views", box.view, "sql"), {}, "POST", body), show_rows)

    with box.form(ask, "Run", has_past=has_past):
        quoted = box.view if box.view.isidentifier() else '"' + box.view.replace('"', '""') + '"'
        editor = ui.textarea("One SELECT (Ctrl+Enter runs it)", value=f"SELECT * FROM {quoted} LIMIT 50")
        editor.props("dense outlined autogrow spellcheck=false").classes("grow editor")
        editor.on("keydown.ctrl.enter.prevent", ask)


def show_rows(rows: Sequence[Row]) -> None:
    """The rows, below their chart where one fits."""
    chart = charts.of_rows(rows)
    if chart is not None:
        ui.echart(chart).classes("chart").props('aria-label="Chart of the answer"')
    rows_table(rows)
