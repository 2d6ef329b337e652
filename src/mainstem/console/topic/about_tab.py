"""``AboutTab``: where a topic's records begin and end, what writes it, its id. Used by one page."""

from __future__ import annotations

from typing import Any

from nicegui import ui

from mainstem.console import listing
from mainstem.console.formats import count, retention, size
from mainstem.console.frame import Page
from mainstem.console.gateway_client import GatewayError
from mainstem.console.parts import Tag, card, link, position, text
from mainstem.console.requests import path

_FACTS = ("Topic id", "Internal", "Offsets", "Size", "Kept", "Set here")
_POSITIONS = {"beginning": "Beginning", "end": "End", "committed_end": "Committed end"}


class AboutTab:
    """A list of facts."""

    def __init__(self, page: Page, topic: str) -> None:
        self._page = page
        self._topic = topic
        self._facts: dict[str, Tag] = {}
        self._writers: list[str] | None = None
        with card("About"), ui.element("dl").classes("facts"):
            for name in _FACTS:
                text(name, "", "dt")
                self._facts[name] = text("–", "", "dd")
            for name, label in _POSITIONS.items():
                text(label, "", "dt")
                with ui.element("dd"):
                    self._facts[name] = position("")
            text("Written by pipelines", "", "dt")
            self._place = ui.element("dd")

    async def refresh(self, about: dict[str, Any]) -> None:
        """Show the facts as they are now."""
        words = (
            about["topic_id"],
            "yes" if about["internal"] else "no",
            f"{count(about['offsets'])}: records, transaction markers, and what compaction removed",
            size(about["size_bytes"]),
            retention(about["configs"]),
            ", ".join(about["set_configs"]) or "nothing: all configs have their defaults",
        )
        for name, word in zip(_FACTS, words, strict=True):
            self._facts[name].text = word
        for name in _POSITIONS:
            self._facts[name].text = about[name]
        try:
            pipelines = await listing.pipelines(self._page)
        except GatewayError as error:
            if error.status != 403:
                raise
            pipelines = []
        writers = [str(each["name"]) for each in pipelines if self._topic in each["outputs"]]
        if writers != self._writers:
            self._writers = writers
            self._place.clear()
            with self._place:
                for writer in writers:
                    link(writer, path("console", "pipelines", writer))
                if not writers:
                    text("none")
