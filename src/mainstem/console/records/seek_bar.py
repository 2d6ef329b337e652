"""``SeekBar``: the form that says which records to show. It is in the page's address, so that it can be shared.

Used by one page.
"""

from __future__ import annotations

import datetime
from collections.abc import Awaitable, Callable
from urllib.parse import urlencode

from nicegui import ui

from mainstem.console.records.record_pages import RecordQuery

NEWEST, OLDEST, TIME, OFFSET, POSITION = "Newest", "Oldest", "Time", "Offset", "Position"
_CHIPS = (("5 min ago", 300), ("1 h ago", 3_600), ("24 h ago", 86_400))
_ALL = "All"
_PARTITIONS_LISTED_MAX = 1_000


class SeekBar:
    """The fields of the form; ``query`` is what they ask for."""

    def __init__(self, topic: str, address: dict[str, str], submit: Callable[[], Awaitable[None]]) -> None:
        self._topic = topic
        start = address.get("from", "")
        with ui.element("form").classes("bar") as form:
            form.on("submit.prevent", submit)
            self._order = ui.toggle([NEWEST, OLDEST, TIME, OFFSET, POSITION], value=_order_of(start))
            self._order.props('dense no-caps unelevated aria-label="Where to begin"').classes("choice")
            self._fields = {TIME: ui.input("Time (UTC)"), OFFSET: ui.input("Offset"), POSITION: ui.input("Position")}
            for name, field in self._fields.items():
                field.props(
                    "dense outlined" + (" type=datetime-local step=1 stack-label" if name == TIME else " clearable")
                )
                field.bind_visibility_from(self._order, "value", value=name)
                field.classes("grow")
                if self._order.value == name:
                    field.value = start.removesuffix("Z")[:19] if name == TIME else start
            with ui.element("div").classes("chips") as chips:
                chips.bind_visibility_from(self._order, "value", value=TIME)
                for label, seconds in _CHIPS:
                    ui.button(label, on_click=self._ago(seconds, submit)).props("flat dense no-caps")
            partition = address.get("partition", "")
            self._partition = ui.select([_ALL], value=_ALL, label="Partition").props("dense outlined options-dense")
            self._partition.classes("hops")
            if partition.isdecimal() and partition.isascii() and len(partition) < 10:
                self._partition.set_options([_ALL, str(int(partition))], value=str(int(partition)))
            self._key = ui.input("Key", value=address.get("key", "")).props("dense outlined clearable").classes("grow")
            ui.button("Show").props("unelevated no-caps type=submit")

    def set_partitions(self, number: int) -> None:
        """List the topic's partitions; called when their number is known."""
        names = [_ALL, *map(str, range(min(number, _PARTITIONS_LISTED_MAX)))]
        if self._partition.options != names:
            self._partition.set_options(names, value=self._partition.value if self._partition.value in names else _ALL)

    def reset(self) -> None:
        """Newest first, of every partition and key."""
        self._order.value, self._partition.value, self._key.value = NEWEST, _ALL, ""

    def query(self) -> RecordQuery:
        """Return what the fields ask for."""
        partition = None if self._partition.value == _ALL else int(str(self._partition.value))
        return RecordQuery(self._topic, self._start(), self._key.value or None, partition)

    def to_address(self) -> str:
        """The query part of the page's address."""
        asked = self.query()
        given = {"from": asked.start, "partition": asked.partition, "key": asked.key}
        query = urlencode({name: value for name, value in given.items() if value is not None}, safe="/:,")
        return f"?{query}" if query else ""

    def _start(self) -> str | None:
        order = str(self._order.value)
        if order == NEWEST:
            return None
        written = (self._fields[order].value or "").strip() if order in self._fields else ""
        return (f"{written}Z" if order == TIME and written and not written.endswith("Z") else written) or "earliest"

    def _ago(self, seconds: int, submit: Callable[[], Awaitable[None]]) -> Callable[[], Awaitable[None]]:
        async def go() -> None:
            then = datetime.datetime.now(datetime.UTC) - datetime.timedelta(seconds=seconds)
            self._fields[TIME].value = then.strftime("%Y-%m-%dT%H:%M:%S")
            await submit()

        return go


def _order_of(start: str) -> str:
    if start in ("", "latest"):
        return NEWEST
    if start == "earliest":
        return OLDEST
    if start.isdecimal():
        return OFFSET
    return POSITION if "/" in start else TIME
