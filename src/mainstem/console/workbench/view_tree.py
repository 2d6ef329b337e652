"""``ViewTree``: the views that answer SQL; of the chosen one its columns and types. Used by one page."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial

from nicegui import ui
from nicegui.element import Element

from mainstem.console.formats import identifier
from mainstem.console.frame import Page
from mainstem.console.gateway_client import GatewayError
from mainstem.console.parts import empty, text
from mainstem.console.requests import ConsoleRequest, path

SQL_KINDS = ("sql", "lake")
_VIEWS_MAX = 500
_COLUMNS_MAX = 2_000


class ViewTree:
    """The list. ``insert`` gets what a click adds to the query, ``choose`` the view that a click chose."""

    def __init__(self, page: Page, choose: Callable[[str], Awaitable[None]], insert: Callable[[str], None]) -> None:
        self._page = page
        self._choose = choose
        self._insert = insert
        self._views: dict[str, str] = {}
        self._chosen: str | None = None
        self._columns: dict[str, str] = {}
        self._names: dict[str, list[str]] = {}
        with ui.element("nav").classes("tree").props('aria-label="Views and columns" id=sql-tree') as self.element:
            self._find = ui.input("Find a view", on_change=self._draw).props("dense outlined clearable type=search")
            self._list = ui.element("div").classes("tree-list")

    @property
    def views(self) -> Mapping[str, str]:
        """The kind of each view."""
        return self._views

    def set_views(self, views: Mapping[str, str]) -> None:
        """Show these views, if they are others."""
        if dict(views) != self._views:
            self._views = dict(views)
            self._draw()

    async def show_columns(self, view: str) -> list[str]:
        """Open a view, and list its columns; the names that a query of it may use."""
        self._chosen = view
        self._draw()
        if view not in self._names:
            body = {"query": f"DESCRIBE {identifier(view)}", "limit": _COLUMNS_MAX}
            try:
                answer = await self._page.ask(ConsoleRequest(path("views", view, "sql"), {}, "POST", body))
            except GatewayError as error:
                with self._place:
                    text(error.detail, "quiet", "p")
                return [view]
            self._columns = {str(row["column_name"]): str(row["column_type"]) for row in answer["rows"]}
            self._names = {view: [view, *self._columns]}
            self._draw()
        return self._names[view]

    def _draw(self) -> None:
        self._list.clear()
        search = str(self._find.value or "").lower()
        found = [name for name in sorted(self._views) if search in name.lower()]
        with self._list:
            if not self._views:
                empty("No SQL views here", "Declare one in an App: app.view(name, topic, ms.SQL()).")
            for name in found[:_VIEWS_MAX]:
                self._draw_view(name)
            if len(found) > _VIEWS_MAX:
                text(f"{len(found) - _VIEWS_MAX} more: find one by its name.", "quiet", "p")

    def _draw_view(self, name: str) -> None:
        is_chosen = name == self._chosen
        made = _entry(name, self._views[name], "tree-view" + (" here" if is_chosen else ""))
        made.props["aria-expanded"] = "true" if is_chosen else "false"
        made.props["title"] = "Add the name to the query" if is_chosen else "Ask this view"
        made.on("click", partial(self._insert, identifier(name)) if is_chosen else partial(self._choose, name))
        if is_chosen:
            self._place: Element = ui.element("div").classes("tree-columns")
            with self._place:
                for column, kind in (self._columns if name in self._names else {}).items():
                    self._draw_column(column, kind)

    def _draw_column(self, name: str, kind: str) -> None:
        made = _entry(name, kind, "tree-column")
        made.props["title"] = "Add the name to the query"
        made.on("click", partial(self._insert, identifier(name)))


def _entry(name: str, kind: str, classes: str) -> Element:
    with ui.element("button").classes(classes).props("type=button") as made:
        text(name, "mono")
        text(kind, "quiet")
    return made
