"""``ConfigEditDialog``: the form that changes one config of a topic. It shows the difference before it saves it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

from nicegui import ui

from mainstem.console.formats import setting
from mainstem.console.frame import Page
from mainstem.console.parts import text
from mainstem.console.requests import ConsoleRequest, path
from mainstem.console.topic.action_dialog import ActionDialog

_CHOICES: Final = {
    "cleanup.policy": ["delete", "compact", "compact,delete"],
    "message.timestamp.type": ["CreateTime", "LogAppendTime"],
    "flush": ["commit", "os"],
}
_SWITCH: Final = ("true", "false")


class ConfigEditDialog:
    """One config at a time. ``then`` is called after a change."""

    def __init__(self, page: Page, topic: str, then: Callable[[], Awaitable[None]]) -> None:
        self._page = page
        self._path = path("topics", topic, "configs")
        self._then = then
        self._config: dict[str, Any] = {}
        self._dialog = ActionDialog("Change a config", "Save", self._save, plan=self._plan)
        with self._dialog.fields:
            self._about = text("", "quiet", "p")
            self._value = ui.select([""], value="", label="Value", with_input=True, new_value_mode="add")
            self._value.props("dense outlined hide-dropdown-icon").classes("field")
            self._words = text("", "quiet", "p")
            self._reset = ui.checkbox("", on_change=self._changed).props("dense")
            self._value.on_value_change(self._changed)
            self._value.bind_enabled_from(self._reset, "value", backward=lambda reset: not reset)

    def open(self, config: dict[str, Any]) -> None:
        """Open it for a config, as the gateway shows it."""
        self._config = config
        name, value = str(config["name"]), str(config["value"] or "")
        self._dialog.title.text = f"Change {name}"
        self._about.text = config["documentation"] or "The log has no description of it."
        choices = _CHOICES.get(name) or (list(_SWITCH) if value in _SWITCH else [])
        self._value.set_options(list(dict.fromkeys([*choices, value])), value=value)
        self._reset.text = f"Give it its default again: {setting(name, config['default'])}"
        self._reset.value = False
        self._reset.set_visibility(bool(config["set"]))
        self._dialog.open()
        self._changed()

    def _changed(self) -> None:
        self._dialog.changed()
        words = setting(str(self._config.get("name", "")), str(self._value.value or ""))
        self._words.text = "" if words == self._value.value or self._reset.value else words
        self._words.set_visibility(bool(self._words.text))

    def _request(self, *, dry_run: bool) -> ConsoleRequest:
        name = self._config["name"]
        body: dict[str, Any] = {"reset": [name]} if self._reset.value else {"set": {name: str(self._value.value or "")}}
        return ConsoleRequest(self._path, {}, "PATCH", {**body, "dry_run": dry_run})

    async def _plan(self) -> bool:
        [change] = (await self._page.ask(self._request(dry_run=True)))["changes"]
        name, before = change["name"], change["before"]
        after = self._config["default"] if self._reset.value else change["after"]
        with self._dialog.planned, ui.element("div").classes("diff"):
            text(f"− {name} = {setting(name, before)}", "removed")
            text(f"+ {name} = {setting(name, after)}", "added")
        return bool(before != after or self._reset.value or not self._config["set"])

    async def _save(self) -> None:
        await self._page.ask(self._request(dry_run=False))
        await self._then()
