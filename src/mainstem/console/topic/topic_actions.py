"""``TopicActions``: the menu of what changes a topic: add partitions, delete records, delete the topic.

Used by one page.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

from nicegui import ui

from mainstem.console.formats import count
from mainstem.console.frame import Page
from mainstem.console.gateway_client import WORK_S
from mainstem.console.parts import text
from mainstem.console.requests import ConsoleRequest, path
from mainstem.console.topic.action_dialog import ActionDialog, InvalidFieldError
from mainstem.console.topic.topic_tabs import tab_address
from mainstem.model import Position, TopicPartition

_TIME, _OFFSET, _POSITION, _LATEST = "time", "offset", "position", "latest"
_ADDRESS_CHARS_MAX: Final = 60_000
"""A position of more characters does not fit into an address; then what was asked for goes."""
_BEFORE: Final = {
    _TIME: "before a time (UTC)",
    _OFFSET: "before an offset, in every partition",
    _POSITION: "before a position",
    _LATEST: "all that there are now",
}


class TopicActions:
    """The menu and its dialogs. ``then`` is called after a change."""

    def __init__(self, page: Page, topic: str, then: Callable[[], Awaitable[None]]) -> None:
        self._page, self._topic, self._then = page, topic, then
        partitions = AddPartitionsDialog(page, topic, then)
        records = DeleteRecordsDialog(page, topic, then)
        delete = ActionDialog(f"Delete {topic}", "Delete the topic", self._delete, confirm=topic)
        with delete.fields:
            text("The topic goes with all its records, for good. Views and pipelines that read it stop.")
        with ui.button("Change", icon="expand_more").props("outline no-caps dense").classes("actions"):
            with ui.menu():
                ui.menu_item("Edit configs", lambda: ui.navigate.to(tab_address(topic, "configs")))
                ui.menu_item("Add partitions …", partitions.open)
                ui.menu_item("Delete records …", records.open)
                ui.menu_item("Delete the topic …", delete.open)

    async def _delete(self) -> None:
        asked = ConsoleRequest(path("topics", self._topic), {"confirm": self._topic}, "DELETE")
        await self._page.ask(asked, timeout_s=WORK_S)
        ui.navigate.to("/console/topics")


class AddPartitionsDialog:
    """The form that adds partitions."""

    def __init__(self, page: Page, topic: str, then: Callable[[], Awaitable[None]]) -> None:
        self._page, self._then = page, then
        self._path = path("topics", topic, "partitions")
        self._dialog = ActionDialog(f"Add partitions to {topic}", "Add partitions", self._execute, plan=self._plan)
        with self._dialog.fields:
            text(
                "Partitions cannot be taken away again. If records have keys, a key may belong to another partition "
                "afterwards: its older records stay where they are, so their order is lost, and a pipeline that reads "
                "the topic as a table keeps the key's old row. For a keyed topic make a new topic instead.",
                "warning",
                "p",
            )
            self._number = ui.number("Partitions in all", min=1, max=10_000, precision=0)
            self._number.on_value_change(self._dialog.changed)
            self._number.props("dense outlined autofocus").classes("field")

    def open(self) -> None:
        """Open it."""
        self._dialog.open()

    def _request(self, *, dry_run: bool) -> ConsoleRequest:
        if self._number.value is None:
            raise InvalidFieldError("say how many partitions the topic gets in all")
        return ConsoleRequest(self._path, {}, "POST", {"partitions": int(self._number.value), "dry_run": dry_run})

    async def _plan(self) -> bool:
        plan = await self._page.ask(self._request(dry_run=True))
        with self._dialog.planned:
            text(f"{count(plan['before'])} partitions now, {count(plan['partitions'])} afterwards.", "", "p")
        return True

    async def _execute(self) -> None:
        await self._page.ask(self._request(dry_run=False), timeout_s=WORK_S)
        await self._then()


class DeleteRecordsDialog:
    """The form that deletes the oldest records. It deletes what its plan showed, not what comes meanwhile."""

    def __init__(self, page: Page, topic: str, then: Callable[[], Awaitable[None]]) -> None:
        self._page, self._topic, self._then = page, topic, then
        self._to = ""
        title = f"Delete records of {topic}"
        self._dialog = ActionDialog(
            title, "Delete the records", self._execute, plan=self._plan, plan_verb="Show what would go", confirm=topic
        )
        with self._dialog.fields:
            text("The oldest records go, for good. The others keep their offsets.")
            self._kind = ui.select(_BEFORE, value=_TIME, label="Delete records", on_change=self._dialog.changed)
            self._kind.props("dense outlined").classes("field")
            self._fields = {_TIME: ui.input("Time (UTC)"), _OFFSET: ui.input("Offset"), _POSITION: ui.input("Position")}
            for name, field in self._fields.items():
                more = " type=datetime-local step=1 stack-label" if name == _TIME else ""
                field.props(f"dense outlined{more}").classes("field")
                field.bind_visibility_from(self._kind, "value", value=name)
                field.on_value_change(self._dialog.changed)

    def open(self) -> None:
        """Open it."""
        self._dialog.open()

    def _where(self) -> str:
        kind = str(self._kind.value)
        if kind == _LATEST:
            return _LATEST
        written = str(self._fields[kind].value or "").strip()
        if not written:
            raise InvalidFieldError(f"say which: {_BEFORE[kind]}")
        return f"{written}Z" if kind == _TIME and not written.endswith("Z") else written

    async def _plan(self) -> bool:
        where = self._where()
        query: dict[str, Any] = {"to": where, "dry_run": "true"}
        plan = await self._page.ask(ConsoleRequest(path("topics", self._topic, "records"), query, "DELETE"))
        going = [each for each in plan["partitions"] if each["offsets"]]
        exactly = str(Position({TopicPartition(self._topic, each["partition"]): each["after"] for each in going}))
        self._to = exactly if len(exactly) <= _ADDRESS_CHARS_MAX else where
        of_all = f"{count(len(going))} of {count(len(plan['partitions']))} partitions"
        with self._dialog.planned:
            if going:
                text(f"{count(plan['offsets'])} offsets would go, in {of_all}.", "warning", "p")
            else:
                text("Nothing would go: all records are newer.", "quiet", "p")
        return bool(going)

    async def _execute(self) -> None:
        query = {"to": self._to, "confirm": self._topic}
        asked = ConsoleRequest(path("topics", self._topic, "records"), query, "DELETE")
        await self._page.ask(asked, timeout_s=WORK_S)
        await self._then()
