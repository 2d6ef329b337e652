"""``PipelineCommands``: the menu of a pipeline's page: pause, resume, restart. Used by one page."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

from nicegui import ui

from mainstem.console.frame import Page
from mainstem.console.parts import text
from mainstem.console.requests import ConsoleRequest, path
from mainstem.console.topic.action_dialog import ActionDialog

_NOT_STARTED: Final = ("not seen", "stopped", "failed", "finished")
_WORDS: Final = {
    "pause": (
        "Pause",
        "Its query ends after its running micro-batch and keeps its place. It derives nothing until it is resumed, "
        "also when its App starts again. Views that read its topics stand still.",
    ),
    "resume": ("Resume", "Its query goes on from where it stopped. Each record is derived once."),
    "restart": (
        "Restart",
        "Its query ends and starts from its checkpoint, at once. What its last micro-batch had not finished is done "
        "again, and counts once.",
    ),
}


class PipelineCommands:
    """The menu and its dialogs. ``then`` is called after a command was taken."""

    def __init__(self, page: Page, pipeline: str, then: Callable[[], Awaitable[None]]) -> None:
        self._page, self._pipeline, self._then = page, pipeline, then
        self._waits_for: int | None = None
        dialogs = {action: self._dialog(action) for action in _WORDS}
        with ui.button("Change", icon="expand_more").props("outline no-caps dense").classes("actions") as self._button:
            with ui.menu():
                self._items = {
                    action: ui.menu_item(f"{_WORDS[action][0]} …", dialog.open) for action, dialog in dialogs.items()
                }
        self._asked = text("", "quiet asked", "p").props('aria-live="polite"')

    def show(self, pipeline: dict[str, Any]) -> None:
        """Offer what can be asked of the pipeline as it is now."""
        is_paused, runs = pipeline["status"] == "paused", pipeline["status"] not in _NOT_STARTED
        self._button.set_visibility(not pipeline.get("database"))  # a capture takes no commands
        self._items["pause"].set_visibility(not is_paused)
        self._items["resume"].set_visibility(is_paused or not runs)
        self._items["restart"].set_visibility(runs and not is_paused)
        done = pipeline.get("command")
        if self._waits_for is not None and done is not None and done >= self._waits_for:
            self._waits_for, self._asked.text = None, ""

    def _dialog(self, action: str) -> ActionDialog:
        verb, consequences = _WORDS[action]

        async def execute() -> None:
            asked = ConsoleRequest(path("pipelines", self._pipeline, action), {}, "POST")
            answer = await self._page.ask(asked)
            self._waits_for = int(answer["command"])
            self._asked.text = f"{verb} is asked for; its App does it within a second or two, or when it starts."
            await self._then()

        dialog = ActionDialog(f"{verb} {self._pipeline}", f"{verb} it", execute)
        with dialog.fields:
            text(consequences, "", "p")
        return dialog
