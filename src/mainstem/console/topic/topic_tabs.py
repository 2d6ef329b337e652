"""The tabs of a topic's page. A tab is a link: its name is in the page's address, so that it can be sent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from nicegui import ui

from mainstem.console.parts import link
from mainstem.console.requests import path

RECORDS: Final = "records"
TABS: Final = {
    RECORDS: "Records",
    "partitions": "Partitions",
    "consumers": "Consumers",
    "schema": "Schema",
    "configs": "Configs",
    "about": "About",
}


def tab_of(address: Mapping[str, str]) -> str:
    """The tab that an address names; the records without one."""
    tab = address.get("tab", "")
    return tab if tab in TABS else RECORDS


def tab_address(topic: str, tab: str) -> str:
    """The address of a tab."""
    return path("console", "topics", topic) + ("" if tab == RECORDS else f"?tab={tab}")


def show_tabs(topic: str, shown: str) -> None:
    """Build the row of tabs."""
    with ui.element("nav").props('aria-label="Parts of the topic"').classes("tabs"):
        for tab, label in TABS.items():
            made = link(label, tab_address(topic, tab), "tab here" if tab == shown else "tab")
            if tab == shown:
                made.props["aria-current"] = "page"
