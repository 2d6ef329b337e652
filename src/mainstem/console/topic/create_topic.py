"""``CreateTopicDialog``: the form that creates a topic. Used by one page."""

from __future__ import annotations

from typing import Any, Final

from nicegui import ui

from mainstem.console.formats import milliseconds
from mainstem.console.frame import Page
from mainstem.console.gateway_client import WORK_S
from mainstem.console.parts import text
from mainstem.console.requests import ConsoleRequest, path
from mainstem.console.topic.action_dialog import ActionDialog, InvalidFieldError

_DEFAULT: Final = ""
_OTHER: Final = "other"
_CLEANUP: Final = {
    _DEFAULT: "the log's default",
    "delete": "delete: old records go",
    "compact": "compact: each key's latest record stays",
    "compact,delete": "compact and delete",
}
_RETENTION: Final = {
    _DEFAULT: "the log's default",
    "3600000": "1 hour",
    "86400000": "1 day",
    "604800000": "7 days",
    "2592000000": "30 days",
    "31536000000": "1 year",
    "-1": "without end",
    _OTHER: "another time …",
}
_FEATURES: Final = (
    ("mainstem.key.index", "true", "Key index: read one key's records without a scan"),
    ("mainstem.conditional.append", "true", "Conditional appends: If-Match and expected offsets"),
    ("mainstem.idempotency.window.ms", "86400000", "Idempotency keys, remembered for a day"),
)


class CreateTopicDialog:
    """Name, partitions, cleanup, retention, log features."""

    def __init__(self, page: Page) -> None:
        self._page = page
        self._dialog = ActionDialog("Create a topic", "Create", self._create)
        with self._dialog.fields:
            self._name = ui.input("Name: letters, digits, '.', '_' and '-'").props("dense outlined autofocus")
            self._partitions = ui.number("Partitions (empty: the log's default)", min=1, max=10_000, precision=0)
            self._cleanup = ui.select(_CLEANUP, value=_DEFAULT, label="Cleanup")
            self._retention = ui.select(_RETENTION, value=_DEFAULT, label="Keep records for")
            self._other = ui.input("Time: 36 h, 10 days")
            for field in (self._name, self._partitions, self._cleanup, self._retention, self._other):
                field.props("dense outlined").classes("field")
            self._other.bind_visibility_from(self._retention, "value", value=_OTHER)
            text("A keyed topic needs its final number of partitions now: a key stays in its partition.", "quiet", "p")
            self._features = {name: (ui.switch(label).props("dense"), value) for name, value, label in _FEATURES}
            for switch, _ in self._features.values():
                switch.classes("field")

    def open(self) -> None:
        """Open it."""
        self._dialog.open()

    async def _create(self) -> None:
        name = (self._name.value or "").strip()
        if not name:
            raise InvalidFieldError("give the topic a name")
        body: dict[str, Any] = {"name": name}
        if self._partitions.value is not None:
            body["partitions"] = int(self._partitions.value)
        if configs := self._configs():
            body["configs"] = configs
        await self._page.ask(ConsoleRequest("/topics", {}, "POST", body), timeout_s=WORK_S)
        ui.navigate.to(path("console", "topics", name))

    def _configs(self) -> dict[str, str]:
        configs = {name: value for name, (switch, value) in self._features.items() if switch.value}
        if self._cleanup.value:
            configs["cleanup.policy"] = str(self._cleanup.value)
        if self._retention.value == _OTHER:
            kept_ms = milliseconds(self._other.value or "")
            if kept_ms is None:
                raise InvalidFieldError(f"{self._other.value!r} is not a time: write 36 h, 10 days or 90 min")
            configs["retention.ms"] = str(kept_ms)
        elif self._retention.value:
            configs["retention.ms"] = str(self._retention.value)
        return configs
