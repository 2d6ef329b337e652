"""Asking a SQL view: an editor beside the columns; the rows as a table, as a chart, or as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import urlencode

from nicegui import ui
from nicegui.element import Element

from mainstem.console import charts
from mainstem.console.formats import cut, identifier, pretty
from mainstem.console.gateway_client import GatewayError
from mainstem.console.parts import drawing, link, text
from mainstem.console.query_boxes.box import QueryBox, Row, rows_table
from mainstem.console.requests import ConsoleRequest, path

_ROWS_MAX = 10_000
_JSON_CHARS_MAX = 50_000
_ROWS, _CHART, _JSON = "Rows", "Chart", "JSON"


def show(box: QueryBox, *, has_past: bool = True) -> None:
    """Build the form. ``has_past``: the view answers as of earlier positions, too."""

    async def ask() -> None:
        body = {"query": editor.value or "", "limit": _ROWS_MAX}
        await box.run(ConsoleRequest(path("views", box.view, "sql"), {}, "POST", body), show_rows)

    quoted = identifier(box.view)
    with box.form(ask, "Run", has_past=has_past):
        editor = ui.textarea("One SELECT (Ctrl+Enter runs it)", value=f"SELECT * FROM {quoted} LIMIT 50")
        editor.props("dense outlined autogrow spellcheck=false").classes("grow editor")
        editor.on("keydown.ctrl.enter.prevent", ask)
        columns = ui.element("div").classes("columns").props('role=group aria-label="Columns"')
    link("Open in the SQL workbench", "/console/sql?" + urlencode({"view": box.view}))

    async def list_columns() -> None:
        described = {"query": f"DESCRIBE {quoted}", "limit": 1_000}
        try:
            answer = await box.ask(ConsoleRequest(path("views", box.view, "sql"), {}, "POST", described))
        except GatewayError:
            return  # a view that is not live yet has no columns to list; a query says why
        with columns:
            for row in answer["rows"]:
                _column_button(editor, str(row["column_name"]), str(row["column_type"]))

    ui.timer(0, list_columns, once=True)


def _column_button(editor: ui.textarea, name: str, type_name: str) -> None:
    """A column with its type; a click adds its name to the query."""

    def add() -> None:
        editor.value = f"{editor.value or ''} {identifier(name)}"

    with ui.element("button").classes("sql-column").props('type=button title="Add to the query"').on("click", add):
        text(name, "mono")
        text(type_name, "quiet")


def show_rows(rows: Sequence[Row]) -> None:
    """The rows as a table; as a chart, where one fits, or as JSON when asked for."""
    chart = charts.of_rows(rows)
    choices = [_ROWS, *([] if chart is None else [_CHART]), _JSON]

    def choose() -> None:
        place.clear()
        with place:
            _show_as(str(choice.value), rows, chart)

    choice = ui.toggle(choices, value=_ROWS, on_change=choose).props("dense no-caps unelevated").classes("choice")
    choice.props('aria-label="Show the answer as"')
    place: Element = ui.element("div")
    choose()


def _show_as(what: str, rows: Sequence[Row], chart: dict[str, object] | None) -> None:
    if what == _CHART and chart is not None:
        drawing(chart, "Chart of the answer")
    elif what == _JSON:
        shown, left_out = cut(pretty(list(rows)), _JSON_CHARS_MAX)
        text(shown, "value", "pre").props("tabindex=0")
        if left_out:
            text(f"{left_out:,} more characters are not shown here; the code below gets all of it.", "quiet", "p")
    else:
        rows_table(rows)
