"""``/console/topics/{topic}``: what a topic holds, its records, a form that appends one, and its configs."""

from __future__ import annotations

import time

from nicegui import ui

from mainstem.console.formats import NOTHING, count, rate, setting
from mainstem.console.frame import Page, page
from mainstem.console.gateway_client import GatewayClient
from mainstem.console.listing import total
from mainstem.console.parts import card, column, figure, position, search_field, set_rows, table, text
from mainstem.console.rates import Rates
from mainstem.console.records.append_form import AppendForm
from mainstem.console.records.record_browser import RecordBrowser
from mainstem.console.requests import ConsoleRequest, path


async def show(client: GatewayClient, topic: str) -> None:
    """Build the page."""
    with page(client, topic, "Topics", (("Topics", "/console/topics"),), "Topic") as this:
        shown = _Topic(this, topic, this.address())
        await this.fill(shown.refresh)
        this.every(shown.refresh)


class _Topic:
    """The state of the topic, refreshed while the page is open."""

    def __init__(self, this: Page, topic: str, address: dict[str, str]) -> None:
        self._page = this
        self._about = ConsoleRequest(path("topics", topic))
        self._rates = Rates()
        with card():
            with ui.element("div").classes("figures"):
                self._figures = [
                    figure(label) for label in ("Offsets", "Appended", "Partitions", "Cleanup", "Kept for")
                ]
            with ui.element("dl").classes("facts spaced"):
                text("End", "", "dt")
                with ui.element("dd"):
                    self._end = position("")
        form = AppendForm(this, topic)
        with card():
            with ui.element("details"):
                with ui.element("summary"):
                    ui.label("Configs").classes("card-title summary-title")
                place = ui.element("div").classes("bar")
                columns = (column("name", "Config", classes="breaks"), column("value", "Value", classes="mono breaks"))
                self._configs = table(columns, "name", "Configs")
                with place:
                    search_field("Find a config", self._configs)
        self._browser = RecordBrowser(this, topic, address)
        form.on_append(self._browser.refresh)
        self._browser.on_copy(form.fill)

    async def refresh(self) -> None:
        """Show how the topic is now."""
        about = await self._page.ask(self._about)
        rates = self._rates.look({"end": total(about["end"])}, time.monotonic())
        configs = about["configs"]
        words = (
            count(about["offsets"]),
            rate(rates["end"]),
            count(about["partitions"]),
            configs.get("cleanup.policy") or NOTHING,
            setting("retention.ms", configs.get("retention.ms")).partition(" (")[0],
        )
        for shown, word in zip(self._figures, words, strict=True):
            shown.text = word
        self._end.text = about["end"]
        set_rows(
            self._configs,
            [{"name": name, "value": setting(name, value)} for name, value in sorted(configs.items())],
        )
        await self._browser.look(about["beginning"], about["committed_end"])
