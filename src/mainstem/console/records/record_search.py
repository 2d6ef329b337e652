"""``RecordSearch``: the search bar of a topic's records: what to look for, since when, and how far it is.

The page asks the gateway for a second of searching at a time, each from the position where the last one ended. So it
shows how far it is, and Stop takes effect at once. A search belongs to its page: another one ends it, and so does
leaving the page. The page names itself to the gateway, so its searches have one place there. Used by one page.
"""

from __future__ import annotations

import asyncio
import datetime
import json
import secrets
from collections.abc import Callable, Sequence
from typing import Any, Final

from nicegui import ui

from mainstem.console.formats import count
from mainstem.console.frame import Page
from mainstem.console.gateway_client import GatewayError
from mainstem.console.parts import position, problem, text
from mainstem.console.requests import ConsoleRequest, path

_HITS_A_TIME: Final = 50
_STEP_S: Final = 1
_KEPT_CHARS_MAX: Final = 8 << 20
_SINCE: Final = {"the last hour": 3_600, "the last day": 86_400, "the last week": 604_800, "the beginning": None}

Document = dict[str, Any]


class RecordSearch:
    """The bar. ``begin`` clears the page's list, ``show`` puts records into it."""

    def __init__(
        self, page: Page, topic: str, begin: Callable[[], None], show: Callable[[Sequence[Document]], None]
    ) -> None:
        self._page = page
        self._path = path("topics", topic, "search")
        self._topic = topic
        self._begin = begin
        self._show = show
        self._client_id = secrets.token_hex(8)
        self._search = 0
        self._asking: asyncio.Future[Any] | None = None
        self._asked: Document = {}
        self._next = ""
        self._scanned = self._hits = self._kept_chars = 0
        self._kept: list[str] = []
        with ui.element("details").classes("inner"):
            with ui.element("summary"):
                text("Search in keys, values and headers")
            with ui.element("form").classes("bar") as form:
                form.on("submit.prevent", self._start)
                self._since = ui.select(list(_SINCE), value="the last day", label="Since")
                self._since.props("dense outlined options-dense")
                self._partition = ui.input("Partition (all)").props("dense outlined clearable").classes("hops")
                self._text = ui.input("Text").props("dense outlined clearable").classes("grow")
                self._where = ui.input("Where, e.g. carrier = 'UA' AND delay > 120")
                self._where.props("dense outlined clearable").classes("grow")
                ui.button("Search").props("unelevated no-caps type=submit")
            with ui.element("div").classes("bar"):
                self._progress = text("", "quiet").props('aria-live="polite"')
                self._at = ui.element("span")
                self._stop = ui.button("Stop", on_click=self.stop).props("outline dense no-caps")
                self._more = ui.button("Load more", on_click=self._go_on).props("outline dense no-caps")
                self._download = ui.button("Download", on_click=self._save).props("flat dense no-caps")
            self._result = ui.element("div").props('aria-live="polite"')
        self._show_buttons(is_running=False)
        page.on_leave(self.stop)

    def stop(self) -> None:
        """End the search that runs, if any."""
        self._search += 1
        if self._asking is not None:
            self._asking.cancel()
        self._show_buttons(is_running=False)

    async def _start(self) -> None:
        self._asked = {"text": self._text.value or None, "where": self._where.value or None}
        self._asked["partition"] = self._partition.value or None
        seconds = _SINCE[str(self._since.value)]
        self._next = "earliest"
        if seconds is not None:
            then = datetime.datetime.now(datetime.UTC) - datetime.timedelta(seconds=seconds)
            self._next = then.strftime("%Y-%m-%dT%H:%M:%SZ")
        self._scanned = self._hits = self._kept_chars = 0
        self._kept.clear()
        self._begin()
        await self._go_on()

    async def _go_on(self) -> None:
        """Search on until there are some more hits, or the end, or another search."""
        self.stop()
        search, wanted = self._search, self._hits + _HITS_A_TIME
        self._result.clear()
        self._show_buttons(is_running=True)
        reason = ""
        while search == self._search and self._next and self._hits < wanted:
            query = {**self._asked, "from": self._next, "limit": wanted - self._hits, "timeout": _STEP_S}
            if not self._scanned:
                self._page.list_request(ConsoleRequest(self._path, query))
            asked = ConsoleRequest(self._path, {**query, "client": self._client_id})
            self._asking = asyncio.ensure_future(self._page.ask_quietly(asked))
            try:
                answer = await self._asking
                if search != self._search:
                    return
                reason = self._take(str(answer))
            except asyncio.CancelledError:
                if search == self._search:
                    raise
                return
            except GatewayError as error:
                if search == self._search:
                    self._show_problem(error.title, error.detail)
                break
        if search == self._search:
            self._show_buttons(is_running=False)
            self._tell(is_at_end=reason == "end")

    def _take(self, events: str) -> str:
        """Show the hits of an answer, and go on after it; returns why it ended. Raises GatewayError for its problem."""
        hits: list[Document] = []
        reason = ""
        for block in events.split("\n\n"):
            fields = dict(line.split(": ", 1) for line in block.splitlines() if ": " in line)
            if "data" not in fields:
                continue
            document = json.loads(fields["data"])
            if fields.get("event") == "hit":
                hits.append(document)
            elif fields.get("event") == "problem":
                raise GatewayError(document["status"], document["title"], document["detail"])
            elif fields.get("event") == "end":
                reason, self._next = document["reason"], document["position"]
                self._scanned += document["scanned"]
        if not reason:
            raise GatewayError(0, "The search was cut off", "the gateway ended it; search again")
        self._hits += len(hits)
        for hit in hits:
            self._keep(json.dumps(hit, ensure_ascii=False))
        self._show(hits)
        if reason == "end":
            self._next = ""
        self._tell(is_at_end=False)
        return reason

    def _keep(self, line: str) -> None:
        self._kept_chars += len(line)
        if self._kept_chars <= _KEPT_CHARS_MAX:
            self._kept.append(line)

    def _tell(self, *, is_at_end: bool) -> None:
        hits = f"{count(self._hits)} hit{'s' if self._hits != 1 else ''}"
        self._progress.text = f"Scanned {count(self._scanned)} records · {hits}{' · at the end' if is_at_end else ''}"
        self._at.clear()
        if self._next and "/" in self._next:
            with self._at:
                position(self._next)

    def _save(self) -> None:
        ui.download.content("\n".join([*self._kept, ""]), f"{self._topic}.jsonl", "application/x-ndjson")

    def _show_buttons(self, *, is_running: bool) -> None:
        self._stop.set_visibility(is_running)
        self._more.set_visibility(not is_running and bool(self._next))
        self._download.set_visibility(not is_running and bool(self._kept))

    def _show_problem(self, title: str, detail: str) -> None:
        self._result.clear()
        with self._result:
            problem(title, detail)
