"""Asking a search view: words, fields and phrases; the best hits first."""

from __future__ import annotations

from nicegui import ui

from mainstem.console.query_boxes.box import QueryBox, rows_table
from mainstem.console.requests import ConsoleRequest, path

_HITS_MAX = 50


def show(box: QueryBox) -> None:
    """Build the form."""

    async def ask() -> None:
        query = {"q": field.value or "*", "limit": _HITS_MAX}
        await box.run(ConsoleRequest(path("views", box.view, "search"), query), rows_table)

    with box.form(ask, "Search"):
        field = ui.input("Words, field:word, “a phrase”, AND OR NOT (empty: everything)")
        field.props("dense outlined clearable type=search").classes("grow")
