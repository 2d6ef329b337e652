"""``SchemaTab``: the registered schema of a topic, its versions, and its subjects in the registry. Used by one page."""

from __future__ import annotations

from typing import Any

from nicegui import ui

from mainstem.console import listing
from mainstem.console.formats import moment
from mainstem.console.frame import Page
from mainstem.console.gateway_client import GatewayError
from mainstem.console.parts import card, column, empty, link, set_rows, table, text
from mainstem.console.requests import ConsoleRequest, path
from mainstem.console.schemas.registry_requests import subject_address, subjects_of, version_of
from mainstem.console.schemas.schema_texts import lines_of
from mainstem.console.topic.schema_versions import SchemaVersion, differences, versions_of

_SCHEMAS = "__mainstem_schemas"
_VERSIONS_MAX = 100
_TEXT_CHARS_MAX = 20_000
_COLUMNS = (column("name", "Column", classes="breaks"), column("type", "Type", classes="mono"), column("key", "Key"))
_ABSENT = (403, 404)


class SchemaTab:
    """Columns, versions with their differences, and the subjects of key and value in the schema registry."""

    def __init__(self, page: Page, topic: str) -> None:
        self._page = page
        self._topic = topic
        self._versions = ConsoleRequest(path("topics", _SCHEMAS, "keys", topic), {"limit": _VERSIONS_MAX})
        self._subjects = [version_of(subject, "latest") for subject in subjects_of(topic)]
        self._shown: Any = None
        self._place = ui.element("div")

    async def refresh(self, about: dict[str, Any]) -> None:
        """Show the schema, if it is another one than before."""
        del about
        found = await self._if_there(self._versions)
        asked = [await self._if_there(each) for each in self._subjects]
        subjects = [subject for subject in asked if subject is not None]
        pipelines = await self._if_there(listing.PIPELINES)
        writers = [
            each["name"] for each in (pipelines or {"pipelines": []})["pipelines"] if self._topic in each["outputs"]
        ]
        if (found, subjects, writers) == self._shown:
            return
        self._shown = found, subjects, writers
        versions = versions_of(found["records"]) if found is not None else []
        self._place.clear()
        with self._place:
            if versions:
                _show_columns(versions[0], writers)
                _show_versions(versions)
            else:
                with card("Schema"):
                    empty(
                        "No schema is registered for this topic",
                        "An App that declares the topic's columns registers one, and so does a pipeline that derives "
                        "the topic.",
                    )
            if subjects:
                with card("In the schema registry"):
                    for subject in subjects:
                        _show_subject(subject)

    async def _if_there(self, asked: ConsoleRequest) -> Any:
        """The answer; None for what is not there, or not for this token."""
        try:
            return await self._page.ask(asked)
        except GatewayError as error:
            if error.status in _ABSENT:
                return None
            raise


def _show_columns(version: SchemaVersion, writers: list[str]) -> None:
    with card("Schema"):
        with ui.element("dl").classes("facts"):
            for name, value in (
                ("Version", f"{version.number}, since {moment(version.time_ms)[:19]} UTC"),
                ("Key", ", ".join(version.key) or "none"),
                ("Values", version.encoding or "JSON"),
            ):
                text(name, "", "dt")
                text(value, "", "dd")
            text("Declared by", "", "dt")
            with ui.element("dd"):
                for writer in writers:
                    text("pipeline ")
                    link(writer, path("console", "pipelines", writer))
                if not writers:
                    text("an App, or a program that registered it")
        shown = table(_COLUMNS, "name", "Columns", 100)
        set_rows(
            shown,
            [
                {"name": name, "type": kind, "key": "key" if name in version.key else ""}
                for name, kind in version.columns.items()
            ],
        )


def _show_versions(versions: list[SchemaVersion]) -> None:
    with card("Versions"):
        for new, old in zip(versions, [*versions[1:], None], strict=True):
            text(f"Version {new.number}, {moment(new.time_ms)[:19]} UTC", "version-title", "h3")
            lines = [f"{len(new.columns)} columns"] if old is None else differences(old, new)
            text("\n".join(lines), "diff", "pre")
        text("Compaction may have removed older versions.", "quiet", "p")


def _show_subject(subject: dict[str, Any]) -> None:
    with ui.element("p"):
        link(subject["subject"], subject_address(subject["subject"]))
        text(f", version {subject['version']}, id {subject['id']} ({subject['schemaType']})", "quiet")
    shown = text("\n".join(lines_of(subject["schema"]))[:_TEXT_CHARS_MAX], "value", "pre")
    shown.props["tabindex"] = 0
    shown.props["aria-label"] = f"Schema of {subject['subject']}"
