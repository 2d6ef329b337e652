"""``/console/config``: how the gateway and the brokers are set."""

from __future__ import annotations

from typing import Any

from nicegui import ui

from mainstem.console.formats import NOTHING
from mainstem.console.formats import setting as setting_in_words
from mainstem.console.frame import page
from mainstem.console.gateway_client import GatewayClient
from mainstem.console.parts import card, column, search_field, set_rows, table, text
from mainstem.console.requests import ConsoleRequest

_CONFIG = ConsoleRequest("/config")
_COLUMNS = (
    column("name", "Setting", classes="breaks"),
    column("value", "Value", classes="mono breaks"),
    column("source", "From", classes="wide"),
    column("documentation", "What it does", classes="wide prose"),
)
_REFRESH_S = 30.0


async def show(client: GatewayClient) -> None:
    """Build the page."""
    with page(client, "Configuration", "Config") as this:
        with card("Gateway"):
            gateway = ui.element("dl").classes("facts")
        brokers = ui.element("div")

        async def refresh() -> None:
            config = await this.ask(_CONFIG)
            gateway.clear()
            with gateway:
                for name, value in {"version": config["version"], **config["gateway"]}.items():
                    text(name.replace("_", " "), "", "dt")
                    text(_word(value), "", "dd")
            brokers.clear()
            with brokers:
                for broker in config["brokers"]:
                    _show_broker(broker)

        this.every(refresh, _REFRESH_S)


def _show_broker(broker: dict[str, Any]) -> None:
    with card(f"Broker {broker['id']}, {broker['address']}"):
        place = ui.element("div").classes("bar")
        shown = table(_COLUMNS, "name", "Settings").classes("cards")
        with place:
            search_field("Find a setting", shown)
        settings = sorted(broker["configs"], key=lambda each: "default" in str(each["source"]).lower())  # changed first
        set_rows(shown, [{**setting, "value": _setting(setting)} for setting in settings])


def _setting(setting: dict[str, Any]) -> str:
    return "secret" if setting.get("sensitive") else setting_in_words(str(setting["name"]), setting["value"])


def _word(value: Any) -> str:
    if value is None or value in ("", {}, []):
        return NOTHING
    if isinstance(value, list):
        return ", ".join(map(str, value))
    if isinstance(value, dict):
        return ", ".join(f"{name}={each}" for name, each in value.items())
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
