"""``/console/topics/{topic}``: a topic in tabs: records, partitions, consumers, schema, configs, about."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final, Protocol

from nicegui import ui

from mainstem.console.frame import Page, page
from mainstem.console.gateway_client import GatewayClient
from mainstem.console.records.append_form import AppendForm
from mainstem.console.records.record_browser import RecordBrowser
from mainstem.console.requests import ConsoleRequest, path
from mainstem.console.topic.about_tab import AboutTab
from mainstem.console.topic.configs_tab import ConfigsTab
from mainstem.console.topic.consumers_tab import ConsumersTab
from mainstem.console.topic.partitions_tab import PartitionsTab
from mainstem.console.topic.schema_tab import SchemaTab
from mainstem.console.topic.topic_actions import TopicActions
from mainstem.console.topic.topic_header import TopicHeader
from mainstem.console.topic.topic_tabs import RECORDS, show_tabs, tab_of


class TopicTab(Protocol):
    """A tab of the page."""

    async def refresh(self, about: dict[str, Any]) -> None:
        """Show what there is now; ``about`` is the gateway's description of the topic."""
        ...


_TABS: Final[dict[str, Callable[[Page, str], TopicTab]]] = {
    "partitions": PartitionsTab,
    "consumers": ConsumersTab,
    "schema": SchemaTab,
    "configs": ConfigsTab,
    "about": AboutTab,
}
# Consumers: the gateway asks for the offsets of each group of the log.
_REFRESH_S: Final = {RECORDS: 2.0, "partitions": 3.0, "consumers": 15.0, "schema": 10.0, "configs": 10.0, "about": 3.0}


async def show(client: GatewayClient, topic: str) -> None:
    """Build the page."""
    with page(client, topic, "Topics", (("Topics", "/console/topics"),), "Topic") as this:
        address = this.address()
        tab = tab_of(address)
        about, header = ConsoleRequest(path("topics", topic)), TopicHeader()
        later: list[Callable[[], Awaitable[None]]] = []

        async def refresh() -> None:
            for each in later:
                await each()

        with ui.element("div").classes("tab-row"):
            show_tabs(topic, tab)
            TopicActions(this, topic, lambda: this.guarded(refresh))
        shown = _Records(this, topic, address) if tab == RECORDS else _TABS[tab](this, topic)

        async def show_all() -> None:
            described = await this.ask(about)
            header.show(described)
            await shown.refresh(described)

        later.append(show_all)
        await this.fill(refresh)
        this.every(refresh, _REFRESH_S[tab])


class _Records:
    """The records, and the form that appends one."""

    def __init__(self, this: Page, topic: str, address: dict[str, str]) -> None:
        form = AppendForm(this, topic)
        self._browser = RecordBrowser(this, topic, address)
        form.on_append(self._browser.refresh)
        self._browser.on_copy(form.fill)

    async def refresh(self, about: dict[str, Any]) -> None:
        """Look for new records."""
        await self._browser.look(about["beginning"], about["committed_end"])
