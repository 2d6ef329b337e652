"""``ConfigsTab``: the configs of a topic, changed ones first, each with its description. Used by one page."""

from __future__ import annotations

from typing import Any

from nicegui import events, ui

from mainstem.console.formats import NOTHING, setting
from mainstem.console.frame import Page
from mainstem.console.parts import card, column, search_field, set_rows, table, text
from mainstem.console.requests import ConsoleRequest, path
from mainstem.console.topic.config_edit import ConfigEditDialog

_COLUMNS = (
    column("name", "Config", classes="breaks"),
    column("value", "Value", classes="mono breaks"),
    column("source", "From"),
    column("default", "Default", classes="mono breaks wide"),
    column("documentation", "What it does", classes="wide prose"),
)
_NAME = """
<q-td :props="props" :class="props.col.cls" :data-label="props.col.label">
  <button type="button" class="link as-link" :aria-label="'Change ' + props.value"
    @click="() => $parent.$emit('edit', props.row.name)">{{ props.value }}</button>
</q-td>
"""


class ConfigsTab:
    """The table; a click on a name opens the dialog that changes it."""

    def __init__(self, page: Page, topic: str) -> None:
        self._page = page
        self._asked = ConsoleRequest(path("topics", topic, "configs"))
        self._configs: dict[str, dict[str, Any]] = {}
        self._edit = ConfigEditDialog(page, topic, self._load)
        with card("Configs"):
            text("A click on a name changes it. What is set for this topic comes first.", "quiet", "p")
            place = ui.element("div").classes("bar")
            self._table = table(_COLUMNS, "name", "Configs", 50).classes("cards")
            self._table.add_slot("body-cell-name", _NAME)
            self._table.on("edit", self._open)
            with place:
                search_field("Find a config", self._table)

    async def refresh(self, about: dict[str, Any]) -> None:
        """Show the configs as they are now."""
        del about
        await self._load()

    async def _load(self) -> None:
        found = (await self._page.ask(self._asked))["configs"]
        self._configs = {each["name"]: each for each in found}
        set_rows(self._table, [_row(each) for each in sorted(found, key=lambda each: not each["set"])])

    def _open(self, event: events.GenericEventArguments) -> None:
        if (config := self._configs.get(str(event.args))) is not None:
            self._edit.open(config)


def _row(config: dict[str, Any]) -> dict[str, Any]:
    name, is_set = config["name"], config["set"]
    return {
        "name": name,
        "value": "secret" if config["sensitive"] else setting(name, config["value"]),
        "source": "set here" if is_set else config["source"],
        "default": setting(name, config["default"]) if is_set else NOTHING,
        "documentation": config["documentation"],
    }
