"""``HistoryPanel``: charts over the last minutes, hours or day, kept fresh. Used by one page."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

from nicegui import ui

from mainstem.console.frame import Page
from mainstem.console.gateway_client import GatewayError
from mainstem.console.health.history_charts import HistoryChart, drawn, patterns
from mainstem.console.health.history_marks import ShownMarks, marks_of, shown_marks
from mainstem.console.parts import Tag, card, drawing, link, text
from mainstem.console.requests import ConsoleRequest

_SPANS: Final = {"15m": ("15 minutes", 5.0), "1h": ("Hour", 10.0), "6h": ("6 hours", 60.0), "24h": ("Day", 60.0)}
_COARSE_S: Final = 60.0
_POINTS: Final = 180


class HistoryPanel:
    """The charts, with a choice of the span. The span is in the page's address: ``since``.

    A chart is built when there is a point for it. ``pipeline``: only marks of this pipeline and of the log; the panel
    is a part of the pipeline's page, which is shown without a history, too.
    """

    def __init__(
        self, this: Page, charts: Sequence[HistoryChart], address: str, default: str, pipeline: str | None = None
    ) -> None:
        self._page = this
        self._pipeline = pipeline
        asked_for = this.address().get("since", default)
        since = asked_for if asked_for in _SPANS else default
        self._asked = ConsoleRequest("/history", {"series": patterns(charts), "since": since, "points": _POINTS})
        self._asked_marks = ConsoleRequest("/history/marks", {"since": since})
        self._marks = ShownMarks([], 0)
        with ui.element("nav").classes("spans").props('aria-label="How far back"'):
            for value, (label, _) in _SPANS.items():
                made = link(label, f"{address}?since={value}", "span" + (" here" if value == since else ""))
                if value == since:
                    made.props["aria-current"] = "page"
        soon = "ten seconds" if _SPANS[since][1] < _COARSE_S else "two minutes"
        self._nothing = text(f"Nothing was sampled yet; the first points come within {soon}.", "quiet", "p")
        self._left_out = text("", "quiet", "p")
        self._left_out.set_visibility(False)
        with ui.element("div").classes("pair"):
            self._charts = [_Chart(chart) for chart in charts]
        this.every(self._refresh, _SPANS[since][1])

    async def _refresh(self) -> None:
        try:
            answer = await self._page.ask(self._asked)
        except GatewayError as error:
            if self._pipeline is None:
                raise
            self._nothing.text = f"The history cannot be shown. {error.title}: {error.detail}"
            return
        series = {each["name"]: each["points"] for each in answer["series"]}
        await self._refresh_marks()
        span = {"min": answer["since_ms"], "max": answer["now_ms"]}
        has_points = [chart.show(series, self._marks, span) for chart in self._charts]
        self._nothing.set_visibility(not any(has_points))

    async def _refresh_marks(self) -> None:
        """Ask for starts and changes. The charts are shown without them, too."""
        with suppress(GatewayError):
            answer = await self._page.ask(self._asked_marks)
            marks = marks_of(answer["marks"], self._pipeline)
            self._marks = shown_marks(marks, answer["now_ms"] - answer["since_ms"])
        left_out = self._marks.left_out
        self._left_out.text = f"{left_out:,} starts and restarts are too many to show as marks." if left_out else ""
        self._left_out.set_visibility(bool(left_out))


class _Chart:
    """A chart in its card, hidden while it has no points."""

    def __init__(self, chart: HistoryChart) -> None:
        self._chart = chart
        with card(f"{chart.title}, {chart.unit}") as self._place:
            self._shown: ui.echart | None = None
        self._more: Tag | None = None
        self._place.set_visibility(False)

    def show(self, series: dict[str, Any], marks: ShownMarks, span: dict[str, float]) -> bool:
        """Show the points; whether there are any."""
        options, has_points, left_out = drawn(self._chart, series, marks.lines)
        options["xAxis"] |= span
        self._place.set_visibility(has_points)
        if self._shown is not None:
            self._shown.options.clear()
            self._shown.options.update(options)
            self._shown.update()
        elif has_points:
            with self._place:
                self._shown = drawing(options, f"{self._chart.title} over time, in {self._chart.unit}")
                self._more = text("", "quiet", "p")
        if self._more is not None:
            self._more.text = f"{left_out:,} smaller ones are not shown." if left_out else ""
        return has_points
