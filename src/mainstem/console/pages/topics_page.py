"""``/console/topics``: every topic with its offsets, rate and size."""

from __future__ import annotations

import asyncio

from nicegui import ui

from mainstem.console import listing
from mainstem.console.frame import Page, page
from mainstem.console.gateway_client import GatewayClient
from mainstem.console.health.trends import Trends, trend_column
from mainstem.console.parts import card, column, empty, search_field, set_rows, table
from mainstem.console.rates import Rates
from mainstem.console.requests import path
from mainstem.console.topic.create_topic import CreateTopicDialog

_COLUMNS = (
    column("name", "Topic", href="address"),
    column("offsets", "Offsets", format="count"),
    column("rate", "Rate", format="rate"),
    trend_column("Records in"),
    column("size_bytes", "Size", format="bytes", classes="wide"),
    column("partitions", "Partitions", format="count", classes="wide"),
    column("cleanup", "Cleanup", classes="wide"),
)

_SHOWN = ("name", "offsets", "size_bytes", "partitions", "cleanup", "internal")  # not the ends: they are long


async def show(client: GatewayClient, search: str) -> None:
    """Build the page."""
    with page(client, "Topics", "Topics") as this:
        _Topics(this, search)


class _Topics:
    """The table and its filters."""

    def __init__(self, this: Page, search: str) -> None:
        self._page = this
        self._rates = Rates()
        self._trends = Trends(this, "topic/*/records_in_per_s")
        self._rows: list[listing.Document] = []
        this.begin(listing.TOPICS, self._trends.asked)
        with card():
            with ui.element("div").classes("bar"):
                place = ui.element("div")
                self._internal = ui.checkbox("Internal topics", on_change=self._show).props("dense")
                create = CreateTopicDialog(this)
                ui.button("New topic …", on_click=create.open).props("unelevated no-caps dense").classes("actions")
            self._table = table(_COLUMNS, "name", "Topics").classes("cards")
            with place:
                search_field("Find a topic", self._table, search)
            self._empty = empty(
                "No topics yet", "“New topic” creates one, and so does the command.", "mainstem topics create NAME"
            )
            self._empty.set_visibility(False)
        this.every(self._refresh)

    async def _refresh(self) -> None:
        topics, _ = await asyncio.gather(listing.topics(self._page), self._trends.refresh())
        rates = self._rates.look(
            {topic["name"]: listing.total(topic["end"]) for topic in topics}, self._page.answered_s(listing.TOPICS)
        )
        self._rows = [
            {
                **{name: topic[name] for name in _SHOWN},
                **self._trends.of(topic["name"]),
                "rate": rates[topic["name"]],
                "address": path("console", "topics", topic["name"]),
            }
            for topic in sorted(topics, key=lambda topic: str(topic["name"]))
        ]
        self._show()

    def _show(self) -> None:
        rows = [row for row in self._rows if self._internal.value or not listing.is_own_topic(row)]
        set_rows(self._table, rows)
        self._table.set_visibility(bool(rows))
        self._empty.set_visibility(not rows)
