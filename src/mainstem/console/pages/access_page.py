"""``/console/access``: users, ACLs and tokens, each in a tab. The address names the tab (``?tab=acls``)."""

from __future__ import annotations

from typing import Final

from nicegui import ui

from mainstem.console.access.acls_tab import AclsTab
from mainstem.console.access.tokens_tab import TokensTab
from mainstem.console.access.users_tab import UsersTab
from mainstem.console.frame import Page, page
from mainstem.console.gateway_client import GatewayClient
from mainstem.console.parts import link

_TABS: Final = {"users": "Users", "acls": "ACLs", "tokens": "Tokens"}
_REFRESH_S: Final = 5.0


async def show(client: GatewayClient, tab: str, who: str) -> None:
    """Build the page."""
    chosen = tab if tab in _TABS else "users"
    with page(client, "Access", "Access") as this:
        with ui.element("nav").classes("tabs").props('aria-label="Parts of access"'):
            for name, label in _TABS.items():
                shown = link(label, f"/console/access?tab={name}", "tab here" if name == chosen else "tab")
                if name == chosen:
                    shown.props["aria-current"] = "page"
        this.every(_built(this, chosen, who).refresh, _REFRESH_S)


def _built(this: Page, tab: str, who: str) -> UsersTab | AclsTab | TokensTab:
    if tab == "acls":
        return AclsTab(this, who)
    return TokensTab(this) if tab == "tokens" else UsersTab(this)
