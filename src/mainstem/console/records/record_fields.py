"""``NewRecordFields``: the fields of one record to append: key, value, headers, partition, time, conditions.

``RecordDraft`` is what fills them, of a record that the gateway has shown. Used by one page.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from nicegui import ui

from mainstem.console.formats import pretty
from mainstem.console.parts import text
from mainstem.console.requests import ConsoleRequest, path

Document = dict[str, Any]

ANY: Final = "The key decides"
_ALWAYS, _KEY_IS_AT, _ENDS_AT = "Always", "Only if the key's last offset is", "Only if the partition ends at"
_PARTITIONS_LISTED_MAX: Final = 1_000
_HEADERS_MAX: Final = 100
_CHECKED_CHARS_MAX: Final = 200_000


class FieldError(ValueError):
    """A field that cannot be sent; the text says which and why."""


@dataclass(frozen=True, slots=True)
class RecordDraft:
    """The content of the fields. ``note``: what could not be taken over."""

    key: str = ""
    value: str = ""
    is_tombstone: bool = False
    headers: tuple[tuple[str, str], ...] = ()
    idempotency_key: str = ""
    note: str = ""

    @classmethod
    def of(cls, record: Mapping[str, Any], idempotency_key: str = "") -> RecordDraft:
        """The draft of a record as the gateway shows it."""
        value = record.get("value")
        headers = tuple((header["name"], header.get("value") or "") for header in record.get("headers", ()))
        lost = [name for name in ("key", "value") if f"{name}_base64" in record]
        lost += [f"header {header['name']}" for header in record.get("headers", ()) if "value_base64" in header]
        note = f"Not text, so left out: {', '.join(lost)}." if lost else ""
        is_tombstone = value is None and "value_base64" not in record
        shown = "" if value is None else pretty(value)
        return cls(record.get("key") or "", shown, is_tombstone, headers, idempotency_key, note)


class NewRecordFields:
    """The fields, and the request that they make."""

    def __init__(self, topic: str) -> None:
        self.topic = topic
        self._headers: list[tuple[ui.input, ui.input]] = []
        self._key = ui.input("Key (empty: none)").props("dense outlined").classes("field")
        self.value = ui.textarea("Value: JSON, or text").props("dense outlined autogrow").classes("field")
        self._json = text("", "quiet json-state")
        self.value.on_value_change(self._look_at_value)
        self._note = text("", "quiet", "p")
        self._note.set_visibility(False)
        self._tombstone = ui.checkbox("Tombstone: no value").props("dense")
        self._tombstone.on_value_change(lambda: self.value.set_enabled(not self._tombstone.value))
        self._table = ui.element("div").classes("header-rows").props('role="group" aria-label="Headers"')
        ui.button("Add a header", icon="add", on_click=self._add_header).props("flat dense no-caps type=button")
        with ui.element("details").classes("inner"):
            with ui.element("summary"):
                text("Partition, time, conditions")
            with ui.element("div").classes("bar"):
                self._partition = ui.select([ANY], value=ANY, label="Into partition").props(
                    "dense outlined options-dense"
                )
                self._partition.classes("order")
                self._time = ui.input("Time (UTC; empty: now)")
                self._time.props("dense outlined clearable stack-label type=datetime-local step=1")
            with ui.element("div").classes("bar") as self._conditions:
                self._expect = ui.select([_ALWAYS], value=_ALWAYS, label="Append").props("dense outlined options-dense")
                self._expect.classes("order")
                self._offset = ui.input("Offset (-1: no record)").props("dense outlined")
                self._offset.bind_visibility_from(self._expect, "value", backward=lambda value: value != _ALWAYS)
            self._idempotency = ui.input("Idempotency key: appended once").props("dense outlined clearable")
            self._idempotency.classes("field")
        self.look(0, {})

    def look(self, partitions: int, configs: Mapping[str, str | None]) -> None:
        """Offer what the topic has: its partitions, and the features that its configs turn on."""
        is_conditional = configs.get("mainstem.conditional.append") == "true"
        has_index = configs.get("mainstem.key.index") == "true"
        choices = [_ALWAYS, *([_KEY_IS_AT] if is_conditional and has_index else []), *([_ENDS_AT] * is_conditional)]
        for shown, options in (
            (self._partition, [ANY, *map(str, range(min(partitions, _PARTITIONS_LISTED_MAX)))]),
            (self._expect, choices),
        ):
            if shown.options != options:
                shown.set_options(options, value=shown.value if shown.value in options else options[0])
        self._conditions.set_visibility(is_conditional)
        self._idempotency.set_visibility((configs.get("mainstem.idempotency.window.ms") or "0") != "0")

    @property
    def can_be_repeated(self) -> bool:
        """Whether the topic has idempotency keys."""
        return bool(self._idempotency.visible)

    def fill(self, draft: RecordDraft) -> None:
        """Show a draft."""
        self._key.value, self.value.value, self._tombstone.value = draft.key, draft.value, draft.is_tombstone
        self._idempotency.value = draft.idempotency_key
        self._look_at_value()
        self._note.text = draft.note
        self._note.set_visibility(bool(draft.note))
        self._table.clear()
        self._headers.clear()
        for name, value in draft.headers[:_HEADERS_MAX]:
            self._add_header(name, value)

    def record(self) -> Document:
        """The record of the fields. Raises FieldError."""
        record: Document = {"value": None if self._tombstone.value else value_of(self.value.value or "")}
        if self._key.value:
            record["key"] = self._key.value
        headers = self._header_values()
        if headers:
            record["headers"] = headers
        if self._partition.value != ANY:
            record["partition"] = int(str(self._partition.value))
        if self._time.value:
            record["timestamp_ms"] = _time_ms(self._time.value)
        return record

    def request(self) -> ConsoleRequest:
        """The append of the record. Raises FieldError."""
        asked = path("topics", self.topic, "records")
        return ConsoleRequest(asked, {}, "POST", {"records": [self.record()]}, self._options())

    def _options(self) -> dict[str, str]:
        options: dict[str, str] = {}
        if self._expect.value != _ALWAYS:
            written = (self._offset.value or "").strip()
            if not written.removeprefix("-").isdecimal() or not written.isascii() or len(written) > 18:
                raise FieldError(f"Offset {written[:30]!r}: give a whole number, the offset to expect")
            if self._expect.value == _ENDS_AT:
                options["Mainstem-Expect-End"] = written
            elif int(written) < 0:
                options["If-None-Match"] = "*"
            else:
                options["If-Match"] = f'"{int(written)}"'
        if self.can_be_repeated and self._idempotency.value:
            if not self._idempotency.value.isascii() or not self._idempotency.value.isprintable():
                raise FieldError("Idempotency key: use printable ASCII characters")
            options["Idempotency-Key"] = self._idempotency.value
        return options

    def _look_at_value(self) -> None:
        """Say whether the value is JSON."""
        written = self.value.value or ""
        if written.lstrip()[:1] not in ("{", "[") or len(written) > _CHECKED_CHARS_MAX:
            self._json.text = ""
            return
        try:
            json.loads(written)
        except ValueError as error:
            self._json.text = f"Not JSON, so it would be appended as text: {error}"
        except RecursionError:
            self._json.text = "Nested too deeply for JSON here, so it would be appended as text."
        else:
            self._json.text = "✓ JSON"

    def _header_values(self) -> dict[str, str]:
        values: dict[str, str] = {}
        for name, value in self._headers:
            if not name.value and not value.value:
                continue
            if not name.value:
                raise FieldError(f"The header with the value {value.value[:50]!r} has no name")
            if name.value in values:
                raise FieldError(f"Two headers have the name {name.value[:50]!r}; over HTTP a record has one of each")
            values[name.value] = value.value or ""
        return values

    def _add_header(self, name: Any = "", value: str = "") -> None:
        if len(self._headers) >= _HEADERS_MAX:
            return
        with self._table, ui.element("div").classes("header-row") as row:
            of_name = ui.input("Header", value=name if isinstance(name, str) else "").props("dense outlined")
            of_value = ui.input("Its value", value=value).props("dense outlined").classes("grow")
            pair = (of_name, of_value)
            remove = ui.button(icon="close").props('flat round dense type=button aria-label="Remove the header"')
        self._headers.append(pair)

        def drop() -> None:
            self._headers.remove(pair)
            row.delete()

        remove.on_click(drop)


def value_of(written: str) -> Any:
    """The value that a text means: its JSON, or else the text itself."""
    try:
        return json.loads(written)
    except (ValueError, RecursionError):
        return written


def _time_ms(written: str) -> int:
    try:
        at = datetime.datetime.fromisoformat(written.removesuffix("Z")).replace(tzinfo=datetime.UTC)
    except ValueError as error:
        raise FieldError(f"Time {written[:40]!r}: write it as 2026-01-31T12:00:00") from error
    if at.timestamp() < 0:
        raise FieldError(f"Time {written[:40]!r}: a record's time is after 1970")
    return round(at.timestamp() * 1000)
