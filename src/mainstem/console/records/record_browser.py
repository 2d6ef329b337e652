"""``RecordBrowser``: a topic's records, from where the seek bar says, or new ones as they arrive.

* What pages there are is ``record_pages``' work; the question is taken from the form when it is sent, and “More”
  goes on with that one.
* A record's details are built when it is opened. A long value is cut; the curl line beside it gets all of it.

Used by one page.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from nicegui import ui
from nicegui.element import Element

from mainstem.console.formats import count, cut, moment, one_line, pretty
from mainstem.console.frame import Page
from mainstem.console.gateway_client import GatewayError
from mainstem.console.parts import card, column, empty, link, on_first_open, position, problem, set_rows, table, text
from mainstem.console.records.journey_link import journey_address
from mainstem.console.records.live_tail import LiveTail
from mainstem.console.records.record_fields import RecordDraft
from mainstem.console.records.record_pages import RecordPages, RecordQuery
from mainstem.console.records.record_search import RecordSearch
from mainstem.console.records.seek_bar import SeekBar
from mainstem.console.requests import ConsoleRequest, path
from mainstem.model import Position, TopicPartition

_READ_S = 60.0
_VALUE_CHARS_MAX = 20_000
_BRIEF_CHARS_MAX = 160
_LIVE_RECORDS_MAX = 300

Document = dict[str, Any]


class RecordBrowser:
    """The list of a topic's records, with its form."""

    def __init__(self, page: Page, topic: str, address: dict[str, str]) -> None:
        self._page = page
        self._topic = topic
        self._beginning = self._end = Position()
        self._pages: RecordPages | None = None
        self._asking: RecordPages | None = None
        self._shown_end = Position()
        self._shown = 0
        self._copy: Callable[[RecordDraft], None] | None = None
        with card("Records"):
            self._seek = SeekBar(topic, address, self._sought)
            self._live = LiveTail(page, self._begin_live, self._show_live)
            self._search = RecordSearch(page, topic, self._begin_search, self._show_found)
            self._fresh = ui.button("", on_click=self._first_page).props("flat dense no-caps icon=arrow_upward")
            self._fresh.set_visibility(False)
            self._list = ui.element("ul").classes("records").props('aria-label="Records"')
            self._note = ui.element("div").props('aria-live="polite"')
            self._more = ui.button("More", on_click=self._next_page).props("outline no-caps dense").classes("more")
            self._more.set_visibility(False)

    async def look(self, beginning: str, end: str) -> None:
        """Take notice of where the topic's committed records begin and end; the first time, show some."""
        self._beginning, self._end = Position.parse(beginning), Position.parse(end)
        self._seek.set_partitions(len(self._end.items()))
        self._live.look(self._end)
        if self._pages is None:
            await self._first_page()
            return
        self._pages.beginning = self._beginning
        new = sum(offset - self._shown_end.get(tp, 0) for tp, offset in self._end.items())
        self._fresh.text = f"{count(new)} more since; show them"
        self._fresh.set_visibility(new > 0 and not self._live.is_on)

    def on_copy(self, copy: Callable[[RecordDraft], None]) -> None:
        """Set the function that takes a record over into a form."""
        self._copy = copy

    def refresh(self) -> None:
        """Show the first page again, newest first, at the next look."""
        if self._live.is_on:
            return
        self._seek.reset()
        self._pages = None

    async def _sought(self) -> None:
        ui.navigate.history.replace(path("console", "topics", self._topic) + self._seek.to_address())
        await self._first_page()

    async def _first_page(self) -> None:
        self._live.stop()
        self._search.stop()
        self._pages = RecordPages(self._asked, self._seek.query(), self._beginning, self._end)
        self._shown_end, self._shown = self._end, 0
        self._fresh.set_visibility(False)
        self._list.clear()
        await self._next_page()

    async def _asked(self, asked: ConsoleRequest) -> Any:
        return await self._page.ask(asked, timeout_s=_READ_S)

    async def _next_page(self) -> None:
        """Show what comes next to the newest question; an answer to an older one is dropped."""
        pages = self._pages
        if pages is None or pages is self._asking:  # a click on what the browser had not disabled yet
            return
        self._asking = pages
        self._more.props("loading")
        self._more.disable()
        self._note.clear()
        try:
            records = await pages.next_page()
        except GatewayError as error:
            if pages is self._pages:
                with self._note:
                    problem(error.title, error.detail)
        else:
            if pages is self._pages:
                self._show(pages, records)
        finally:
            if pages is self._asking:
                self._asking = None
            if pages is self._pages:
                self._more.props(remove="loading")
                self._more.enable()
                self._more.set_visibility(pages.has_more)

    def _begin_search(self) -> None:
        self._live.stop()
        self._begin_live()

    def _show_found(self, records: Sequence[Document]) -> None:
        with self._list:
            for record in records:
                self._summary(record)

    def _begin_live(self) -> RecordQuery:
        self._list.clear()
        self._note.clear()
        self._more.set_visibility(False)
        self._fresh.set_visibility(False)
        return self._seek.query()

    def _show_live(self, records: Sequence[Document]) -> None:
        for record in records:
            with self._list:
                self._summary(record).move(target_index=0)
        for old in self._list.default_slot.children[_LIVE_RECORDS_MAX:]:
            old.delete()

    def _show(self, pages: RecordPages, records: list[Document]) -> None:
        with self._list:
            for record in records:
                self._summary(record)
        self._shown += len(records)
        with self._note:
            if not records and pages.has_more:
                text(f"Nothing among the newest {count(pages.looked_back)}; “More” looks further back.", "quiet", "p")
            elif not self._shown:
                empty("No records here", "Nothing in this topic matches what was asked.")

    def _summary(self, record: Document) -> Element:
        with ui.element("li") as item, ui.element("details").classes("record") as details:
            with ui.element("summary"):
                text(f"{record['partition']} : {record['offset']:,}", "mono")
                text(moment(record["timestamp_ms"]), "when wide")
                text(_shown(record, "key", "no key"), "key")
                text(_shown(record, "value", "tombstone"), "brief")
            body = ui.element("div").classes("record-body")

        def build() -> None:
            with body:
                self._details(record, body)

        on_first_open(details, build)
        return item

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
        copy = self._copy
        if copy is not None:
            button = ui.button("Copy to the append form", on_click=lambda: copy(RecordDraft.of(record)))
            button.props("outline dense no-caps")
        with ui.element("p"):
            link("Journey: where it went, and what it waits for", journey_address(tp, record["offset"]))
        before = Position({tp: record["offset"]})
        query = {"from": str(before), "to": str(after), "limit": 1}
        self._page.show_request(ConsoleRequest(path("topics", self._topic, "records"), query))


def _whole(record: Document) -> str:
    if "value_base64" in record:
        return f"base64: {record['value_base64']}"
    return "null (a tombstone)" if record["value"] is None else pretty(record["value"])


def _shown(document: Document, name: str, nothing: str, length_max: int = _BRIEF_CHARS_MAX) -> str:
    if f"{name}_base64" in document:
        return one_line("base64: " + document[f"{name}_base64"], length_max)
    return nothing if document[name] is None else one_line(document[name], length_max)
