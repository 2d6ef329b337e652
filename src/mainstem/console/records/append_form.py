"""``AppendForm``: append records to a topic: one of a form, or those of a file. Used by one page.

``RecordAppender`` is the form of one record. Where the topic has a registered schema, a record is checked by it before
it is appended, unless that is turned off.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

from nicegui import ui

from mainstem.console.frame import Page
from mainstem.console.gateway_client import GatewayError
from mainstem.console.parts import card, position, problem, text
from mainstem.console.records.bulk_append import BulkAppend
from mainstem.console.records.record_fields import FieldError, NewRecordFields, RecordDraft
from mainstem.console.requests import ConsoleRequest, path

OnAppended = Callable[[str], Awaitable[None]]


class RecordAppender:
    """The fields of a record, the buttons that fill, check and append it, and what came of it."""

    def __init__(self, page: Page, topic: str, on_append: OnAppended) -> None:
        """``on_append`` is called with the position after each append."""
        self._page = page
        self._on_append = on_append
        self._is_known = False
        self._example: dict[str, Any] | None = None
        self.columns: dict[str, str] = {}
        with ui.element("form") as form:
            form.on("submit.prevent", self._append)
            self.fields = NewRecordFields(topic)
            with ui.element("div").classes("bar spaced"):
                ui.button("Append").props("unelevated no-caps type=submit")
                ui.button("Check", on_click=self._check).props("outline no-caps type=button")
                self._fill = ui.button("Fill example", on_click=self._fill_example)
                self._fill.props("flat no-caps type=button").set_visibility(False)
                self._validates = ui.checkbox("Only if it fits the schema", value=True).props("dense")
                self._validates.set_visibility(False)
        self._result = ui.element("div").props('aria-live="polite"')

    async def look(self) -> None:
        """Ask once for the topic's partitions, features and schema."""
        if self._is_known:
            return
        self._is_known = True
        try:
            about = await self._page.ask(ConsoleRequest(path("topics", self.fields.topic)))
            schema = await self._page.ask(ConsoleRequest(path("topics", self.fields.topic, "example")))
        except GatewayError as error:
            self._is_known = False
            self._show_problem(error.title, error.detail)
            return
        self.fields.look(about["partitions"], about["configs"])
        self.columns = {column["name"]: column["type"] for column in schema["columns"]}
        self._example = schema["example"]
        self._fill.set_visibility(self._example is not None)
        self._validates.set_visibility(self._example is not None)

    def _fill_example(self) -> None:
        self.fields.fill(
            replace(RecordDraft.of(self._example or {"value": ""}), note="An example; change what is wrong.")
        )

    async def _check(self) -> None:
        asked = await self._ask({"dry_run": "true"})
        if asked is not None:
            said = "fits the topic's schema" if asked[1]["schema"] else "can be appended; the topic has no schema"
            self._result.clear()
            with self._result:
                text(f"✓ The record {said}.", "good", "p")

    async def _append(self) -> None:
        asked = await self._ask({"validate": "true"} if self._example and self._validates.value else {})
        if asked is None:
            return
        request, answer = asked
        self._result.clear()
        with self._result:
            with ui.element("div").classes("bar"):
                text("Appended and on disk; the position just after it:")
                position(answer["position"])
            self._page.show_request(request)
        await self._on_append(answer["position"])

    async def _ask(self, query: dict[str, str]) -> tuple[ConsoleRequest, Any] | None:
        """The append of the fields, and its answer; None when it was refused, which is then shown."""
        try:
            request = replace(self.fields.request(), query=query)
            return request, await self._page.ask(request)
        except FieldError as error:
            self._show_problem("Not sent", str(error))
        except GatewayError as error:
            self._show_problem(error.title, error.detail)
        return None

    def _show_problem(self, title: str, detail: str) -> None:
        self._result.clear()
        with self._result:
            problem(title, detail)


class AppendForm:
    """The form that appends records to a topic, folded until it is opened."""

    def __init__(self, page: Page, topic: str) -> None:
        self._then: Callable[[], None] | None = None
        with card() as shown:
            shown.classes("changes")
            with ui.element("details") as details:
                with ui.element("summary"):
                    ui.label("Append a record").classes("card-title summary-title")
                self._appender = RecordAppender(page, topic, self._appended)
                BulkAppend(page, topic, self._columns, self._appended)
        self._details = details
        details.on("toggle", self._appender.look)

    def on_append(self, then: Callable[[], None]) -> None:
        """Set the function to call after each append."""
        self._then = then

    def fill(self, draft: RecordDraft) -> None:
        """Open the form with a draft."""
        self._appender.fields.fill(draft)
        form = json.dumps(self._details.html_id)
        ui.run_javascript(f"mainstem.unfold({form})")

    async def _columns(self) -> dict[str, str]:
        await self._appender.look()
        return self._appender.columns

    async def _appended(self, _: str) -> None:
        if self._then is not None:
            self._then()
