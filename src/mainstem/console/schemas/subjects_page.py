"""``/console/schemas``: the subjects of the schema registry, each with its latest version."""

from __future__ import annotations

from typing import Any, Final

from mainstem.console.formats import count, moment
from mainstem.console.frame import Page, page
from mainstem.console.gateway_client import GatewayClient
from mainstem.console.parts import card, column, empty, search_field, set_rows, table, text
from mainstem.console.requests import path
from mainstem.console.schemas.registry_requests import config_of, latest_versions, subject_address, topic_of

SUBJECTS_MAX: Final = 10_000
_REFRESH_S: Final = 10.0
_COLUMNS = (
    column("subject", "Subject", href="address", classes="breaks"),
    column("type", "Type"),
    column("version", "Latest version", format="count"),
    column("id", "Id", format="count"),
    column("registered", "Registered", classes="wide"),
    column("topic", "Topic", href="topic_address", classes="wide breaks"),
)


async def show(client: GatewayClient, search: str) -> None:
    """Build the page."""
    with page(client, "Schemas", "Schemas") as this:
        shown = _Subjects(this, search)
        await this.fill(shown.refresh)
        this.every(shown.refresh, _REFRESH_S)


class _Subjects:
    """The table of subjects, kept fresh."""

    def __init__(self, this: Page, search: str) -> None:
        self._page = this
        with card():
            self._level = text("", "quiet", "p")
            self._table = table(_COLUMNS, "subject", "Subjects").classes("cards")
            self._table.set_visibility(False)
            search_field("Find a subject", self._table, search).move(target_index=0)
            self._nothing = empty(
                "No subjects yet",
                "Serializers of Kafka clients register a schema when they first write. Their registry's address is "
                "that of this gateway with /registry behind it.",
            )
            self._nothing.set_visibility(False)
            self._more = text(f"The first {count(SUBJECTS_MAX)} subjects are shown.", "quiet", "p")
            self._more.set_visibility(False)

    async def refresh(self) -> None:
        """Show the subjects that there are now."""
        level = (await self._page.ask(config_of(None)))["compatibilityLevel"]
        found = await self._latest()
        self._level.text = f"Compatibility level of the registry: {level}"
        set_rows(self._table, [_row(each) for each in found])
        self._table.set_visibility(bool(found))
        self._nothing.set_visibility(not found)
        self._more.set_visibility(len(found) == SUBJECTS_MAX)

    async def _latest(self) -> list[dict[str, Any]]:
        """The latest versions, in as many parts as the registry answers."""
        found: list[dict[str, Any]] = []
        while len(found) < SUBJECTS_MAX:
            part = await self._page.ask(latest_versions(len(found)), is_listed=not found)
            found += part
            if not part:
                break
        return found[:SUBJECTS_MAX]


def _row(version: dict[str, Any]) -> dict[str, Any]:
    subject, topic = version["subject"], topic_of(version["subject"])
    return {
        "subject": subject,
        "address": subject_address(subject),
        "type": version["schemaType"],
        "version": version["version"],
        "id": version["id"],
        "registered": moment(version["ts"])[:19],
        "topic": topic or "",
        "topic_address": None if topic is None else path("console", "topics", topic),
    }
