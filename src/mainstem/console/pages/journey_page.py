"""``/console/topics/{topic}/records/{partition}/{offset}``: the journey of a record, and what it waits for."""

from __future__ import annotations

from typing import Any, Final

from nicegui import ui

from mainstem.console.frame import Page, page
from mainstem.console.gateway_client import GatewayClient
from mainstem.console.parts import card, link, text
from mainstem.console.records.journey_link import journey_address
from mainstem.console.requests import ConsoleRequest, path
from mainstem.model import Position
from mainstem.pipelines.journey.sentences import Line, journey_lines

_REFRESH_S: Final = 5.0
_SIGNS: Final = {
    "record": "description",
    "origin": "arrow_back",
    "pipeline": "bolt",
    "topic": "view_stream",
    "view": "visibility",
    "waits": "hourglass_empty",
    "note": "info",
}


async def show(client: GatewayClient, topic: str, partition: str, offset: str) -> None:
    """Build the page."""
    parents = (("Topics", "/console/topics"), (topic, path("console", "topics", topic)))
    with page(client, f"{topic}/{partition}:{offset}", "Topics", parents, "Record") as this:
        shown = _Journey(this, ConsoleRequest(path("topics", topic, "records", partition, offset, "journey")))
        await this.fill(shown.refresh)
        this.every(shown.refresh, _REFRESH_S)


class _Journey:
    """The lines of the journey, kept fresh."""

    def __init__(self, this: Page, asked: ConsoleRequest) -> None:
        self._page = this
        self._asked = asked
        self._shown: list[Line] = []
        with card("Journey"):
            self._verdict = text("", "spaced", "p").props('aria-live="polite"')
            self._lines = ui.element("ol").classes("journey").props('aria-label="Journey"')
            text(
                "From positions: the ranges of offsets that micro-batches read and wrote, and where views are. A range "
                "may hold more than what came of this record.",
                "quiet",
                "p",
            )

    async def refresh(self) -> None:
        """Ask for the journey."""
        journey: dict[str, Any] = await self._page.ask(self._asked)
        lines = journey_lines(journey)
        if lines == self._shown:
            return
        self._shown = lines
        waiting = sum(line.mark == "waits" for line in lines)
        self._verdict.text = (
            f"It waits: {waiting} {'step is' if waiting == 1 else 'steps are'} not done."
            if waiting
            else "✓ It has arrived everywhere that is known."
        )
        self._lines.clear()
        with self._lines:
            for line in lines:
                _show(line)


def _show(line: Line) -> None:
    with ui.element("li").props(f'data-mark="{line.mark}"').style(f"--depth: {line.depth}"):
        ui.icon(_SIGNS[line.mark]).props("aria-hidden=true")
        text(line.text)
        address = _address(line)
        if address is not None:
            link("Show", address).props["aria-label"] = f"Show {line.name or line.link}"


def _address(line: Line) -> str | None:
    if line.link:
        [(tp, offset)] = Position.parse(line.link).items()
        return journey_address(tp, offset)
    if line.mark in ("pipeline", "origin"):
        return path("console", "pipelines", line.name)
    if line.mark == "view":
        return path("console", "views", line.name)
    return path("console", "topics", line.name) if line.mark == "topic" else None
