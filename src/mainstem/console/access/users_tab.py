"""``UsersTab``: the log's users: list, add, remove. A password is sent once and is in no shown request."""

from __future__ import annotations

from typing import Any

from nicegui import ui

from mainstem.console.access.access_tab import AccessTab, change_form
from mainstem.console.confirmation import confirm_by_name
from mainstem.console.frame import Page
from mainstem.console.parts import column, text
from mainstem.console.requests import ConsoleRequest, path

_COLUMNS = (
    column("id", "User", classes="breaks"),
    column("mechanisms", "Logs in by"),
    column("question", "Rights", href="address", sortable=False),
    column("act", "Action", action="Remove …", of="id", sortable=False),
)
_USERS = ConsoleRequest("/users")


class UsersTab:
    """The tab."""

    def __init__(self, page: Page) -> None:
        self._tab = AccessTab(page, "Users", _COLUMNS, self._load, self._remove)
        self.refresh = self._tab.refresh
        if not page.is_private:  # each key that is typed goes over the connection
            text("Passwords pass only over TLS, or on the gateway's machine: open the console there.", "note", "p")
            return
        with change_form("Add a user, or give one a new password", self._add, "Save"):
            self._name = ui.input("Name").props("dense outlined autocomplete=off").classes("field")
            self._password = ui.input("Password", password=True)
            self._password.props('dense outlined autocomplete="new-password"').classes("field")

    async def _load(self) -> list[dict[str, Any]]:
        users = (await self._tab.page.ask(_USERS))["users"]
        return [
            {
                "id": each["user"],
                "mechanisms": ", ".join(each["mechanisms"]),
                "question": "What may it do?",
                "address": f"{path('console', 'access')}?tab=acls&who={path(each['user'])[1:]}",
            }
            for each in users
        ]

    async def _add(self) -> None:
        name, password = (self._name.value or "").strip(), self._password.value or ""
        self._password.value = ""
        sent = ConsoleRequest("/users", {}, "POST", {"user": name, "password": password})
        shown = ConsoleRequest("/users", {}, "POST", {"user": name, "password": "…"})
        if await self._tab.change(sent, shown) is not None:
            self._name.value = ""
            with self._tab.result:
                text(f"{name} can log in now. Without an ACL a user may do nothing.", "", "p")

    async def _remove(self, row: dict[str, Any]) -> None:
        name = row["id"]
        typed = await confirm_by_name(
            f"Remove user {name}?",
            "It cannot log in any more. Connections that it has stay until they end. Its ACLs stay, too.",
            name,
            "Remove the user",
        )
        if typed is not None:
            await self._tab.change(ConsoleRequest(path("users", name), {"confirm": typed}, "DELETE"))
