"""``Trends``: the last fifteen minutes of each row of a list, as a small line. Used by one page."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from mainstem.console.formats import short
from mainstem.console.frame import Page
from mainstem.console.gateway_client import GatewayError
from mainstem.console.parts import Column, column
from mainstem.console.requests import ConsoleRequest

WIDTH, HEIGHT = 96, 22
_REFRESH_S = 10.0
_FIELD = "trend_line"


def trend_column(label: str) -> Column:
    """The column of a table for it."""
    return column("trend", f"{label}, 15 min", spark=_FIELD, sortable=False, classes="wide")


class Trends:
    """The lines of one series of each row: ``topic/*/records_in_per_s`` for example."""

    def __init__(self, this: Page, pattern: str) -> None:
        self._page = this
        self.asked = ConsoleRequest("/history", {"series": pattern, "since": "15m", "points": 60})
        self._before, self._after = pattern.split("*")
        self._lines: dict[str, dict[str, Any]] = {}
        self._asked_s = -_REFRESH_S

    async def refresh(self) -> None:
        """Ask again, if the last answer is old. Without an answer the lines stay as they are."""
        if time.monotonic() - self._asked_s < _REFRESH_S:
            return
        self._asked_s = time.monotonic()
        try:
            found = await self._page.ask(self.asked)
        except GatewayError:
            return
        self._lines = {
            each["name"].removeprefix(self._before).removesuffix(self._after): line(
                each["points"], found["since_ms"], found["now_ms"]
            )
            for each in found["series"]
        }

    def of(self, name: str) -> dict[str, Any]:
        """The field of a row with its line; without one where nothing is known."""
        return {_FIELD: self._lines[name]} if name in self._lines else {}


def line(points: Sequence[Sequence[float]], since_ms: float, now_ms: float) -> dict[str, Any]:
    """The points of an SVG's line, and the words for them. The line begins at 0; its greatest value is at the top."""
    top = max((value for _, value in points), default=0) or 1
    span = max(1, now_ms - since_ms)
    places = [
        f"{(at - since_ms) / span * WIDTH:.1f},{HEIGHT - 1 - value / top * (HEIGHT - 2):.1f}" for at, value in points
    ]
    values = [value for _, value in points]
    words = f"now {short(values[-1])}, at most {short(max(values))}" if values else "nothing known"
    return {"points": " ".join(places), "label": words}
