"""``/console/schemas/{subject}``: the versions of a subject, one of them whole, and what differs from another one.

The version and the one that it is compared with are in the page's address, so it can be sent.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any, Final
from urllib.parse import urlencode

from nicegui import ui

from mainstem.console.formats import count, moment
from mainstem.console.frame import Page, page
from mainstem.console.gateway_client import GatewayClient
from mainstem.console.parts import card, figure, link, linked_figure, show_link, text
from mainstem.console.requests import path
from mainstem.console.schemas.registry_requests import (
    SCHEMAS_PAGE,
    config_of,
    referrers_of,
    subject_address,
    topic_of,
    users_of,
    version_of,
    versions_of,
)
from mainstem.console.schemas.schema_texts import LINES_MAX, differing_lines, lines_of

_REFRESH_S: Final = 10.0
_TEXT_CHARS_MAX: Final = 100_000
_CHANGES_MAX: Final = 1_000
_REFERRERS_MAX: Final = 20
_NONE: Final = 0  # no version to compare with


async def show(client: GatewayClient, subject: str) -> None:
    """Build the page."""
    with page(client, subject, "Schemas", (("Schemas", SCHEMAS_PAGE),), "Subject") as this:
        shown = _Subject(this, subject)
        await this.fill(shown.refresh)
        this.every(shown.refresh, _REFRESH_S)


class _Subject:
    """One subject, kept fresh."""

    def __init__(self, this: Page, subject: str) -> None:
        self._page = this
        self._subject = subject
        address = this.address()
        self._wanted = [_number(address.get(name, "")) for name in ("version", "with")]
        self._shown: Any = None
        with card():
            with ui.element("div").classes("figures"):
                self._figures = [figure(label) for label in ("Versions", "Type", "Compatibility")]
                topic = topic_of(subject)
                if topic is not None:
                    show_link(linked_figure("Topic"), topic, path("console", "topics", topic) + "?tab=schema")
            with ui.element("div").classes("bar spaced"):
                self._version, self._other = (
                    ui.select({}, label=label).props("dense outlined options-dense").classes("order")
                    for label in ("Version", "Compared with")
                )
        self._content = ui.element("div")
        for select in (self._version, self._other):
            select.on_value_change(lambda: this.guarded(self._chosen))

    async def refresh(self) -> None:
        """Show the versions that there are now, and the one that is chosen."""
        numbers = await self._page.ask(versions_of(self._subject))
        config = await self._page.ask(config_of(self._subject))
        self._figures[0].text = count(len(numbers))
        self._figures[2].text = str(config["compatibilityLevel"])
        if numbers and list(self._version.options)[::-1] != numbers:
            self._offer(numbers)
        await self._show()

    def _offer(self, numbers: list[int]) -> None:
        """Offer versions, the newest first; compare with the one before, unless the address says otherwise."""
        version, other = self._wanted
        if version not in numbers:
            version = self._version.value if self._version.value in numbers else numbers[-1]
        if other not in numbers and other != _NONE:
            other = max((each for each in numbers if each < version), default=_NONE)
        labels = {each: f"Version {each}" for each in reversed(numbers)}
        self._wanted = [version, other]
        self._version.set_options(labels, value=version)
        self._other.set_options({_NONE: "none", **labels}, value=other)

    async def _chosen(self) -> None:
        """Another version was chosen."""
        if [self._version.value, self._other.value] == self._wanted:
            return
        self._wanted = [self._version.value, self._other.value]
        query = urlencode({"version": self._version.value, "with": self._other.value})
        ui.navigate.history.replace(f"{subject_address(self._subject)}?{query}")
        await self._show()

    async def _show(self) -> None:
        number, other = self._wanted
        if number is None or self._version.value is None:
            return
        version = await self._page.ask(version_of(self._subject, number))
        compared = await self._page.ask(version_of(self._subject, other)) if other not in (_NONE, number) else None
        referrers = await self._referrers(number)
        if self._wanted != [number, other] or self._shown == (version, compared, referrers):
            return
        self._shown = version, compared, referrers
        lines = await asyncio.to_thread(lines_of, version["schema"])
        changes = None if compared is None else await asyncio.to_thread(_changes, compared["schema"], lines)
        self._figures[1].text = version["schemaType"]
        self._content.clear()
        with self._content:
            if compared is not None:
                _show_changes(compared["version"], number, changes)
            _show_version(version, lines, referrers)

    async def _referrers(self, number: int) -> list[tuple[str, int]]:
        """The versions of other subjects that refer to this one."""
        found: list[tuple[str, int]] = []
        for schema_id in (await self._page.ask(referrers_of(self._subject, number)))[:_REFERRERS_MAX]:
            users = await self._page.ask(users_of(schema_id), is_listed=False)
            found += [(each["subject"], each["version"]) for each in users]
        return found[:_REFERRERS_MAX]


def _number(written: str) -> int | None:
    return int(written) if written.isdecimal() and len(written) < 10 else None


def _changes(old: str, new: list[str]) -> list[tuple[str, str]] | None:
    """The lines that differ; None for texts that are too long."""
    lines = lines_of(old)
    return list(differing_lines(lines, new)) if max(len(lines), len(new)) <= LINES_MAX else None


def _show_changes(old: int, new: int, changes: list[tuple[str, str]] | None) -> None:
    with card(f"From version {old} to {new}"):
        if not changes:
            long = f"Schemas of more than {count(LINES_MAX)} lines are not compared."
            text(long if changes is None else "The text is the same.", "quiet", "p")
            return
        with ui.element("div").classes("diff") as made:
            made.props('tabindex=0 role=group aria-label="Lines that differ"')
            for kind, line in changes[:_CHANGES_MAX]:
                text(line, kind)
        if len(changes) > _CHANGES_MAX:
            text(f"The first {count(_CHANGES_MAX)} lines are shown.", "quiet", "p")


def _show_version(version: dict[str, Any], lines: list[str], referrers: list[tuple[str, int]]) -> None:
    with card(f"Version {version['version']}"):
        with ui.element("dl").classes("facts"):
            for name, value in (
                ("Id", str(version["id"])),
                ("Type", version["schemaType"]),
                ("Registered", f"{moment(version['ts'])[:19]} UTC"),
                ("GUID", version["guid"]),
            ):
                text(name, "", "dt")
                text(value, "", "dd")
            for name, others in (
                ("Refers to", [(each["subject"], each["version"]) for each in version.get("references", [])]),
                ("Referred to by", referrers),
            ):
                text(name, "", "dt")
                with ui.element("dd"):
                    _show_links(others)
        _show_text("\n".join(lines), "Schema text")
        for name, label in (("metadata", "Metadata"), ("ruleSet", "Rules")):
            if version.get(name):
                text(label, "version-title", "h3")
                _show_text(json.dumps(version[name], indent=2, ensure_ascii=False), label)


def _show_text(content: str, label: str) -> None:
    shown = text(content[:_TEXT_CHARS_MAX], "value", "pre")
    shown.props["tabindex"] = 0
    shown.props["aria-label"] = label
    if len(content) > _TEXT_CHARS_MAX:
        text(f"The first {count(_TEXT_CHARS_MAX)} characters are shown; the request below gets all.", "quiet", "p")


def _show_links(others: list[tuple[str, int]]) -> None:
    for number, (subject, version) in enumerate(others):
        if number:
            text(", ")
        link(f"{subject}, version {version}", subject_address(subject, version))
    if not others:
        text("none")
