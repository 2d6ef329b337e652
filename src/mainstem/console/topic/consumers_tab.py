"""``ConsumersTab``: the groups, pipelines and views that read a topic, with their lag. Used by one page."""

from __future__ import annotations

from typing import Any

from nicegui import ui

from mainstem.console.frame import Page
from mainstem.console.parts import card, column, empty, set_rows, table, text
from mainstem.console.requests import ConsoleRequest, path
from mainstem.model import is_load_group

_OWN = "mainstem-"
_LAG = column("lag", "Lag", format="count")
_GROUPS = (column("name", "Group", href="address", classes="breaks"), column("state", "State", state=True), _LAG)
_PIPELINES = (
    column("name", "Pipeline", href="address", classes="breaks"),
    column("state", "Status", state=True),
    column("as", "Reads it as"),
    _LAG,
)
_VIEWS = (
    column("name", "View", href="address", classes="breaks"),
    column("state", "State", state=True),
    column("kind", "Kind"),
    _LAG,
)


class ConsumersTab:
    """Three tables, each with links."""

    def __init__(self, page: Page, topic: str) -> None:
        self._page = page
        self._asked = ConsoleRequest(path("topics", topic, "consumers"))
        self._found: dict[str, Any] | None = None
        with card("Groups"):
            self._with_own = ui.checkbox("Mainstem's own groups", on_change=self._show_groups).props("dense")
            self._groups = table(_GROUPS, "name", "Groups").classes("cards")
            self._no_groups = empty(
                "No group reads this topic", "A group appears here when it has committed an offset of the topic."
            )
            self._more = text("There are more groups than are looked at: the Groups page has all.", "quiet", "p")
        with ui.element("div").classes("pair"):
            with card("Pipelines"):
                self._pipelines = table(_PIPELINES, "name", "Pipelines").classes("cards")
            with card("Views"):
                self._views = table(_VIEWS, "name", "Views").classes("cards")
        self._no_groups.set_visibility(False)
        self._more.set_visibility(False)

    async def refresh(self, about: dict[str, Any]) -> None:
        """Show who reads the topic now."""
        del about
        self._found = await self._page.ask(self._asked)
        self._more.set_visibility(not self._found["complete"])
        self._show_groups()
        pipelines, views = self._found["pipelines"], self._found["views"]
        set_rows(self._pipelines, [_row(each, "pipelines", state=each["status"]) for each in pipelines])
        set_rows(self._views, [_row(each, "views") for each in views])

    def _show_groups(self) -> None:
        groups = self._found["groups"] if self._found is not None else []
        shown = [each for each in groups if self._with_own.value or not each["group"].startswith(_OWN)]
        rows = [_row({"name": each["group"], **each}, "groups", state=_state(each)) for each in shown]
        set_rows(self._groups, [{name: each[name] for name in ("name", "address", "state", "lag")} for each in rows])
        self._groups.set_visibility(bool(rows))
        self._no_groups.set_visibility(self._found is not None and not rows)


def _row(entry: dict[str, Any], section: str, **more: Any) -> dict[str, Any]:
    return {**entry, **more, "address": path("console", section, entry["name"])}


def _state(group: dict[str, Any]) -> str:
    """A group's state. Groups that hold the progress of a load or of a pipeline have no members by nature."""
    if group["group"].startswith(_OWN) and group["state"] == "Empty":
        return "of a load" if is_load_group(group["group"]) else "of a pipeline"
    return str(group["state"])
