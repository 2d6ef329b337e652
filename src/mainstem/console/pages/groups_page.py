"""``/console/groups``: consumer groups, what they have committed and how far behind they are."""

from __future__ import annotations

from nicegui import ui

from mainstem.console.frame import page
from mainstem.console.gateway_client import GatewayClient
from mainstem.console.parts import card, column, empty, search_field, set_rows, table
from mainstem.console.requests import ConsoleRequest

_GROUPS = ConsoleRequest("/groups")
_COLUMNS = (
    column("name", "Group"),
    column("state", "State", state=True),
    column("lag", "Lag", format="count"),
    column("committed", "Committed", classes="wide cut mono"),
)


async def show(client: GatewayClient) -> None:
    """Build the page."""
    with page(client, "Groups", "Groups") as this:
        with card():
            place = ui.element("div").classes("bar")
            shown = table(_COLUMNS, "name", "Groups")
            with place:
                search_field("Find a group", shown)
            nothing = empty("No groups yet", "A consumer group appears here when it first commits or joins.")
            nothing.set_visibility(False)

        async def refresh() -> None:
            groups = (await this.ask(_GROUPS))["groups"]
            set_rows(shown, [{column["field"]: group.get(column["field"]) for column in _COLUMNS} for group in groups])
            shown.set_visibility(bool(groups))
            nothing.set_visibility(not groups)

        this.every(refresh)
