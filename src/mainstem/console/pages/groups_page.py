"""``/console/groups``: consumer groups, what they have committed and how far behind they are."""

from __future__ import annotations

from typing import Any

from nicegui import ui

from mainstem.console.frame import Page, page
from mainstem.console.gateway_client import GatewayClient
from mainstem.console.health.trends import Trends, trend_column
from mainstem.console.parts import card, column, empty, link, search_field, set_rows, table
from mainstem.console.requests import ConsoleRequest, path
from mainstem.model import is_load_group

_GROUPS = ConsoleRequest("/groups")
_OWN = "mainstem-"
_COLUMNS = (
    column("name", "Group", href="address", classes="breaks"),
    column("state", "State", state=True),
    column("lag", "Lag", format="count"),
    trend_column("Lag"),
    column("committed", "Committed", classes="cut mono"),
)


async def show(client: GatewayClient) -> None:
    """Build the page."""
    with page(client, "Groups", "Groups") as this:
        _Groups(this)


class _Groups:
    """The table and its filters."""

    def __init__(self, this: Page) -> None:
        self._page = this
        self._trends = Trends(this, "group/*/lag")
        self._groups: list[dict[str, Any]] = []
        with card():
            with ui.element("div").classes("bar"):
                place = ui.element("div")
                link("Metrics of clients", "/console/clients")
                self._with_own = ui.checkbox("Mainstem's own groups", on_change=self._show).props("dense")
            self._table = table(_COLUMNS, "name", "Groups").classes("cards")
            with place:
                search_field("Find a group", self._table)
            self._nothing = empty("No groups yet", "A consumer group appears here when it first commits or joins.")
            self._nothing.set_visibility(False)
        this.every(self._refresh)

    async def _refresh(self) -> None:
        await self._trends.refresh()
        self._groups = (await self._page.ask(_GROUPS))["groups"]
        self._show()

    def _show(self) -> None:
        rows = [
            _row(group) | self._trends.of(group["name"])
            for group in self._groups
            if self._with_own.value or not group["name"].startswith(_OWN)
        ]
        set_rows(self._table, rows)
        self._table.set_visibility(bool(rows))
        self._nothing.set_visibility(not rows)


def _row(group: dict[str, Any]) -> dict[str, Any]:
    """A group's row. Groups that hold the progress of a load or of a pipeline's output have no members by nature."""
    name, state = group["name"], group["state"]
    if name.startswith(_OWN) and state == "Empty":
        state = "of a load" if is_load_group(name) else "of a pipeline"
    address = path("console", "groups", name)
    return {"name": name, "state": state, "lag": group["lag"], "committed": group["committed"], "address": address}
