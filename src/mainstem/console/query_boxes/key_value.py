"""Asking a key-value view or a sink: one key, or the keys with a prefix."""

from __future__ import annotations

from nicegui import ui

from mainstem.console.query_boxes.box import QueryBox, rows_table
from mainstem.console.requests import ConsoleRequest, path, row_of

_ONE, _PREFIX = "This key", "Keys that begin with"
_ROWS_MAX = 200


def show(box: QueryBox, *, has_past: bool = True) -> None:
    """Build the form. ``has_past``: the view answers as of earlier positions, too."""

    async def ask() -> None:
        key = field.value or ""
        if how.value == _ONE and key:
            await box.run(row_of(box.view, key), rows_table)
        else:
            query = {"prefix": key or None, "limit": _ROWS_MAX}
            await box.run(ConsoleRequest(path("views", box.view, "keys"), query), rows_table)

    with box.form(ask, has_past=has_past):
        how = ui.select([_PREFIX, _ONE], value=_PREFIX, label="Find").props("dense outlined options-dense")
        how.classes("order")
        field = ui.input("Key (empty: all)").props("dense outlined clearable").classes("grow")
