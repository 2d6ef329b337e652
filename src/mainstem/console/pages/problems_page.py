"""``/console/problems``: what is wrong now, since when, and what to do."""

from __future__ import annotations

from typing import Any

from nicegui import ui

from mainstem.console.formats import ago
from mainstem.console.frame import Page, page
from mainstem.console.gateway_client import GatewayClient
from mainstem.console.health.chip import PROBLEMS
from mainstem.console.parts import card, empty, link, text

_RULES = (
    "a partition that takes no writes",
    "a pipeline that starts again, failed, or was not seen for 30 seconds",
    "a view that is stopped, differs from the log, or falls behind",
    "a lag that rises for 5 minutes",
    "new dead letters",
    "a disk with less than 10 % free",
    "a transaction that is open for a minute",
)


async def show(client: GatewayClient) -> None:
    """Build the page."""
    with page(client, "Problems", "") as this:
        _Problems(this)


class _Problems:
    """The list, kept fresh."""

    def __init__(self, this: Page) -> None:
        self._page = this
        self._shown: Any = None
        self._list = ui.element("div").props('aria-live="polite"')
        with card() as self._well:
            empty("✓ All well", "No rule finds a problem at this moment.")
        self._well.set_visibility(False)
        with card("What is looked for"):
            with ui.element("ul").classes("rules"):
                for rule in _RULES:
                    text(rule[0].upper() + rule[1:] + ".", "", "li")
            with ui.element("p").classes("quiet"):
                text("Every five seconds. ")
                link("History", "/console/history")
                text(" shows the numbers of the last day.")
        this.every(self._refresh)

    async def _refresh(self) -> None:
        answer = await self._page.ask(PROBLEMS)
        problems, now_ms = answer["problems"], answer["now_ms"]
        self._well.set_visibility(not problems)
        shown = [(each, ago(each["since_ms"], now_ms)) for each in problems]
        if shown == self._shown:
            return
        self._shown = shown
        self._list.clear()
        with self._list:
            for each, since in shown:
                _show(each, since)
            if answer["total"] > len(problems):
                text(f"{answer['total'] - len(problems):,} more problems are not shown.", "quiet", "p")


def _show(problem: dict[str, Any], since: str) -> None:
    with ui.element("section").classes("card trouble").props(f'data-rule="{problem["rule"]}"'):
        with ui.element("div").classes("trouble-head"):
            text(problem["text"], "trouble-text", "h2")
            text(f"since {since}" if since == "now" else since, "quiet")
        text(problem["action"], "", "p")
        link(f"Show {problem['subject']}", problem["link"])
