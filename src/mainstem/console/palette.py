"""The palette: one field that finds each page by a part of its name, and the keys that lead to it.

Ctrl+K (⌘K) opens it on every page. The page asks the gateway for the names of topics, views, pipelines and subjects
when the palette opens, and the browser searches in them; `static/palette.js` has the keys. Stateless.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from nicegui import ui

from mainstem.console import listing
from mainstem.console.gateway_client import GatewayError
from mainstem.console.requests import ConsoleRequest, path
from mainstem.console.schemas.registry_requests import subject_address, subject_names

if TYPE_CHECKING:
    from mainstem.console.frame import Page

NAMES_MAX: Final = 5_000
_FORBIDDEN: Final = 403

Target = tuple[str, str, str]
"""The kind of a page (topic, view, …), its name and its address."""


def add(this: Page) -> None:
    """Let a page open the palette."""
    asks = ui.element("div").props("id=palette-names hidden")

    async def send_names() -> None:
        found = [*await _named(this)][:NAMES_MAX]
        ui.run_javascript(f"mainstemPalette.show({json.dumps(found)})")

    asks.on("names", send_names, args=[])


async def _named(this: Page) -> Sequence[Target]:
    """The pages of all topics, views, pipelines and subjects. What the gateway refuses is left out."""
    found: list[Target] = []
    for kind, section, request in (
        ("Topic", "topics", listing.TOPIC_NAMES),
        ("View", "views", listing.VIEWS),
        ("Pipeline", "pipelines", listing.PIPELINES),
    ):
        answer = await _answered(this, request)
        found += [(kind, each["name"], path("console", section, each["name"])) for each in answer.get(section, ())]
    subjects = await _answered(this, subject_names(NAMES_MAX))
    return [*found, *(("Subject", each, subject_address(each)) for each in subjects)]


async def _answered(this: Page, request: ConsoleRequest) -> Any:
    """The gateway's answer; an empty one where it refuses. The page says so, unless the token may not see it."""
    try:
        return await this.ask(request, is_listed=False)
    except GatewayError as error:
        if error.status != _FORBIDDEN:
            this.complain(error)
        return {}
