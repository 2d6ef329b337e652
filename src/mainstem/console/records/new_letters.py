"""``NewLetters``: how many new dead letters a view or pipeline has, in red, linked to them. Used by one page."""

from __future__ import annotations

import time
from urllib.parse import quote

from mainstem.console.formats import count
from mainstem.console.frame import Page
from mainstem.console.gateway_client import GatewayError
from mainstem.console.parts import link, set_text_of
from mainstem.console.requests import ConsoleRequest

_EVERY_S = 5.0


class NewLetters:
    """The link; hidden while there are none."""

    def __init__(self, page: Page) -> None:
        self._page = page
        self._known = 0
        self._next_s = 0.0
        self._link = link("", "/console/dead-letters", "new-letters")
        self._link.set_visibility(False)

    async def look(self, topic: str) -> int:
        """Show how many are new; returns how many there are. Asks every few seconds; an error shows nothing."""
        now_s = time.monotonic()
        if now_s < self._next_s:
            return self._known
        self._next_s = now_s + _EVERY_S
        try:
            found = (await self._page.ask(ConsoleRequest("/dead-letters", {"topic": topic})))["topics"]
        except GatewayError:  # a token that may see the view alone
            return self._known
        new = found[0]["unhandled"] if found else 0
        self._known = found[0]["letters"] if found else 0
        set_text_of(self._link, f"✕ {count(new)} new dead letter{'s' if new != 1 else ''}")
        self._link.props["href"] = address_of(topic)
        self._link.set_visibility(bool(new))
        return self._known


def address_of(topic: str) -> str:
    """The page of a topic's dead letters."""
    return f"/console/dead-letters?topic={quote(topic, safe='')}"
