"""``/console/history``: charts of the last minutes, hour or day."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from nicegui import ui

from mainstem.console.frame import Page, page
from mainstem.console.gateway_client import GatewayClient, GatewayError
from mainstem.console.health.history_charts import CHARTS, PATTERNS, drawn
from mainstem.console.health.history_marks import ShownMarks, shown_marks
from mainstem.console.parts import card, drawing, link, text
from mainstem.console.requests import ConsoleRequest

_SPANS = {"15m": ("15 minutes", 5.0), "1h": ("Hour", 10.0), "6h": ("6 hours", 60.0), "24h": ("Day", 60.0)}


async def show(client: GatewayClient) -> None:
    """Build the page."""
    with page(client, "History", "History") as this:
        since = this.address().get("since", "15m")
        _History(this, since if since in _SPANS else "15m")


class _History:
    """The charts, kept fresh."""

    def __init__(self, this: Page, since: str) -> None:
        self._page = this
        self._asked = ConsoleRequest("/history", {"series": list(PATTERNS), "since": since, "points": 180})
        self._asked_marks = ConsoleRequest("/history/marks", {"since": since})
        self._marks = ShownMarks([], 0)
        with ui.element("nav").classes("spans").props('aria-label="How far back"'):
            for value, (label, _) in _SPANS.items():
                made = link(label, f"/console/history?since={value}", "span" + (" here" if value == since else ""))
                if value == since:
                    made.props["aria-current"] = "page"
        self._nothing = text("Nothing was sampled yet; the first points come within ten seconds.", "quiet", "p")
        self._left_out = text("", "quiet", "p")
        self._left_out.set_visibility(False)
        self._charts: list[Any] = []
        with ui.element("div").classes("pair"):
            for chart in CHARTS:
                with card(f"{chart.title}, {chart.unit}") as place:
                    shown = drawing(drawn(chart, {}).options, f"{chart.title} over time, in {chart.unit}")
                    more = text("", "quiet", "p")
                place.set_visibility(False)
                self._charts.append((chart, place, shown, more))
        this.every(self._refresh, _SPANS[since][1])

    async def _refresh(self) -> None:
        answer = await self._page.ask(self._asked)
        series = {each["name"]: each["points"] for each in answer["series"]}
        await self._refresh_marks()
        has_any = False
        for chart, place, shown, more in self._charts:
            options, has_points, left_out = drawn(chart, series, self._marks.lines)
            options["xAxis"] |= {"min": answer["since_ms"], "max": answer["now_ms"]}
            has_any |= has_points
            shown.options.clear()
            shown.options.update(options)
            shown.update()
            place.set_visibility(has_points)
            more.text = f"{left_out:,} smaller ones are not shown." if left_out else ""
        self._nothing.set_visibility(not has_any)

    async def _refresh_marks(self) -> None:
        """Ask for starts and changes. The charts are shown without them, too."""
        with suppress(GatewayError):
            answer = await self._page.ask(self._asked_marks)
            self._marks = shown_marks(answer["marks"], answer["now_ms"] - answer["since_ms"])
        left_out = self._marks.left_out
        self._left_out.text = f"{left_out:,} starts and restarts are too many to show as marks." if left_out else ""
        self._left_out.set_visibility(bool(left_out))
