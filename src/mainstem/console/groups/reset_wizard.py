"""``ResetWizard``: the dialog that moves a group's offsets.

1. The form says where to: earliest, latest, a time, a position or an offset, in all of the group's topics or in some.
2. The gateway's dry run shows each partition before and after.
3. The button sends the position that the dry run found, so that what was shown is what happens, however far the log
   has grown meanwhile. Any change of the form takes the shown plan away.

Used by one page.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

from nicegui import ui

from mainstem.console.formats import NOTHING, count
from mainstem.console.frame import Page
from mainstem.console.gateway_client import GatewayError
from mainstem.console.parts import column, problem, set_rows, table, text
from mainstem.console.requests import ConsoleRequest, path
from mainstem.model import Position, TopicPartition

EARLIEST, LATEST, TIME, POSITION, OFFSET = "Earliest", "Latest", "Time", "Position", "Offset"
_HINTS: Final = {
    EARLIEST: "The group reads everything again that the log still has.",
    LATEST: "The group skips everything that is in the log now.",
    TIME: "The group goes on at the first record of that time or later, in each partition.",
    POSITION: "Only the partitions that the position names are moved.",
    OFFSET: "The same offset in each partition.",
}
_TO_CHARS_MAX: Final = 100_000
_COLUMNS = (
    column("place", "Partition", classes="breaks"),
    column("before", "Now", format="count"),
    column("after", "Then", format="count"),
    column("effect", "Effect"),
)

Document = dict[str, Any]


class ResetWizard:
    """The dialog. ``open`` shows it for the group as it is then; ``then`` is called after a reset."""

    def __init__(self, page: Page, group: str, then: Callable[[], Awaitable[None]]) -> None:
        self._page = page
        self._group = group
        self._then = then
        self._plan: list[Document] = []
        with ui.dialog() as self._dialog, ui.card().classes("dialog"):
            text(f"Reset the offsets of {group}", "card-title", "h2")
            self._members = text("", "note", "p").props('role="note"')
            with ui.element("form") as form:
                form.on("submit.prevent", self._show_plan)
                self._build_fields()
                with ui.element("div").classes("bar"):
                    self._preview = ui.button("Show what would change").props("unelevated no-caps type=submit")
                    ui.button("Leave it", on_click=self._dialog.close).props("flat no-caps")
            self._shown = ui.element("div").props('aria-live="polite"')

    def _build_fields(self) -> None:
        self._to = ui.toggle([EARLIEST, LATEST, TIME, POSITION, OFFSET], value=EARLIEST, on_change=self._forget)
        self._to.props('dense no-caps unelevated aria-label="Where the group goes on"').classes("choice")
        self._hint = text(_HINTS[EARLIEST], "quiet", "p")
        self._fields = {TIME: ui.input("Time (UTC)"), POSITION: ui.input("Position"), OFFSET: ui.input("Offset")}
        for name, field in self._fields.items():
            field.props("dense outlined" + (" type=datetime-local step=1 stack-label" if name == TIME else ""))
            field.classes("field").bind_visibility_from(self._to, "value", value=name)
            field.on_value_change(self._forget)
        self._topics = ui.select([], multiple=True, label="Topics (none chosen: all that it has committed in)")
        self._topics.props("dense outlined use-chips").classes("field").on_value_change(self._forget)
        self._new_topic = ui.input("Topic: this group has committed in none").props("dense outlined").classes("field")
        self._new_topic.on_value_change(self._forget)

    def open(self, group: Document) -> None:
        """Show the form for the group as it is."""
        members = group["members"]
        who = ", ".join(sorted({str(each["client"]) for each in members})[:5])
        number = f"{count(len(members))} member{'s' if len(members) != 1 else ''}"
        self._members.text = (
            f"The group has {number} now ({who}). Stop them first: offsets can be moved only while a "
            "group has no members. You can already look at what would change."
        )
        self._members.set_visibility(bool(members))
        topics = sorted({each["topic"] for each in group["partitions"] if each["committed"] is not None})
        if self._topics.options != topics:
            self._topics.set_options(topics, value=[])
        self._topics.set_visibility(bool(topics))
        self._new_topic.set_visibility(not topics)
        self._forget()
        self._dialog.open()

    def _forget(self) -> None:
        self._hint.text = _HINTS[str(self._to.value)]
        self._topics.set_enabled(self._to.value != POSITION)
        self._plan = []
        self._shown.clear()

    def _asked(self, to: str, topics: list[str], *, dry_run: bool) -> ConsoleRequest:
        body: Document = {"to": to, **({"topics": topics} if topics else {}), **({"dry_run": True} if dry_run else {})}
        return ConsoleRequest(path("groups", self._group, "reset"), {}, "POST", body)

    def _destination(self) -> tuple[str, list[str]]:
        """Where the form says to go on, and in which topics."""
        kind = str(self._to.value)
        written = (self._fields[kind].value or "").strip() if kind in self._fields else kind.lower()
        topics = list(self._topics.value or ())
        if not self._topics.options and (self._new_topic.value or "").strip():
            topics = [self._new_topic.value.strip()]
        if kind == TIME and written and not written.endswith("Z"):
            written += "Z"
        return written, [] if kind == POSITION else topics

    async def _show_plan(self) -> None:
        self._forget()
        to, topics = self._destination()
        asked = self._asked(to, topics, dry_run=True)
        try:
            self._plan = (await self._page.ask(asked))["partitions"]
        except GatewayError as error:
            with self._shown:
                problem(error.title, error.detail)
            return
        position = str(Position({TopicPartition(row["topic"], row["partition"]): row["after"] for row in self._plan}))
        if len(position) <= _TO_CHARS_MAX:
            to, topics = position, []
        with self._shown:
            rows = [_row(each) for each in self._plan]
            moved = sum(row["before"] != row["after"] for row in self._plan)
            shown = table(_COLUMNS, "place", "What would change").classes("cards")
            set_rows(shown, rows)
            with ui.element("div").classes("bar spaced"):
                label = f"Move {count(moved)} of {count(len(rows))} partitions" if moved else "Nothing would move"
                button = ui.button(label, on_click=lambda: self._execute(to, topics)).props("unelevated no-caps")
                button.set_enabled(bool(moved))

    async def _execute(self, to: str, topics: list[str]) -> None:
        asked = self._asked(to, topics, dry_run=False)
        try:
            done = (await self._page.ask(asked))["partitions"]
        except GatewayError as error:
            with self._shown:
                problem(error.title, error.detail)
                if error.status == 409:
                    text("Nothing was moved. Stop the group's members, wait until it is empty, and try again.", "", "p")
            return
        self._plan = []
        self._shown.clear()
        with self._shown:
            text(f"Done: {count(len(done))} partitions. The group goes on from there.", "", "p")
            self._page.show_request(asked)
        await self._then()


def _row(change: Document) -> Document:
    before, after = change["before"], change["after"]
    if before is None:
        effect = "starts here"
    elif before == after:
        effect = NOTHING
    else:
        effect = f"reads {count(before - after)} again" if after < before else f"skips {count(after - before)}"
    return {"place": f"{change['topic']}/{change['partition']}", "before": before, "after": after, "effect": effect}
