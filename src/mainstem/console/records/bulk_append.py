"""``BulkAppend``: append the records of a JSON lines or CSV file. Used by one page.

The browser sends the text of the file in pieces; it is kept until it is appended, at most ``FILE_CHARS_MAX``. First all
records are checked, and nothing is appended if one is wrong: its line is named. Then they are appended in order, some
hundred at a time. What was appended before an error of the log is said.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final

from nicegui import events, ui

from mainstem.console.formats import count
from mainstem.console.frame import Page
from mainstem.console.gateway_client import GatewayError
from mainstem.console.parts import position, problem, text
from mainstem.console.records.record_files import FileBatch, FileError, FileForm, batches
from mainstem.console.requests import ConsoleRequest, path

FILE_CHARS_MAX: Final = 8 << 20
_APPEND_S: Final = 60.0
_VALUES, _RECORDS = "Each line is a value", "Each line is a record: key, value, headers"


class BulkAppend:
    """The choice of a file, how to read it, and what came of it."""

    def __init__(
        self,
        page: Page,
        topic: str,
        columns: Callable[[], Awaitable[dict[str, str]]],
        on_append: Callable[[str], Awaitable[None]],
    ) -> None:
        """``columns``: the types of the topic's columns by name; none without a schema."""
        self._page = page
        self._columns = columns
        self._on_append = on_append
        self._path = path("topics", topic, "records")
        self._name, self._pieces, self._is_running = "", [""], False
        with ui.element("details").classes("inner"):
            with ui.element("summary"):
                text("Append a file")
            with ui.element("div").classes("drop") as drop:
                text("JSON lines or CSV, at most 8 MB: choose a file, or drop one here.", "quiet", "p")
                file = ui.element("input").props('type=file accept=".jsonl,.ndjson,.json,.csv" aria-label="File"')
            for place, event in ((file, "change"), (drop, "drop")):
                place.on(event, self._took, js_handler="(event) => mainstem.sendFile(event, emit)")
            drop.on("dragover", js_handler="(event) => event.preventDefault()")
            with ui.element("div").classes("bar"):
                self._shape = ui.select([_VALUES, _RECORDS], value=_VALUES, label="JSON lines")
                self._shape.props("dense outlined options-dense")
                self._key = ui.input("Key made of (fields, with commas)").props("dense outlined").classes("grow")
                self._button = ui.button("Append the file", on_click=self._run).props("unelevated no-caps")
                self._button.disable()
            self._progress = text("", "quiet").props('aria-live="polite"')
            self._result = ui.element("div").props('aria-live="polite"')

    def _took(self, event: events.GenericEventArguments) -> None:
        """Take in a piece of a file's text."""
        piece: dict[str, Any] = event.args if isinstance(event.args, dict) else {}
        if self._is_running:
            return
        if piece.get("at") == 0:
            self._pieces, self._name = [], str(piece.get("name", ""))[:200]
            self._result.clear()
        self._pieces.append(str(piece.get("text", "")))
        chars = sum(map(len, self._pieces))
        refused = str(piece.get("error") or "") or ("it has more than 8 MB" if chars > FILE_CHARS_MAX else "")
        if refused:
            self._pieces = []
            self._show_problem("Not read", f"{self._name}: {refused}; use: mainstem load")
        is_whole = bool(piece.get("last")) and not refused
        self._button.set_enabled(is_whole)
        self._progress.text = f"{self._name}: {count(chars)} characters" if is_whole else ""

    async def _run(self) -> None:
        if self._is_running:
            return
        self._is_running = True
        self._button.disable()
        self._result.clear()
        try:
            await self._append_all()
        except FileError as error:
            self._show_problem("Nothing was appended", str(error))
        except GatewayError as error:
            self._show_problem(error.title, error.detail)
        finally:
            self._is_running = False
            self._button.enable()

    async def _append_all(self) -> None:
        form = FileForm(
            self._name.lower().endswith(".csv"),
            self._shape.value == _RECORDS,
            tuple(name.strip() for name in (self._key.value or "").split(",") if name.strip()),
            await self._columns(),
        )
        written = "".join(self._pieces)
        all_batches = await asyncio.to_thread(lambda: list(batches(written, form)))
        total = sum(len(batch.records) for batch in all_batches)
        for batch in all_batches:
            self._progress.text = f"Checking {count(total)} records: line {count(batch.lines[0])} …"
            await self._check(batch)
        done, last = 0, ""
        for batch in all_batches:
            try:
                last = (await self._send(batch, {}))["position"]
            except GatewayError as error:
                said = f"{count(done)} records were appended, up to line {batch.lines[0] - 1}. Then: {error.detail}"
                raise GatewayError(error.status, error.title, said) from error
            done += len(batch.records)
            self._progress.text = f"Appended {count(done)} of {count(total)} records."
        with self._result, ui.element("div").classes("bar"):
            text(f"{count(done)} records of {self._name} are appended and on disk; the position just after them:")
            position(last)
        if last:
            await self._on_append(last)

    async def _check(self, batch: FileBatch) -> None:
        """Raise FileError for the first record that does not fit, with its line."""
        try:
            await self._send(batch, {"dry_run": "true"})
        except GatewayError as error:
            if error.status not in (400, 413, 422):
                raise
            if len(batch.lines) == 1:
                raise FileError(f"line {batch.lines[0]}: {error.detail}") from error
            for half in batch.halves():
                await self._check(half)
            raise

    async def _send(self, batch: FileBatch, query: dict[str, str]) -> Any:
        asked = ConsoleRequest(self._path, query, "POST", {"records": list(batch.records)})
        return await self._page.ask(asked, timeout_s=_APPEND_S, is_listed=False)

    def _show_problem(self, title: str, detail: str) -> None:
        self._result.clear()
        with self._result:
            problem(title, detail)
