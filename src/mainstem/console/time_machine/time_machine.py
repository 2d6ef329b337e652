"""``TimeMachine``: a slider over the past of a view that fills *As of*, and the comparison of two moments.

A mark is a button at its place: a snapshot gives its exact position. Used by one page.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

from nicegui import ui
from nicegui.events import GenericEventArguments

from mainstem.console.formats import count, duration, moment
from mainstem.console.frame import Page
from mainstem.console.gateway_client import GatewayError
from mainstem.console.parts import empty, position, problem, text
from mainstem.console.requests import ConsoleRequest, path
from mainstem.console.time_machine.changes_table import show_changes
from mainstem.console.time_machine.time_axis import STEPS, TimeAxis

_CHANGES_MAX = 200
_ANSWER_S = 330.0  # longer than any wait that the gateway allows
_NOW = "now"


class TimeMachine:
    """The card. ``fill`` gets the moment that was chosen; nothing is now."""

    def __init__(self, page: Page, view: str, topic: str, fill: Callable[[str], None]) -> None:
        self._page = page
        self._view = view
        self._topic = topic
        self._fill = fill
        self._axis: TimeAxis | None = None
        self._asking = 0
        self._is_choosing = False
        text("Move to a moment: the questions above are then answered as of it.", "quiet", "p")
        with ui.element("div").classes("time-axis"):
            self._slider = ui.slider(min=0, max=STEPS, value=STEPS, on_change=self._moved).props("snap")
            self._slider.props('aria-label="Moment of the past" aria-valuetext="now"')
            for key, place in (("home", 0), ("end", STEPS)):
                self._slider.on(f"keydown.{key}.prevent", partial(self._slider.set_value, place), args=[])
            self._marks = ui.element("div").classes("time-marks")
        with ui.element("div").classes("bar"):
            self._oldest, self._chosen = text("", "quiet"), text(_NOW, "mono")
            ui.button("Now", on_click=self._to_now).props("flat dense no-caps")
        with ui.element("div").classes("bar"):
            self._from, self._to = ui.input("From (a position or a time)"), ui.input("To (empty: now)")
            for field in (self._from, self._to):
                field.props("dense outlined clearable").classes("grow").on("keydown.enter", self._compare)
            ui.button("Compare").props("unelevated no-caps").on("click", self._compare)
        self._answer = ui.element("div").props('aria-live="polite"')
        ui.timer(0, self._look, once=True)

    async def _look(self) -> None:
        """Ask how far back the view answers, and draw the axis."""
        try:
            past = await self._page.ask(ConsoleRequest(path("views", self._view, "past")))
        except GatewayError as error:
            self._oldest.text = f"How far back it answers is not known: {error.detail}"
            return
        axis = TimeAxis.of(past, await self._first_record_ms(), int(time.time() * 1000))
        self._axis = axis
        self._oldest.text = f"The past begins {moment(axis.oldest_ms)} UTC."
        self._marks.clear()
        with self._marks:
            for mark in axis.marks:
                made = ui.element("button").classes("time-mark").style(f"left: {mark.share:.2%}")
                made.props["type"] = "button"
                made.props["title"] = made.props["aria-label"] = mark.label
                made.on("click", partial(self._choose, mark.asks, round(mark.share * STEPS)))

    async def _first_record_ms(self) -> int | None:
        asked = ConsoleRequest(path("topics", self._topic, "records"), {"from": "earliest", "limit": 1})
        try:
            records = (await self._page.ask(asked))["records"]
        except GatewayError:
            return None  # a token that may not read the topic: the snapshots are left
        return int(records[0]["timestamp_ms"]) if records else None

    def _moved(self, event: Any) -> None:
        if self._axis is not None and not self._is_choosing:
            self._tell(self._axis.at(event.value))

    def _choose(self, asks: str, place: int, _: GenericEventArguments | None = None) -> None:
        self._is_choosing = True
        self._slider.value = min(place, STEPS)
        self._is_choosing = False
        self._tell(asks)

    def _to_now(self) -> None:
        self._choose("", STEPS)

    def _tell(self, asks: str) -> None:
        """Fill in a moment everywhere; nothing is now."""
        self._chosen.text = asks or _NOW
        self._slider.props["aria-valuetext"] = asks or _NOW
        self._from.value = asks or None
        self._fill(asks)

    async def _compare(self) -> None:
        start = (self._from.value or "").strip()
        self._answer.clear()
        if not start:
            with self._answer:
                problem("No moment to begin at", "Choose one with the slider, or give a position or a time.")
            return
        query = {"from": start, "to": (self._to.value or "").strip() or None, "limit": _CHANGES_MAX}
        await self._ask(ConsoleRequest(path("views", self._view, "diff"), query))

    async def _ask(self, asked: ConsoleRequest) -> None:
        """Show what changed, or the problem. Only the newest question's answer is shown."""
        self._asking += 1
        number, started_s = self._asking, time.monotonic()
        try:
            answer = await self._page.ask(asked, timeout_s=_ANSWER_S)
        except GatewayError as error:
            answer, failure = None, error
        if number != self._asking:
            return
        self._answer.clear()
        with self._answer:
            if answer is None:
                problem(failure.title, failure.detail)
            else:
                self._show(asked, answer, time.monotonic() - started_s)
            self._page.show_request(asked)

    def _show(self, asked: ConsoleRequest, answer: dict[str, Any], took_s: float) -> None:
        rows = answer["rows"]
        with ui.element("div").classes("bar"):
            text(
                f"{count(len(rows))} changed {'key' if len(rows) == 1 else 'keys'} in {duration(took_s)}, from", "quiet"
            )
            position(answer["from"])
            text("to", "quiet")
            position(answer["to"])
        if rows:
            show_changes(rows)
        elif answer["next"] is None:
            empty("Nothing changed", "Every row is the same at both moments.")
        if answer["next"] is not None:
            more = {**asked.query, "from": answer["from"], "to": answer["to"], "after": answer["next"]}
            with ui.element("div").classes("bar"):
                text("More keys follow.", "quiet")
                following = ConsoleRequest(asked.path, more)
                ui.button("Next changes", on_click=partial(self._ask, following)).props("flat no-caps")
