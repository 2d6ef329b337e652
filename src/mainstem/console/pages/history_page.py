"""``/console/history``: charts of the last minutes, hours or day."""

from __future__ import annotations

from mainstem.console.frame import page
from mainstem.console.gateway_client import GatewayClient
from mainstem.console.health.history_charts import CHARTS
from mainstem.console.health.history_panel import HistoryPanel


async def show(client: GatewayClient) -> None:
    """Build the page."""
    with page(client, "History", "History") as this:
        HistoryPanel(this, CHARTS, "/console/history", "15m")
