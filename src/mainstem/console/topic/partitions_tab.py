"""``PartitionsTab``: the partitions of a topic, with a bar that shows how evenly they are filled. Used by one page."""

from __future__ import annotations

from typing import Any, Final

from nicegui import ui

from mainstem.console.formats import count, moment
from mainstem.console.frame import Page
from mainstem.console.parts import card, column, set_rows, table, text
from mainstem.console.requests import ConsoleRequest, path

_SHOWN_MAX: Final = 1_000
_COLUMNS = (
    column("partition", "Partition"),
    column("beginning", "Begins", format="count"),
    column("end", "Ends", format="count"),
    column("committed_end", "Committed", format="count"),
    column("offsets", "Offsets", format="count"),
    column("size_bytes", "Size", format="bytes"),
    column("share", "Share"),
    column("leader", "Leader"),
    column("newest", "Newest record (UTC)"),
)
_SHARE = """
<q-td :props="props" :class="props.col.cls" :data-label="props.col.label">
  <span class="share" v-if="props.value !== null">
    <span class="share-bar" aria-hidden="true"><span :style="{ width: props.row.bar + '%' }"></span></span>
    <span>{{ props.value.toFixed(1) }} %</span>
  </span>
  <span v-else>–</span>
</q-td>
"""


class PartitionsTab:
    """The table of partitions, a thousand at a time."""

    def __init__(self, page: Page, topic: str) -> None:
        self._page = page
        self._path = path("topics", topic, "partitions")
        self._after: int | None = None
        with card("Partitions"):
            self._summary = text("", "quiet", "p")
            self._table = table(_COLUMNS, "partition", "Partitions").classes("cards")
            self._table.add_slot("body-cell-share", _SHARE)
            with ui.element("div").classes("bar") as self._pager:
                self._first = ui.button("First partitions", on_click=self._go_first).props("flat dense no-caps")
                self._following = ui.button("Next partitions", on_click=self._go_on).props("flat dense no-caps")
            self._pager.set_visibility(False)
        self._next: int | None = None

    async def refresh(self, about: dict[str, Any]) -> None:
        """Show the partitions as they are now."""
        del about
        found = await self._page.ask(ConsoleRequest(self._path, {"after": self._after, "limit": _SHOWN_MAX}))
        partitions = found["partitions"]
        self._next = found["next"]
        set_rows(self._table, rows_of(partitions))
        self._summary.text = summary_of(partitions, found["count"])
        self._pager.set_visibility(found["count"] > len(partitions))
        self._first.set_enabled(self._after is not None)
        self._following.set_enabled(self._next is not None)

    async def _go_first(self) -> None:
        self._after = None
        await self._page.guarded(lambda: self.refresh({}))

    async def _go_on(self) -> None:
        self._after = self._next
        await self._page.guarded(lambda: self.refresh({}))


def rows_of(partitions: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows of the table: each with its share of the bytes, or of the offsets where no broker tells bytes."""
    weights = weights_of(partitions)
    whole, largest = sum(weights), max(weights, default=0)
    return [
        {
            "partition": each["partition"],
            **{name: each[name] for name in ("beginning", "end", "committed_end", "offsets", "size_bytes")},
            "share": round(100 * weight / whole, 1) if whole else None,
            "bar": round(100 * weight / largest) if largest else 0,
            "leader": each.get("error") or f"{each['leader']} (epoch {each['leader_epoch']})",
            "newest": moment(each["newest_ms"]),
        }
        for each, weight in zip(partitions, weights, strict=True)
    ]


def weights_of(partitions: list[dict[str, Any]]) -> list[int]:
    """The bytes of each partition; its offsets where the bytes of one are unknown."""
    name = "size_bytes" if all(each["size_bytes"] is not None for each in partitions) else "offsets"
    return [int(each[name] or 0) for each in partitions]


def summary_of(partitions: list[dict[str, Any]], number: int) -> str:
    """How evenly the partitions are filled, how many transactions hold back, and which partitions are shown."""
    weights = weights_of(partitions)
    parts: list[str] = []
    if len(partitions) < number and partitions:
        parts.append(f"Partitions {partitions[0]['partition']:,} to {partitions[-1]['partition']:,} of {number:,}.")
    if len(weights) > 1 and any(weights):
        whole: int = sum(weights)
        ratio = max(weights) * len(weights) / whole
        parts.append(f"The largest holds {ratio:.1f} times the average.")
    held = sum(int(each["end"] or 0) - int(each["committed_end"] or 0) for each in partitions)
    if held:
        parts.append(f"{count(held)} offsets at the ends belong to open transactions.")
    if broken := [each["partition"] for each in partitions if "error" in each]:
        parts.append(f"Not available: {', '.join(map(str, broken[:10]))}{' …' if len(broken) > 10 else ''}.")
    return " ".join(parts)
