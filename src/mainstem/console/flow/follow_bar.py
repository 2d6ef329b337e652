"""``FollowBar``: the form that follows a position, and its way so far. Used by one page.

While it follows, it looks a few times a second: a time is right to about that.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from nicegui import ui

from mainstem.console import listing
from mainstem.console.flow.followed_position import FollowedPosition, as_text
from mainstem.console.frame import Page
from mainstem.console.gateway_client import GatewayError
from mainstem.console.parts import problem, text
from mainstem.console.requests import ConsoleRequest, path
from mainstem.errors import PositionFormatError
from mainstem.model import Position

_LOOK_S: Final = 0.2
_FOLLOWED_S_MAX: Final = 120.0


class FollowBar:
    """The form. ``tell`` gets the nodes that have reached the position each time there are more."""

    def __init__(self, page: Page, tell: Callable[[frozenset[str]], None]) -> None:
        self._page = page
        self._tell = tell
        self._followed: FollowedPosition | None = None
        self._topic: str | None = None
        self._awaited = ""
        self._end_before: Position | None = None
        self._until_s = 0.0
        self._timer: ui.timer | None = None
        self._is_looking = False
        with ui.element("form").classes("bar follow").on("submit.prevent", self._follow):
            self._position = ui.input("Follow a position").props("dense outlined clearable").classes("grow")
            ui.button("Follow").props("outline no-caps type=submit")
            self._next = ui.button("Follow the next record", on_click=self._follow_next).props("flat no-caps")
            self._next.set_visibility(False)
        self._ticks = ui.element("div")
        self._way = ui.element("div").props('aria-live="polite"')

    @property
    def reached(self) -> frozenset[str]:
        """The nodes that have reached the position."""
        return frozenset() if self._followed is None else frozenset(self._followed.hops)

    def offer(self, topic: str | None) -> None:
        """Offer to follow the next record of a topic; None takes the offer back."""
        self._topic = topic
        self._next.text = f"Follow the next record of {topic}"
        self._next.set_visibility(topic is not None)

    async def _follow(self) -> None:
        try:
            followed = Position.parse((self._position.value or "").strip())
        except PositionFormatError as error:
            self._stop()
            self._way.clear()
            with self._way:
                problem("No position", str(error))
            return
        self._start(FollowedPosition(followed, time.monotonic()), None)
        await self._look()

    async def _follow_next(self) -> None:
        if self._topic is None:
            return
        self._awaited = self._topic
        try:
            self._start(None, await self._end_of(self._awaited))
        except GatewayError as error:
            self._show_problem(error)

    def _start(self, followed: FollowedPosition | None, end_before: Position | None) -> None:
        self._stop()
        self._followed, self._end_before = followed, end_before
        self._until_s = time.monotonic() + _FOLLOWED_S_MAX
        self._show()
        self._ticks.clear()
        with self._ticks:
            self._timer = ui.timer(_LOOK_S, self._look)

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    async def _look(self) -> None:
        if self._is_looking:
            return
        self._is_looking = True
        try:
            await self._look_once()
        except GatewayError as error:
            self._stop()
            self._show_problem(error)
        finally:
            self._is_looking = False

    async def _look_once(self) -> None:
        now_s = time.monotonic()
        if self._followed is None and self._end_before is not None:
            end = await self._end_of(self._awaited)
            if end != self._end_before:
                self._position.value = str(end)
                self._followed = FollowedPosition(end, now_s, is_new=True)
        if self._followed is not None:
            before = len(self._followed.hops)
            pipelines = (await self._page.ask(listing.PIPELINES, is_listed=False))["pipelines"]
            views = (await self._page.ask(listing.VIEWS, is_listed=False))["views"]
            self._followed.look(pipelines, views, time.monotonic())
            if len(self._followed.hops) != before:
                self._tell(self.reached)
            if not self._followed.waits_for:
                self._stop()
        if now_s > self._until_s:
            self._stop()
        self._show()

    async def _end_of(self, topic: str) -> Position:
        answer = await self._page.ask(ConsoleRequest(path("topics", topic)), is_listed=False)
        return Position.parse(answer["committed_end"]) if answer["committed_end"] else Position()

    def _show(self) -> None:
        if self._followed is None:
            words, waits = f"Waiting for the next record of {self._awaited} …", ""
        else:
            names = ", ".join(node.partition(":")[2] for node in self._followed.waits_for[:10])
            words = as_text(self._followed.hops.values())
            waits = f"; waits for {names}" if names else "; it has arrived everywhere"
        if self._timer is None and (self._followed is None or self._followed.waits_for):
            waits += f". Not followed longer than {_FOLLOWED_S_MAX:g} s."
        self._write(words + waits)

    def _write(self, words: str) -> None:
        self._way.clear()
        with self._way:
            text(words, "way", "p")

    def _show_problem(self, error: GatewayError) -> None:
        self._way.clear()
        with self._way:
            problem(error.title, error.detail)
