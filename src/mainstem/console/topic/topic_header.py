"""``TopicHeader``: the figures of a topic, above its tabs. Used by one page."""

from __future__ import annotations

import time
from typing import Any

from nicegui import ui

from mainstem.console.formats import NOTHING, count, rate, retention, size
from mainstem.console.listing import total
from mainstem.console.parts import card, figure, position, text
from mainstem.console.rates import Rates

_FIGURES = ("Offsets", "Appended", "Size", "Partitions", "Cleanup", "Retention")


class TopicHeader:
    """Offsets, rate, size, partitions, cleanup, retention, and the end."""

    def __init__(self) -> None:
        self._rates = Rates()
        with card():
            with ui.element("div").classes("figures"):
                self._figures = [figure(label) for label in _FIGURES]
            with ui.element("dl").classes("facts spaced"):
                text("End", "", "dt")
                with ui.element("dd"):
                    self._end = position("")

    def show(self, about: dict[str, Any]) -> None:
        """Show how the topic is now."""
        rates = self._rates.look({"end": total(about["end"])}, time.monotonic())
        words = (
            count(about["offsets"]),
            rate(rates["end"]),
            size(about["size_bytes"]),
            count(about["partitions"]),
            about["configs"].get("cleanup.policy") or NOTHING,
            retention(about["configs"]),
        )
        for shown, word in zip(self._figures, words, strict=True):
            shown.text = word
        self._end.text = about["end"]
