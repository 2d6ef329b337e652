"""``RecordBrowser``: a topic's records, newest or oldest first, or from an offset, a position or a time, or of a key.

* Oldest first, and from somewhere, is one bounded read; its position is where the next page begins.
* Newest first reads the same number of offsets back from the end in each partition, and sorts by time.
* A record's details are built when it is opened. A long value is cut; the curl line beside it gets all of it.

Used by one page.
"""

from __future__ import annotations

import math
from typing import Any

from nicegui import ui
from nicegui.element import Element

from mainstem.console.formats import count, cut, moment, one_line, pretty
from mainstem.console.frame import Page, show_curl
from mainstem.console.gateway_client import GatewayError
from mainstem.console.parts import card, column, empty, position, problem, set_rows, table, text
from mainstem.console.requests import Asked, path
from mainstem.model import Position, TopicPartition

NEWEST, OLDEST, SOMEWHERE = "Newest first", "Oldest first", "From …"
_RECORDS_A_PAGE = 50
_OF_A_KEY_MAX = 1_000
_VALUE_CHARS_MAX = 20_000
_BRIEF_CHARS_MAX = 160

Document = dict[str, Any]


class RecordBrowser:
    """See the module."""

    def __init__(self, page: Page, topic: str) -> None:
        self._page = page
        self._topic = topic
        self._beginning = self._end = Position()
        self._shown_end: Position | None = None
        self._next: str | None = None  # where the page after this one begins, or ends when it goes backwards
        with card("Records"):
            with ui.element("form").classes("bar") as form:
                form.on("submit.prevent", self._first_page)
                self._order = ui.select([NEWEST, OLDEST, SOMEWHERE], value=NEWEST, label="Order")
                self._order.props("dense outlined options-dense").classes("order")
                self._start = ui.input("Offset, position or time").props("dense outlined clearable").classes("grow")
                self._start.bind_visibility_from(self._order, "value", value=SOMEWHERE)
                self._key = ui.input("Key").props("dense outlined clearable").classes("grow")
                ui.button("Show").props("unelevated no-caps type=submit")
            self._fresh = ui.button("", on_click=self._first_page).props("flat dense no-caps icon=arrow_upward")
            self._fresh.set_visibility(False)
            self._list = ui.element("div").classes("records").props('role="list" aria-label="Records"')
            self._more = ui.button("More", on_click=self._next_page).props("outline no-caps dense").classes("more")
            self._more.set_visibility(False)

    async def look(self, beginning: str, end: str) -> None:
        """Take notice of the topic's ends; the first time, show records."""
        self._beginning, self._end = Position.parse(beginning), Position.parse(end)
        if self._shown_end is None:
            await self._first_page()
            return
        new = sum(offset - self._shown_end.get(tp, 0) for tp, offset in self._end.items())
        self._fresh.text = f"{count(new)} more since; show them"
        self._fresh.set_visibility(new > 0)

    def refresh(self) -> None:
        """Show the first page again, newest first, at the next look."""
        self._order.value = NEWEST
        self._key.value = ""
        self._shown_end = None

    async def _first_page(self) -> None:
        self._shown_end = self._end
        self._fresh.set_visibility(False)
        self._list.clear()
        self._next = None
        await self._show()

    async def _next_page(self) -> None:
        await self._show()

    async def _show(self) -> None:
        try:
            records = await self._read()
        except GatewayError as error:
            with self._list:
                problem(error.title, error.detail)
            self._more.set_visibility(False)
            return
        with self._list:
            for record in records:
                self._summary(record)
            if not self._list.default_slot.children:
                empty("No records here", "Nothing in this topic matches what was asked.")
        self._more.set_visibility(self._next is not None)

    async def _read(self) -> list[Document]:
        """The records of one page; sets where the next one begins. Raises GatewayError."""
        key, order = self._key.value or None, self._order.value
        if order == NEWEST and key is None:
            return await self._read_backwards()
        start = (self._start.value or "").strip() if order == SOMEWHERE else ""
        if key is not None:
            query = {"from": start or None, "limit": _OF_A_KEY_MAX}
            answer = await self._page.ask(Asked(path("topics", self._topic, "keys", key), query))
            found: list[Document] = answer["records"]
            return found[::-1] if order == NEWEST else found
        query = {"from": self._next or start or "earliest", "limit": _RECORDS_A_PAGE}
        answer = await self._page.ask(Asked(path("topics", self._topic, "records"), query))
        self._next = answer["position"] if len(answer["records"]) == _RECORDS_A_PAGE else None
        return list(answer["records"])

    async def _read_backwards(self) -> list[Document]:
        end = self._end if self._next is None else Position.parse(self._next)
        each = max(1, math.ceil(_RECORDS_A_PAGE / max(1, len(end.items()))))
        start = Position(
            {tp: max(self._beginning.get(tp, 0), offset - each) for tp, offset in end.items()},
        )
        if not any(offset > start.get(tp, 0) for tp, offset in end.items()):
            self._next = None
            return []
        query = {"from": str(start), "to": str(end), "limit": each * len(end.items())}
        answer = await self._page.ask(Asked(path("topics", self._topic, "records"), query))
        is_all = all(offset <= self._beginning.get(tp, 0) for tp, offset in start.items())
        self._next = None if is_all else str(start)
        return sorted(answer["records"], key=lambda record: (record["timestamp_ms"], record["offset"]), reverse=True)

    def _summary(self, record: Document) -> None:
        with ui.element("details").classes("record").props('role="listitem"') as details:
            with ui.element("summary"):
                text(f"{record['partition']} : {record['offset']:,}", "mono")
                text(moment(record["timestamp_ms"]), "when wide")
                text(_shown(record, "key", "no key"), "key")
                text(_shown(record, "value", "tombstone"), "brief wide")
            body = ui.element("div").classes("record-body")
        opened = False

        def toggled() -> None:
            nonlocal opened
            if not opened:
                opened = True
                with body:
                    self._details(record, body)

        details.on("toggle", toggled)

    def _details(self, record: Document, _: Element) -> None:
        tp = TopicPartition(self._topic, record["partition"])
        after = Position({tp: record["offset"] + 1})
        with ui.element("dl").classes("facts"):
            text("Position just after it", "", "dt")
            with ui.element("dd"):
                position(str(after))
            for name, value in (
                ("Time (UTC)", moment(record["timestamp_ms"])),
                ("Key", _shown(record, "key", "none", 2_000)),
            ):
                text(name, "", "dt")
                text(value, "mono", "dd")
        if record["headers"]:
            headers = table((column("name", "Header"), column("value", "Value")), "name", "Headers")
            set_rows(
                headers, [{"name": h["name"], "value": _shown(h, "value", "none", 2_000)} for h in record["headers"]]
            )
        whole = _whole(record)
        shown, left_out = cut(whole, _VALUE_CHARS_MAX)
        shown_value = text(shown, "value", "pre")
        shown_value.props('tabindex=0 aria-label="Value"')
        if left_out:
            text(f"{count(left_out)} more characters are not shown here; the line below gets all of it.", "quiet", "p")
        before = Position({tp: record["offset"]})
        query = {"from": str(before), "to": str(after), "limit": 1}
        show_curl(self._page.curl(Asked(path("topics", self._topic, "records"), query)))


def _whole(record: Document) -> str:
    if "value_base64" in record:
        return f"base64: {record['value_base64']}"
    return "null (a tombstone)" if record["value"] is None else pretty(record["value"])


def _shown(document: Document, name: str, nothing: str, length_max: int = _BRIEF_CHARS_MAX) -> str:
    if f"{name}_base64" in document:
        return one_line("base64: " + document[f"{name}_base64"], length_max)
    return nothing if document[name] is None else one_line(document[name], length_max)
