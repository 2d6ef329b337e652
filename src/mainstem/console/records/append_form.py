"""``AppendForm``: append one record to a topic, and see its position. Used by one page."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from nicegui import ui

from mainstem.console.frame import Page
from mainstem.console.gateway_client import GatewayError
from mainstem.console.parts import card, position, problem, text
from mainstem.console.requests import ConsoleRequest, path


class AppendForm:
    """The form that appends one record to a topic."""

    def __init__(self, page: Page, topic: str) -> None:
        self._page = page
        self._topic = topic
        self._then: Callable[[], None] | None = None
        with card().classes("changes"):
            with ui.element("details"):
                with ui.element("summary"):
                    ui.label("Append a record").classes("card-title summary-title")
                with ui.element("form") as form:
                    form.on("submit.prevent", self._append)
                    self._key = ui.input("Key (empty: none)").props("dense outlined").classes("field")
                    self._value = ui.textarea("Value: JSON, or text").props("dense outlined autogrow").classes("field")
                    self._headers = ui.textarea("Headers, one a line: name: value")
                    self._headers.props("dense outlined autogrow").classes("field")
                    with ui.element("div").classes("bar"):
                        self._tombstone = ui.checkbox("Tombstone: no value").props("dense")
                        ui.button("Append").props("unelevated no-caps type=submit")
                self._result = ui.element("div").props('aria-live="polite"')

    def on_append(self, then: Callable[[], None]) -> None:
        """Set the function to call after each append."""
        self._then = then

    async def _append(self) -> None:
        self._result.clear()
        record: dict[str, Any] = {"value": None if self._tombstone.value else _value(self._value.value or "")}
        if self._key.value:
            record["key"] = self._key.value
        headers = _headers(self._headers.value or "")
        if headers:
            record["headers"] = headers
        asked = ConsoleRequest(path("topics", self._topic, "records"), {}, "POST", {"records": [record]})
        try:
            answer = await self._page.ask(asked)
        except GatewayError as error:
            with self._result:
                problem(error.title, error.detail)
            return
        with self._result:
            with ui.element("div").classes("bar"):
                text("Appended and on disk; the position just after it:")
                position(answer["position"])
            self._page.show_request(asked)
        if self._then is not None:
            self._then()


def _value(written: str) -> Any:
    try:
        return json.loads(written)
    except (ValueError, RecursionError):
        return written


def _headers(written: str) -> dict[str, str]:
    pairs = (line.partition(":") for line in written.splitlines() if line.strip())
    return {name.strip(): value.strip() for name, _, value in pairs}
