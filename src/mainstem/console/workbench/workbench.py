"""``Workbench``: views beside an editor, and below it what the view answers. Used by one page.

A query is of one view, whose table has the view's name. The page's address has the view and the query that ran last, so
that it can be shared. A query that came with the address is shown and does not run before a click.
"""

from __future__ import annotations

import json
import time
from typing import Any
from urllib.parse import urlencode

from nicegui import context, ui

from mainstem.console import listing
from mainstem.console.formats import count, duration, error_place, identifier
from mainstem.console.frame import Page
from mainstem.console.gateway_client import GatewayError
from mainstem.console.parts import position, problem, text
from mainstem.console.requests import ConsoleRequest, path
from mainstem.console.workbench.answer_tabs import AnswerTabs
from mainstem.console.workbench.kept_queries import KeptQueries
from mainstem.console.workbench.view_tree import SQL_KINDS, ViewTree

_ANSWER_S = 330.0  # longer than any wait that the gateway allows
_ROWS_MAX = 10_000
_ADDRESS_CHARS_MAX = 4_000
_PAGE = "/console/sql"


class Workbench:
    """The page's content."""

    def __init__(self, page: Page) -> None:
        self._page = page
        self._client = context.client
        address = page.address()
        self._view = address.get("view", "")
        self._default = ""
        self._asking = 0
        with ui.element("div").classes("workbench"):
            self._tree = ViewTree(page, self._show_view, self._insert)
            with ui.element("section").classes("card"):
                self._build_editor(address.get("q", ""))
                self._answer = ui.element("div").props('aria-live="polite"')
        self._kept = KeptQueries(lambda: (self._view, self._editor.value or ""), self._take)
        if address.get("q"):
            with self._answer:
                text("This query came with the address. It has not run yet.", "quiet", "p")

    def _build_editor(self, query: str) -> None:
        with ui.element("div").classes("bar"):
            views = ui.button("Views", icon="menu").props("outline dense no-caps aria-controls=sql-tree")
            views.classes("only-phone").on("click", js_handler="(event) => mainstem.drawer('sql-tree', event)")
            text("View", "quiet")
            self._name = text(self._view or "none chosen", "mono")
        self._editor = ui.codemirror(query, language="SQL", line_wrapping=True, keymap={"Mod-Enter": self._on_key})
        self._editor.classes("sql-editor")
        with ui.element("div").classes("bar"):
            ui.button("Run", on_click=self._run).props("unelevated no-caps").tooltip("Ctrl+Enter, or ⌘ Enter")
            ui.button("Explain", on_click=self._explain).props("outline no-caps").tooltip("The plan; it does not run")
            ui.button("Queries …", on_click=lambda: self._kept.open()).props("flat no-caps icon=history")
            self._as_of = (
                ui.input("As of (now, a position or a time)").props("dense outlined clearable").classes("grow")
            )
            self._at_least = ui.input("At least (a position)").props("dense outlined clearable").classes("grow")

    async def refresh(self) -> None:
        """Look which views there are; the first time, choose one."""
        views = {view["name"]: view["kind"] for view in await listing.views(self._page) if view["kind"] in SQL_KINDS}
        is_first = not self._tree.views
        self._tree.set_views(views)
        if is_first and views:
            self._client.run_javascript(f"mainstem.sqlEditor({self._editor.id})")
            await self._show_view(self._view if self._view in views else min(views))

    async def _show_view(self, view: str) -> None:
        self._view = self._name.text = view
        if (self._editor.value or "") in ("", self._default):
            self._default = self._editor.value = f"SELECT * FROM {identifier(view)} LIMIT 50"
        is_lake = self._tree.views.get(view) == "lake"
        self._as_of.set_enabled(not is_lake)
        if is_lake:
            self._as_of.value = None
        names = await self._tree.show_columns(view)
        if self._view == view:
            written = json.dumps([[identifier(name), "table" if name == view else "column"] for name in names])
            self._client.run_javascript(f"mainstem.sqlNames({self._editor.id}, {written})")

    def _insert(self, written: str) -> None:
        self._client.run_javascript(f"mainstem.sqlInsert({self._editor.id}, {json.dumps(written)})")

    async def _take(self, view: str, query: str) -> None:
        self._editor.value = query
        if view in self._tree.views and view != self._view:
            await self._show_view(view)

    async def _on_key(self, _: object) -> None:
        await self._run()

    async def _explain(self) -> None:
        await self._run(explains=True)

    async def _run(self, *, explains: bool = False) -> None:
        """Ask, and show the answer or the problem. Only the newest question's answer is shown."""
        query = self._editor.value or ""
        if not self._view or not query.strip():
            return
        moments = {"at_least": self._at_least.value, "as_of": self._as_of.value}
        body: dict[str, Any] = {"query": query, "limit": _ROWS_MAX, **({"explain": True} if explains else {})}
        given = {name: (value or "").strip() or None for name, value in moments.items()}
        view, asked = self._view, ConsoleRequest(path("views", self._view, "sql"), given, "POST", body)
        self._kept.remember(view, query)
        self._share(view, query)
        self._asking += 1
        number, started_s = self._asking, time.monotonic()
        self._answer.clear()
        with self._answer:
            text("Running …", "quiet", "p")
        try:
            answer = await self._page.ask(asked, timeout_s=_ANSWER_S)
        except GatewayError as error:
            if number == self._asking:
                self._show_problem(asked, error)
            return
        if number == self._asking:
            self._show_answer(view, asked, answer, time.monotonic() - started_s)

    def _show_problem(self, asked: ConsoleRequest, error: GatewayError) -> None:
        self._answer.clear()
        with self._answer:
            problem(error.title, error.detail)
            place = error_place(asked.body["query"], error.detail)
            if place is not None:
                text(place, "value", "pre")
            self._page.show_request(asked)

    def _show_answer(self, view: str, asked: ConsoleRequest, answer: dict[str, Any], took_s: float) -> None:
        rows = answer["rows"]
        self._answer.clear()
        with self._answer:
            with ui.element("div").classes("bar"):
                if asked.body.get("explain"):
                    text(f"Planned in {duration(took_s)}, as of", "quiet")
                else:
                    number = f"{count(len(rows))} {'row' if len(rows) == 1 else 'rows'}"
                    text(f"{number} in {duration(took_s)}, as of", "quiet")
                position(answer["position"])
            if asked.body.get("explain"):
                text(str(rows[0]["plan"]), "value plan", "pre").props("tabindex=0 aria-label='The plan'")
                self._page.show_request(asked)
            else:
                AnswerTabs(self._page, asked, rows, view)

    def _share(self, view: str, query: str) -> None:
        """Put the query into the page's address, where it is short enough."""
        address = f"{_PAGE}?{urlencode({'view': view, 'q': query})}"
        if len(address) > _ADDRESS_CHARS_MAX:
            address = f"{_PAGE}?{urlencode({'view': view})}"
        ui.navigate.history.replace(address)
