"""The sign in the header of every page: ``✓ All well``, or how many problems there are. It leads to them.

Without an answer it is hidden: a gateway may not sample, or the token may not allow to see the problems.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from nicegui import ui

from mainstem.console.gateway_client import GatewayError
from mainstem.console.parts import Tag, link
from mainstem.console.requests import ConsoleRequest

PROBLEMS = ConsoleRequest("/health/problems")
_REFRESH_S = 5.0

Ask = Callable[[ConsoleRequest], Awaitable[Any]]


def chip() -> Tag:
    """The sign, hidden until it is known."""
    made = link("", "/console/problems", "health")
    made.props["aria-live"] = "polite"
    made.set_visibility(False)
    return made


def keep_fresh(shown: Tag, ask: Ask) -> None:
    """Refresh the sign for as long as the browser is connected."""

    async def refresh() -> None:
        try:
            total = (await ask(PROBLEMS))["total"]
        except GatewayError:
            shown.set_visibility(False)
            return
        word = "✓ All well" if total == 0 else f"✕ {total:,} problem{'s' if total > 1 else ''}"
        if shown.text != word:
            shown.text = word
            shown.props["data-state"] = "bad" if total else "good"
            shown.update()
        shown.set_visibility(True)

    ui.timer(_REFRESH_S, refresh, immediate=True)
