"""``QueryBox``: the common part of the boxes of all kinds: freshness, the request, and its answer.

A kind's module makes a form, gives ``run`` the request, and gets the rows to show in its own way. The answer always
comes with the position that it reflects, how long it took, and the request as code. Used by one page.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from nicegui import ui

from mainstem.console.formats import count, duration, error_place, exact
from mainstem.console.frame import Page
from mainstem.console.gateway_client import GatewayError
from mainstem.console.parts import column, empty, position, problem, set_rows, table, text
from mainstem.console.requests import ConsoleRequest

Row = dict[str, Any]
ShowRows = Callable[[Sequence[Row]], None]

_ANSWER_S = 330.0  # longer than any wait that the gateway allows
_COLUMNS_MAX = 40
_ROWS_SHOWN_MAX = 2_000
_CELL_CHARS_MAX = 2_000
_ROW = "row number"


class QueryBox:
    """The base of the query boxes: freshness fields, the request, and its answer."""

    def __init__(self, page: Page, view: str) -> None:
        self.view = view
        self._page = page
        self._at_least: ui.input | None = None
        self._as_of: ui.input | None = None
        self._form = ui.element("form")
        self._answer = ui.element("div").props('aria-live="polite"')
        self._asking = 0

    @contextmanager
    def form(self, submit: Callable[[], Any], button: str = "Ask", *, has_past: bool = False) -> Iterator[None]:
        """A form that asks on Enter and by its button; its fields go inside. ``has_past``: it answers as of then."""
        with self._form.on("submit.prevent", submit):
            with ui.element("div").classes("bar"):
                yield
            with ui.element("div").classes("bar"):
                ui.button(button).props("unelevated no-caps type=submit")
                self._at_least = ui.input("At least (a position)").props("dense outlined clearable").classes("grow")
                if has_past:
                    self._as_of = ui.input("As of (a position or a time)").props("dense outlined clearable")
                    self._as_of.classes("grow")

    def set_as_of(self, moment: str) -> None:
        """Fill in the past moment of the next question; nothing is now."""
        if self._as_of is not None:
            self._as_of.value = moment or None

    def address(self) -> dict[str, str]:
        """The parameters in the page's address."""
        return self._page.address()

    async def ask(self, asked: ConsoleRequest) -> Any:
        """The answer to a question of the form itself. Raises GatewayError."""
        return await self._page.ask(asked)

    async def run(self, asked: ConsoleRequest, show: ShowRows) -> None:
        """Ask, and show the rows or the problem. Only the newest question's answer is shown."""
        for name, field in (("at_least", self._at_least), ("as_of", self._as_of)):
            moment = (field.value or "").strip() if field is not None else ""
            if moment:
                asked = replace(asked, query={**asked.query, name: moment})
        self._asking += 1
        number, started_s = self._asking, time.monotonic()
        try:
            answer = await self._page.ask(asked, timeout_s=_ANSWER_S)
        except GatewayError as error:
            if number == self._asking:
                self._answer.clear()
                with self._answer:
                    problem(error.title, error.detail)
                    place = error_place(str((asked.body or {}).get("query", "")), error.detail)
                    if place is not None:
                        text(place, "value", "pre")
                    self._page.show_request(asked)
            return
        if number != self._asking:
            return
        took_s = time.monotonic() - started_s
        self._answer.clear()
        with self._answer:
            rows = answer["rows"]
            with ui.element("div").classes("bar"):
                text(f"{count(len(rows))} {'row' if len(rows) == 1 else 'rows'} in {duration(took_s)}, as of", "quiet")
                position(answer["position"])
            if rows:
                show(rows)
            else:
                empty("No rows", "The view answered, and nothing matches.")
            if answer.get("next") is not None:
                self._show_next(replace(asked, query={**asked.query, "after": answer["next"]}), show)
            self._page.show_request(asked)

    def _show_next(self, asked: ConsoleRequest, show: ShowRows) -> None:
        """A line that says that more rows follow, and the button that asks for them."""

        async def ask() -> None:
            await self.run(asked, show)

        with ui.element("div").classes("bar"):
            text("More rows follow.", "quiet")
            ui.button("Next rows", on_click=ask).props("flat no-caps")


def rows_table(rows: Sequence[Row], pick: str = "", on_pick: Callable[[str], Any] | None = None) -> None:
    """Rows as a table with a column for each field. The cells of ``pick`` are buttons that call ``on_pick``."""
    names = list(dict.fromkeys(name for row in rows[:_ROWS_SHOWN_MAX] for name in row))
    columns = []
    for name in names[:_COLUMNS_MAX]:
        is_number = all(isinstance(row.get(name), int | float | None) for row in rows[:_ROWS_SHOWN_MAX])
        made = column(name, name, align="right" if is_number else "left")
        made[":format"] = "value => mainstem.cell(value)"
        if on_pick is not None and name == pick:
            made["pick"] = "Show its neighbors"
        columns.append(made)
    shown = table([column(_ROW, "#", classes="number"), *columns], _ROW, "Answer")
    set_rows(
        shown,
        [
            {**{name: exact(row.get(name), _CELL_CHARS_MAX) for name in names[:_COLUMNS_MAX]}, _ROW: number}
            for number, row in enumerate(rows[:_ROWS_SHOWN_MAX], 1)
        ],
    )
    if on_pick is not None:
        shown.on("act", lambda event: on_pick(str(rows[event.args[_ROW] - 1][pick])), args=[_ROW])
    if len(rows) > _ROWS_SHOWN_MAX:
        text(f"The first {count(_ROWS_SHOWN_MAX)} rows are shown; the line below gets all.", "quiet", "p")
    if len(names) > _COLUMNS_MAX:
        text(f"{len(names) - _COLUMNS_MAX} more columns are not shown; the line below gets all.", "quiet", "p")
