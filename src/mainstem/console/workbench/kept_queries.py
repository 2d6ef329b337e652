"""``KeptQueries``: the queries that ran lately and those that were saved. The browser keeps them; the server nothing.

console.js bounds both lists. What comes from the browser is checked here again. Used by one page.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from nicegui import context, ui

from mainstem.console.formats import one_line
from mainstem.console.parts import empty, text

_ENTRIES_MAX = 50
_NAME_CHARS_MAX = 80
_QUERY_CHARS_MAX = 20_000
_BROWSER_S = 5.0

Use = Callable[[str, str], Awaitable[None]]


@dataclass(frozen=True)
class KeptQuery:
    """A query of a view; ``name`` is empty in the history."""

    name: str
    view: str
    query: str


class KeptQueries:
    """The dialog with both lists. ``use`` gets the view and the text of the query that is taken."""

    def __init__(self, current: Callable[[], tuple[str, str]], use: Use) -> None:
        self._current = current
        self._use = use
        self._client = context.client
        with ui.dialog() as self._dialog, ui.card().classes("kept"):
            text("Saved queries and history", "card-title", "h2")
            with ui.element("form").classes("bar").on("submit.prevent", self._save):
                self._name = ui.input("Name of this query").props(f"dense outlined maxlength={_NAME_CHARS_MAX}")
                self._name.classes("grow")
                ui.button("Save").props("unelevated no-caps type=submit")
            text("Your browser keeps them: no other browser has them.", "quiet", "p")
            self._lists = ui.element("div")
            ui.button("Close", on_click=self._dialog.close).props("flat no-caps")

    async def open(self) -> None:
        """Read the lists from the browser, and show them."""
        await self._fill()
        self._dialog.open()

    def remember(self, view: str, query: str) -> None:
        """Add a query that ran to the history."""
        self._tell("remember", view, query[: _QUERY_CHARS_MAX + 1])

    async def _save(self) -> None:
        name = (self._name.value or "").strip()[:_NAME_CHARS_MAX]
        view, query = self._current()
        if name and query and len(query) <= _QUERY_CHARS_MAX:
            self._tell("save", view, query, name)
            self._name.value = ""
            await self._fill()

    async def _forget(self, name: str) -> None:
        self._tell("forget", name)
        await self._fill()

    def _tell(self, function: str, *arguments: str) -> None:
        given = ", ".join(json.dumps(each) for each in arguments)
        self._client.run_javascript(f"mainstem.queries.{function}({given})")

    async def _fill(self) -> None:
        kept = await self._client.run_javascript("return mainstem.queries.all()", timeout=_BROWSER_S)
        self._lists.clear()
        with self._lists:
            saved, history = checked(kept, "saved"), checked(kept, "history")
            text("Saved", "quiet", "h3")
            self._list(saved, "Nothing is saved yet")
            text("History", "quiet", "h3")
            self._list(history, "Nothing ran yet")

    def _list(self, entries: Sequence[KeptQuery], otherwise: str) -> None:
        if not entries:
            empty(otherwise, "")
        for entry in entries:
            with ui.element("div").classes("kept-query"):
                with ui.element("button").props("type=button title='Take this query'") as taken:
                    text(entry.name or entry.view, "kept-name")
                    text(one_line(entry.query, 300), "mono")
                taken.on("click", partial(self._take, entry))
                if entry.name:
                    made = ui.button(icon="delete", on_click=partial(self._forget, entry.name))
                    made.props('flat round dense size=sm aria-label="Delete" title="Delete"')

    async def _take(self, entry: KeptQuery) -> None:
        self._dialog.close()
        await self._use(entry.view, entry.query)


def checked(kept: Any, which: str) -> list[KeptQuery]:
    """The entries of a list of the browser that are queries, and no more than there may be."""
    listed = kept.get(which) if isinstance(kept, dict) else None
    found = []
    for each in (listed if isinstance(listed, list) else [])[:_ENTRIES_MAX]:
        if isinstance(each, dict) and all(isinstance(each.get(name), str) for name in ("view", "query")):
            name = each.get("name")
            name = name[:_NAME_CHARS_MAX] if isinstance(name, str) else ""
            found.append(KeptQuery(name, each["view"][:250], each["query"][:_QUERY_CHARS_MAX]))
    return found
