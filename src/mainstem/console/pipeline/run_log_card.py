"""The log of a pipeline, newest first, and the Spark plan of its latest run. Used by one page each."""

from __future__ import annotations

from typing import Any

from nicegui import ui

from mainstem.console.formats import moment
from mainstem.console.frame import Page
from mainstem.console.parts import card, state, text
from mainstem.console.requests import ConsoleRequest, path


class RunLogCard:
    """The events of a pipeline, kept fresh."""

    def __init__(self, page: Page, pipeline: str) -> None:
        self._page = page
        self._asked = ConsoleRequest(path("pipelines", pipeline, "log"))
        self._shown: list[dict[str, Any]] | None = None
        with card("Log"):
            self._nothing = text("No entries yet. They begin when its App starts.", "quiet", "p")
            self._lines = ui.element("ol").classes("run-log").props('aria-label="Log" tabindex=0')
        self._lines.set_visibility(False)

    async def refresh(self) -> None:
        """Ask for the entries; the list is built again when there are others."""
        entries: list[dict[str, Any]] = (await self._page.ask(self._asked))["entries"]
        if entries == self._shown:
            return
        self._shown = entries
        self._nothing.set_visibility(not entries)
        self._lines.set_visibility(bool(entries))
        self._lines.clear()
        with self._lines:
            for entry in entries:
                _show(entry)


def _show(entry: dict[str, Any]) -> None:
    first, _, more = entry["text"].partition("\n")
    with ui.element("li"):
        with ui.element("div").classes("run-log-line"):
            text(moment(entry["at_ms"])[:19], "mono quiet", "time")
            state(entry["event"])
            text(first)
        if more:
            with ui.element("details"):
                text("More", "", "summary")
                text(more, "value", "pre").props('tabindex=0 aria-label="More"')


def plan_card(page: Page, pipeline: str) -> None:
    """A part that asks for the plan each time it is opened."""
    asked = ConsoleRequest(path("pipelines", pipeline, "plan"))
    with card(), ui.element("details") as details:
        with ui.element("summary"):
            text("Spark plan", "card-title summary-title", "h2")
        about = text("", "quiet", "p")
        shown = text("", "value plan", "pre").props('tabindex=0 aria-label="Spark plan"')
        shown.set_visibility(False)

    async def refresh() -> None:
        found = await page.ask(asked)
        has_plan = found["plan"] is not None
        batch = "" if found["batch_id"] is None else f"Micro-batch {found['batch_id']}, "
        about.text = f"{batch}{moment(found['at_ms'])[:19]}" if has_plan else "No plan yet."
        shown.text = found["plan"] or ""
        shown.set_visibility(has_plan)

    details.on("toggle", lambda: page.guarded(refresh))
