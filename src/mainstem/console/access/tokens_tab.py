"""``TokensTab``: the gateway's tokens: list, create, revoke. A new token is shown once, in no request of the page."""

from __future__ import annotations

from typing import Any

from nicegui import ui

from mainstem.console.access.access_tab import AccessTab, change_form
from mainstem.console.confirmation import confirm_by_name
from mainstem.console.frame import Page
from mainstem.console.parts import column, position, text
from mainstem.console.requests import ConsoleRequest, path

_SCOPES = ("read", "write", "admin")
_COLUMNS = (
    column("id", "Name", classes="breaks"),
    *(column(scope, scope.capitalize(), classes="breaks") for scope in _SCOPES),
    column("act", "Action", action="Revoke …", of="id", sortable=False),
)
_TOKENS = ConsoleRequest("/tokens")
_HINTS = {
    "read": "May read: topic:NAME, view:NAME, topic:PREFIX* or *",
    "write": "May append to: the same",
    "admin": "May do anything with: the same; * also changes users, ACLs and tokens",
}


class TokensTab:
    """The tab."""

    def __init__(self, page: Page) -> None:
        self._tab = AccessTab(page, "Tokens", _COLUMNS, self._load, self._revoke)
        self._secret = ui.element("div").props('aria-live="polite"')
        self.refresh = self._tab.refresh
        if not page.is_private:
            text("A new token is shown only over TLS, or on the gateway's machine: open this page there.", "note", "p")
            return
        with change_form("Create a token", self._create, "Create"):
            self._name = ui.input("Name").props("dense outlined autocomplete=off").classes("field")
            self._scopes = {scope: ui.input(hint).props("dense outlined") for scope, hint in _HINTS.items()}
            for field in self._scopes.values():
                field.classes("field")

    async def _load(self) -> list[dict[str, Any]]:
        tokens = (await self._tab.page.ask(_TOKENS))["tokens"]
        return [{"id": each["name"], **{scope: " ".join(each[scope]) or "–" for scope in _SCOPES}} for each in tokens]

    async def _create(self) -> None:
        self._secret.clear()
        name = (self._name.value or "").strip()
        patterns = {scope: (field.value or "").replace(",", " ").split() for scope, field in self._scopes.items()}
        body = {"name": name, **{scope: found for scope, found in patterns.items() if found}}
        made = await self._tab.change(ConsoleRequest("/tokens", {}, "POST", body))
        if made is None:
            return
        for field in (self._name, *self._scopes.values()):
            field.value = ""
        with self._secret, ui.element("div").classes("note"):
            text(f"The token {made['name']}. Copy it now: it cannot be shown again.", "", "p")
            position(made["token"]).props('title="Copy the token"')

    async def _revoke(self, row: dict[str, Any]) -> None:
        name, is_own = row["id"], row["id"] == self._tab.page.token_name
        consequences = "Requests and pages with this token are refused from then on."
        if is_own:
            consequences += " You are signed in with it: you will have to sign in with another one."
        typed = await confirm_by_name(f"Revoke token {name}?", consequences, name, "Revoke the token")
        if typed is not None:
            self._secret.clear()
            await self._tab.change(ConsoleRequest(path("tokens", name), {"confirm": typed}, "DELETE"))
