"""``LetterCards``: dead letters one by one, each with its record, and what can be done about it. Used by one page.

*Fix and append again* opens the form of an append with the record in it. The record comes from its own place, with all
its headers; if it is gone, from the dead letter. Appending and marking are two steps: the first is of the topic, the
second of the account of what is handled.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from nicegui import ui

from mainstem.console.formats import cut, moment, one_line, pretty
from mainstem.console.frame import Page
from mainstem.console.gateway_client import GatewayError
from mainstem.console.parts import link, on_first_open, problem, state, text
from mainstem.console.records.append_form import RecordAppender
from mainstem.console.records.record_fields import RecordDraft
from mainstem.console.requests import ConsoleRequest, path

_VALUE_CHARS_MAX = 20_000

Document = dict[str, Any]


class LetterCards:
    """The letters of one group, a page at a time."""

    def __init__(self, page: Page, topic: str, group: str | None, on_change: Callable[[], Awaitable[None]]) -> None:
        """``on_change`` is called after letters were marked."""
        self._page = page
        self._topic = topic
        self._group = group
        self._on_change = on_change
        self._next: str | None = None
        self.with_handled = False
        self._list = ui.element("div").classes("records").props('role="list" aria-label="Dead letters"')
        self._note = ui.element("div").props('aria-live="polite"')
        self._more = ui.button("More", on_click=self._show_more).props("outline no-caps dense").classes("more")
        self._more.set_visibility(False)
        self._dialogs = ui.element("div")  # not in a card: it goes when its letter is marked

    async def show(self) -> None:
        """Show the newest letters."""
        self._list.clear()
        self._next = None
        await self._show_more()

    async def mark_all(self) -> None:
        """Mark all letters of the group as handled."""
        await self._mark({"group": self._group} if self._group else {"all": True})
        await self.show()

    async def _show_more(self) -> None:
        self._note.clear()
        query = {"group": self._group, "handled": "true" if self.with_handled else None, "after": self._next}
        try:
            answer = await self._page.ask(ConsoleRequest(path("dead-letters", self._topic), query), timeout_s=60)
        except GatewayError as error:
            with self._note:
                problem(error.title, error.detail)
            return
        with self._list:
            for letter in answer["letters"]:
                self._card(letter)
        self._next = answer["next"]
        self._more.set_visibility(self._next is not None)
        if not self._list.default_slot.children:
            with self._note:
                text("No new dead letters here.", "quiet", "p")

    def _card(self, letter: Document) -> None:
        record = letter["record"] or {}
        with ui.element("details").classes("record letter").props('role="listitem"') as details:
            with ui.element("summary"):
                text(letter["place"].replace(":", " : "), "mono")
                text(moment(letter["timestamp_ms"]), "when wide")
                text(one_line(record.get("key") or "no key", 160), "key")
                text(one_line(letter["error"], 160), "brief")
            body = ui.element("div").classes("record-body")

        def build() -> None:
            with body:
                self._details(letter, details)

        on_first_open(details, build)

    def _details(self, letter: Document, shown: ui.element) -> None:
        record, source = letter["record"], letter["source"]
        text(letter["error"], "value", "pre").props('tabindex=0 aria-label="What was wrong"')
        with ui.element("dl").classes("facts"):
            text("The record", "", "dt")
            with ui.element("dd"):
                _source_link(source)
            text("The dead letter", "", "dt")
            with ui.element("dd"):
                link(f"{self._topic}/{letter['place']}", _place(self._topic, *letter["place"].split(":")))
        if record is None:
            text("Retention has removed the dead letter; its record may still be at its place.", "quiet", "p")
        else:
            value, left_out = cut(_value_text(record), _VALUE_CHARS_MAX)
            text(value + ("…" if left_out else ""), "value", "pre").props('tabindex=0 aria-label="Value"')
        with ui.element("div").classes("bar"):
            if source["topic"]:
                again = ui.button("Fix and append again", on_click=lambda: self._open(letter, shown))
                again.props("unelevated no-caps").classes("changes")
            if letter["handled"]:
                state("handled")
            ui.button(
                "Mark as new again" if letter["handled"] else "Mark as handled",
                on_click=lambda: self._mark_one(letter, shown),
            ).props("outline no-caps").classes("changes")

    async def _open(self, letter: Document, shown: ui.element) -> None:
        """Show the form of an append with the letter's record in it."""
        topic = letter["source"]["topic"]
        with self._dialogs, ui.dialog() as dialog, ui.card().classes("wide-dialog"):
            text(f"Append again to {topic}", "card-title", "h2")
            text("The record at its place stays as it is. The view or pipeline reads the new one.", "quiet", "p")
            is_marked = ui.checkbox("Mark the dead letter as handled", value=True).props("dense")

            async def appended(_: str) -> None:
                if is_marked.value and not letter["handled"]:
                    await self._mark_one(letter, shown)

            appender = RecordAppender(self._page, topic, appended)
            ui.button("Close", on_click=dialog.close).props("flat no-caps")
        dialog.on("hide", dialog.delete)
        await appender.look()
        appender.fields.fill(await self._draft(letter))
        dialog.open()

    async def _draft(self, letter: Document) -> RecordDraft:
        source = letter["source"]
        key = f"dead-letter/{self._topic}/{letter['place']}"[-255:]
        record = letter["record"]
        if "offset" in source:
            place = f"{source['topic']}/{source['partition']}"
            query = {"from": f"{place}:{source['offset']}", "to": f"{place}:{source['offset'] + 1}", "limit": 1}
            try:
                answer = await self._page.ask(ConsoleRequest(path("topics", source["topic"], "records"), query))
                record = answer["records"][0] if answer["records"] else record
            except GatewayError:  # retention has removed it: the dead letter has what there is
                pass
        return RecordDraft.of(record or {"value": ""}, key)

    async def _mark_one(self, letter: Document, shown: ui.element) -> None:
        is_handled = not letter["handled"]
        if await self._mark({"places": [letter["place"]], "handled": is_handled}):
            letter["handled"] = is_handled
            if is_handled and not self.with_handled:
                shown.delete()
            else:
                await self.show()

    async def _mark(self, body: Document) -> bool:
        asked = ConsoleRequest(path("dead-letters", self._topic, "handled"), {}, "POST", body)
        try:
            await self._page.ask(asked)
        except GatewayError as error:
            self._note.clear()
            with self._note:
                problem(error.title, error.detail)
            return False
        await self._on_change()
        return True


def _source_link(source: Document) -> None:
    if "offset" in source:
        place = (source["topic"], str(source["partition"]), str(source["offset"]))
        link(f"{place[0]}/{place[1]}:{place[2]}", _place(*place))
    elif source["topic"]:
        text("A row that could not be written to ")
        link(source["topic"], path("console", "topics", source["topic"]))
    else:
        text("The dead letter does not say where it came from.", "quiet")


def _place(topic: str, partition: str, offset: str) -> str:
    return path("console", "topics", topic) + f"?from={offset}&partition={partition}"


def _value_text(record: Document) -> str:
    if "value_base64" in record:
        return f"base64: {record['value_base64']}"
    return "null: a tombstone, or too large for the dead letter" if record["value"] is None else pretty(record["value"])
