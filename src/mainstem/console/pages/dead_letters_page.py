"""``/console/dead-letters``: what views and pipelines could not use, by reason; ``?topic=``: of one of them."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable

from nicegui import events, ui

from mainstem.console.formats import ago, count
from mainstem.console.frame import Page, page
from mainstem.console.gateway_client import GatewayClient
from mainstem.console.listing import Document
from mainstem.console.parts import card, empty, link, set_text_of, text
from mainstem.console.records.letter_cards import LetterCards
from mainstem.console.requests import ConsoleRequest, path

_SECTIONS = {"view": ("Views", "/console/views"), "pipeline": ("Pipelines", "/console/pipelines")}


async def show(client: GatewayClient, topic: str) -> None:
    """Build the page; ``topic`` empty: of all views and pipelines."""
    parents = (("Dead letters", "/console/dead-letters"),) if topic else ()
    with page(client, topic.partition(".")[2] or "Dead letters", "", parents, "Dead letters" if topic else "") as this:
        shown = _DeadLetters(this, topic)
        await this.fill(shown.refresh)
        this.every(shown.refresh, 5.0)


class _DeadLetters:
    """The groups, refreshed while the page is open."""

    def __init__(self, this: Page, topic: str) -> None:
        self._page = this
        self._asked = ConsoleRequest("/dead-letters", {"topic": topic or None})
        self._groups: dict[tuple[str, str], _Group] = {}
        with card():
            with ui.element("div").classes("bar"):
                self._with_handled = ui.checkbox("Handled ones, too", on_change=self.refresh).props("dense")
                self._note = text("", "quiet")
            self._list = ui.element("div").props('role="list" aria-label="Reasons"')
            self._empty = empty(
                "No new dead letters", "A record that a view or pipeline cannot use shows here, with the reason."
            )
            self._empty.set_visibility(False)

    async def refresh(self) -> None:
        """Show the groups as they are now. Groups that are shown stay where they are."""
        answer = await self._page.ask(self._asked)
        wanted = {
            (group["topic"], group["id"]): group
            for group in answer["groups"]
            if group["unhandled"] or self._with_handled.value
        }
        for gone in self._groups.keys() - wanted.keys():
            if not self._groups[gone].is_open:
                self._groups.pop(gone).delete()
        with self._list:
            for key, group in wanted.items():
                if key not in self._groups:
                    self._groups[key] = _Group(self._page, group, self.refresh)
        for key, group in wanted.items():
            await self._groups[key].look(group, with_handled=self._with_handled.value)
        self._empty.set_visibility(not self._groups)
        partial = [topic for topic in answer["topics"] if topic["partial"]]
        self._note.text = f"Of {', '.join(topic['name'] for topic in partial)} only the newest." if partial else ""


class _Group:
    """The letters of one reason; they are read when the group is opened."""

    def __init__(self, this: Page, group: Document, on_change: Callable[[], Awaitable[None]]) -> None:
        self._page = this
        self.is_open = False
        self._topic, self._id = group["topic"], group["id"]
        with ui.element("details").classes("letter-group").props('role="listitem"') as self._details:
            with ui.element("summary"):
                self._new = text("", "new-count")
                text(group["reason"], "reason")
                self._seen = text("", "quiet")
            with ui.element("div").classes("bar"):
                section, address = _SECTIONS[group["kind"]]
                text(f"{section[:-1]} ", "quiet")
                link(group["name"], address + path(group["name"]))
                for source in group["sources"]:
                    text("topic", "quiet")
                    link(source, path("console", "topics", source))
                mark_all = ui.button("Mark all as handled", on_click=self._mark_all)
                mark_all.props("outline dense no-caps").classes("changes")
            self._letters = LetterCards(this, group["topic"], group["id"], on_change)
        self._details.on("toggle", self._toggled, js_handler="(event) => emit(event.target.open)")

    async def look(self, group: Document, *, with_handled: bool) -> None:
        """Show the group's numbers."""
        set_text_of(self._new, f"{count(group['unhandled'])}" + (" new" if group["unhandled"] else ""))
        self._new.classes(add="" if group["unhandled"] else "none", remove="none" if group["unhandled"] else "")
        now_ms = time.time() * 1000
        whole = f", of {count(group['letters'])}" if group["letters"] != group["unhandled"] else ""
        seen = f"first {ago(group['first_ms'], now_ms)}, last {ago(group['last_ms'], now_ms)}"
        set_text_of(self._seen, f"{seen}{whole}")
        if self._letters.with_handled != with_handled:
            self._letters.with_handled = with_handled
            if self.is_open:
                await self._letters.show()

    def delete(self) -> None:
        """Take it off the page."""
        self._details.delete()

    async def _toggled(self, event: events.GenericEventArguments) -> None:
        self.is_open = bool(event.args)
        if self.is_open:
            await self._letters.show()

    async def _mark_all(self) -> None:
        await self._letters.mark_all()
