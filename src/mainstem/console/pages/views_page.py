"""``/console/views``: every view with its state, lag and last verification."""

from __future__ import annotations

import time

from nicegui import ui

from mainstem.console import listing
from mainstem.console.formats import NOTHING, ago
from mainstem.console.frame import page
from mainstem.console.gateway_client import GatewayClient
from mainstem.console.health.trends import Trends, trend_column
from mainstem.console.listing import Document
from mainstem.console.parts import card, column, empty, search_field, set_rows, table
from mainstem.console.records.new_letters import address_of
from mainstem.console.requests import path

_COLUMNS = (
    column("name", "View", href="address"),
    column("kind", "Kind"),
    column("topic", "Topic", href="topic_address", classes="wide"),
    column("state", "State", state=True),
    column("lag", "Lag", format="count"),
    trend_column("Lag"),
    column("dead_letters", "Dead letters", format="count", classes="wide", href="letters_address"),
    column("damaged_offsets", "Damaged", format="count", classes="wide"),
    column("verified", "Verified", classes="wide"),
)


async def show(client: GatewayClient) -> None:
    """Build the page."""
    with page(client, "Views", "Views") as this:
        with card() as listed:
            listed.classes("of-view")
            place = ui.element("div").classes("bar")
            shown = table(_COLUMNS, "name", "Views").classes("cards")
            with place:
                search_field("Find a view", shown)
            nothing = empty("No views here", "Views are declared in an App.", "mainstem run examples/flights.py")
            nothing.set_visibility(False)

        trends = Trends(this, "view/*/lag")
        this.begin(listing.VIEWS, trends.asked)

        async def refresh() -> None:
            await trends.refresh()
            rows = [_row(view) | trends.of(view["name"]) for view in await listing.views(this)]
            set_rows(shown, rows)
            shown.set_visibility(bool(rows))
            nothing.set_visibility(not rows)

        this.every(refresh)


def _row(view: Document) -> Document:
    verified = view["verified"]
    if verified is None:
        word = NOTHING
    else:
        word = ("✓ equal, " if verified["equal"] else "✕ differs, ") + ago(verified["time_ms"], time.time() * 1000)
    return {
        **{column["field"]: view.get(column["field"]) for column in _COLUMNS},
        "verified": word,
        "address": path("console", "views", view["name"]),
        "letters_address": address_of(view["dead_letter_topic"]),
        "topic_address": path("console", "topics", view["topic"]),
    }
