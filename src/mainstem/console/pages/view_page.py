"""``/console/views/{view}``: how a view is, questions to it, its verification and its rebuild."""

from __future__ import annotations

import time
from typing import Any

from nicegui import ui

from mainstem.console.formats import ago, count, duration, one_line
from mainstem.console.frame import Page, page
from mainstem.console.gateway_client import WORK_S, GatewayClient, GatewayError
from mainstem.console.parts import (
    card,
    column,
    empty,
    figure,
    linked_figure,
    position,
    problem,
    set_rows,
    set_state,
    show_link,
    state,
    table,
    text,
)
from mainstem.console.query_boxes.box import QueryBox
from mainstem.console.query_boxes.registry import BOXES
from mainstem.console.records.new_letters import NewLetters, address_of
from mainstem.console.requests import ConsoleRequest, path
from mainstem.console.time_machine.time_machine import TimeMachine

Document = dict[str, Any]

_DIFFERENCES = (
    column("key", "Key"),
    column("expected", "The log says", classes="mono"),
    column("actual", "The view has", classes="mono"),
)


_SOURCES = {
    "log": "the whole log",
    "left": "what retention has left",
    "lake": "the topic's lake, then the log",
    "snapshot": "the newest snapshot, then the log",
}
_WITH_PAST = ("key-value", "sql")
_UNDER_WAY = "A rebuild is under way."


async def show(client: GatewayClient, view: str) -> None:
    """Build the page."""
    with page(client, view, "Views", (("Views", "/console/views"),), "View") as this:
        shown = _View(this, view)
        await this.fill(shown.refresh)
        this.every(shown.refresh)


class _View:
    """One view, kept fresh."""

    def __init__(self, this: Page, view: str) -> None:
        self._page = this
        self._view = view
        self._about = ConsoleRequest(path("views", view))
        self._kind: str | None = None
        self._verified: Document | None = None
        self._waits_for_rebuild = False
        with card() as about:
            about.classes("of-view")
            with ui.element("div").classes("bar"):
                self._state = state("starting")
                self._detail = text("", "quiet")
                self._new_letters = NewLetters(self._page)
            with ui.element("div").classes("figures"):
                self._figures = [figure(label) for label in ("Kind", "Lag")]
                self._letters, self._topic = (linked_figure(label) for label in ("Dead letters", "Topic"))
            with ui.element("dl").classes("facts spaced"):
                text("Position", "", "dt")
                with ui.element("dd"):
                    self._position = position("")
                text("Covers", "", "dt")
                with ui.element("dd"):
                    self._covers = position("")
                self._table = [text("Table", "", "dt"), text("", "", "dd")]
        with card("Ask"):
            self._box = ui.element("div")
        self._past = ui.element("div")
        with ui.element("div").classes("pair"):
            with card("Verify"):
                self._build_verification()
            with card("Rebuild") as rebuild:
                rebuild.classes("changes")
                self._build_rebuild()

    def _build_verification(self) -> None:
        text(
            "Replays the topic up to the view's position into a scratch store, and compares the contents.", "quiet", "p"
        )
        with ui.element("div").classes("bar"):
            self._verify = ui.button("Verify", on_click=self._run_verify).props("unelevated no-caps").classes("changes")
            self._is_full = ui.checkbox("Replay the topic", value=True).props("dense")
            self._is_full.tooltip("Without it the store's own account is compared, where that suffices")
            self._verdict = text("", "")
        self._drift = problem(
            "This view has drifted from the log", "A verification found differences; a rebuild repairs it."
        )
        self._drift.set_visibility(False)
        self._differences = ui.element("div").props('aria-live="polite"')
        self._page.show_request(ConsoleRequest(path("views", self._view, "verify"), {}, "POST"))

    def _build_rebuild(self) -> None:
        text(
            "Builds a new version of the view from the log. The old one answers until the new one is ready.",
            "quiet",
            "p",
        )
        with ui.dialog() as dialog, ui.card():
            text(f"Rebuild {self._view} from the log?", "card-title", "h2")
            text("It goes on answering meanwhile. A large topic takes its time.")
            self._source = ui.select(_SOURCES, value="log", label="From").props("dense outlined").classes("field")
            with ui.element("div").classes("bar"):
                ui.button("Rebuild", on_click=lambda: dialog.submit(True)).props("unelevated no-caps")
                ui.button("Leave it", on_click=lambda: dialog.submit(False)).props("flat no-caps autofocus")

        async def confirm() -> None:
            if await dialog:
                await self._run_rebuild()

        with ui.element("div").classes("bar"):
            self._rebuild = ui.button("Rebuild …", on_click=confirm).props("outline no-caps")
            self._rebuilt = text("", "quiet")
        self._rebuild_problem = ui.element("div").props('aria-live="polite"')

    def _verification(self) -> ConsoleRequest:
        return ConsoleRequest(
            path("views", self._view, "verify"), {"full": None if self._is_full.value else "false"}, "POST"
        )

    async def refresh(self) -> None:
        """Show how the view is now."""
        view = await self._page.ask(self._about)
        set_state(self._state, view["state"])
        self._detail.text = view["detail"] or ""
        for shown, word in zip(self._figures, (view["kind"], count(view["lag"])), strict=True):
            shown.text = word
        show_link(self._topic, view["topic"], path("console", "topics", view["topic"]))
        letters = address_of(view["dead_letter_topic"]) if view["dead_letters"] else None
        show_link(self._letters, count(view["dead_letters"]), letters)
        self._table[1].text = view.get("table") or ""
        for shown in self._table:
            shown.set_visibility(bool(self._table[1].text))
        self._position.text = view["position"] or "nothing yet"
        self._covers.text = view["covers"] or "nothing yet"
        if not self._waits_for_rebuild:  # a rebuild that this page requested is reported by its answer
            self._tell_of_others_rebuild(view["is_rebuilding"])
        self._show_box(view["kind"], view["topic"])
        await self._new_letters.look(view["dead_letter_topic"])
        self._show_verdict(view["verified"])
        is_shown = view["verified"] is not None and not view["verified"]["equal"]  # with the rows that differ
        self._drift.set_visibility(bool(view.get("drifted")) and not is_shown)

    def _tell_of_others_rebuild(self, is_under_way: bool) -> None:
        if is_under_way:
            self._rebuilt.text = _UNDER_WAY
        elif self._rebuilt.text == _UNDER_WAY:
            self._rebuilt.text = "A rebuild has ended."
        self._rebuild.set_enabled(not is_under_way)

    def _show_box(self, kind: str, topic: str) -> None:
        if self._kind == kind:
            return
        self._kind = kind
        self._box.clear()
        self._past.clear()
        with self._box:
            if kind in BOXES:
                box = QueryBox(self._page, self._view)
                BOXES[kind](box)
                if kind in _WITH_PAST:
                    with self._past, card("Time machine"):
                        TimeMachine(self._page, self._view, topic, box.set_as_of)
            else:
                empty(f"No form for {kind} views yet", "Ask it over HTTP; /openapi.json says how.")

    def _show_verdict(self, verified: Document | None) -> None:
        if verified is None:
            self._verdict.text = "Not verified since the view's host started."
            return
        equal = verified["equal"]
        compared = f"{count(verified['entries'])} entries of {count(verified['records'])} records"
        if verified.get("method", "replay") != "replay":
            compared = "by the store's own account"
        since = f", from {verified['compared_from']} on" if verified.get("compared_from") else ""
        self._verdict.text = (
            f"{'✓ Equal to' if equal else '✕ Differs from'} the log at {verified['position']}{since}: {compared} in "
            f"{duration(verified['seconds'])}, {ago(verified['time_ms'], time.time() * 1000)}."
        )
        if verified == self._verified:
            return
        self._verified = verified
        self._differences.clear()
        if not equal:
            with self._differences:
                problem(
                    "The view's content is not what the log says",
                    "Another process wrote to its store; a rebuild repairs it.",
                )
                shown = table(_DIFFERENCES, "key", "Differences")
                set_rows(
                    shown,
                    [
                        {"key": each["key"], "expected": _entry(each, "expected"), "actual": _entry(each, "actual")}
                        for each in verified["differences"]
                    ],
                )

    async def _run_verify(self) -> None:
        self._verify.props("loading")
        self._verify.disable()
        try:
            self._show_verdict(await self._page.ask(self._verification(), timeout_s=WORK_S))
        except GatewayError as error:
            self._differences.clear()
            with self._differences:
                problem(error.title, error.detail)
        finally:
            self._verify.props(remove="loading")
            self._verify.enable()

    async def _run_rebuild(self) -> None:
        self._rebuild.props("loading")
        self._rebuild.disable()
        self._rebuild_problem.clear()
        self._rebuilt.text = _UNDER_WAY
        self._waits_for_rebuild = True
        try:
            asked = ConsoleRequest(path("views", self._view, "rebuild"), {"from": self._source.value}, "POST")
            done = await self._page.ask(asked, timeout_s=WORK_S)
            self._rebuilt.text = f"Rebuilt from {count(done['records'])} records in {duration(done['seconds'])}."
        except GatewayError as error:
            self._rebuilt.text = ""
            with self._rebuild_problem:
                problem(error.title, error.detail)
        finally:
            self._waits_for_rebuild = False
            self._rebuild.props(remove="loading")
            self._rebuild.enable()


def _entry(difference: Document, side: str) -> str:
    """A side of a difference: the fields in which it differs from the other one."""
    entry = difference[side]
    other = difference["actual" if side == "expected" else "expected"]
    if entry is None:
        return "nothing"
    if isinstance(entry, dict) and isinstance(other, dict):
        entry = {name: value for name, value in entry.items() if name not in other or other[name] != value}
    return one_line(entry, 400)
