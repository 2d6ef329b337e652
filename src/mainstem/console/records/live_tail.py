"""``LiveTail``: reads a topic's new records while its switch is on. Used by one page.

It reads on from where it is once a second. When a busy topic runs away from it, it leaves records out and says so.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from nicegui import ui

from mainstem.console.formats import count, rate
from mainstem.console.frame import Page
from mainstem.console.gateway_client import GatewayError
from mainstem.console.parts import text
from mainstem.console.records.record_pages import RecordQuery
from mainstem.console.requests import ConsoleRequest, path
from mainstem.model import Position

_EVERY_S = 1.0
_RECORDS_MAX = 100
_BEHIND_MAX = 1_000

Document = dict[str, Any]
ShowRecords = Callable[[Sequence[Document]], None]


class LiveTail:
    """The switch, and what it reads. ``show`` gets new records, oldest first; ``begin`` says which."""

    def __init__(
        self, page: Page, begin: Callable[[], RecordQuery], show: Callable[[Sequence[Document]], None]
    ) -> None:
        self._page = page
        self._begin = begin
        self._show = show
        self._query = RecordQuery("")
        self._end = Position()
        self._at = Position()
        self._left_out = 0
        self._is_reading = False
        self._timer: ui.timer | None = None
        with ui.element("div").classes("bar") as self._bar:
            self._switch = ui.switch("Live", on_change=self._switched).props("dense")
            self._note = text("", "quiet")

    @property
    def is_on(self) -> bool:
        """Whether new records show by themselves."""
        return bool(self._switch.value)

    def stop(self) -> None:
        """Switch it off."""
        self._switch.value = False

    def look(self, end: Position) -> None:
        """Take notice of where the committed records end."""
        self._end = end

    def _switched(self) -> None:
        if self._timer is None:  # not with the page: NiceGUI sends a page that has a timer before it is built
            with self._bar:
                self._timer = ui.timer(_EVERY_S, self._read)
        self._timer.active = self.is_on
        self._note.text = "● Live" if self.is_on else ""
        if self.is_on:
            self._query, self._at, self._left_out = self._begin(), self._end, 0

    async def _read(self) -> None:
        if self._is_reading or not self.is_on:
            return
        self._is_reading, started_s = True, time.monotonic()
        try:
            behind = sum(max(0, offset - self._at.get(tp, 0)) for tp, offset in self._end.items())
            if behind > _BEHIND_MAX:
                self._left_out += behind
                self._at = self._end
            query = {"from": str(self._at), "key": self._query.key, "limit": _RECORDS_MAX}
            asked = ConsoleRequest(path("topics", self._query.topic, "records"), query)
            answer = await self._page.ask(asked, is_listed=False)
        except GatewayError as error:
            self._note.text = f"{error.title}: {error.detail}"
            return
        finally:
            self._is_reading = False
        self._at = self._at | Position.parse(answer["position"])
        records = [each for each in answer["records"] if self._query.partition in (None, each["partition"])]
        self._show(records)
        passed_s = max(_EVERY_S, time.monotonic() - started_s)
        left_out = f"; {count(self._left_out)} left out, the topic is faster" if self._left_out else ""
        self._note.text = f"● Live {rate(len(records) / passed_s)}{left_out}"
