"""``/console/sql``: the SQL workbench over all views that answer SQL."""

from __future__ import annotations

from mainstem.console.frame import page
from mainstem.console.gateway_client import GatewayClient
from mainstem.console.workbench.workbench import Workbench

_REFRESH_S = 10.0


async def show(client: GatewayClient) -> None:
    """Build the page."""
    with page(client, "SQL", "SQL") as this:
        this.every(Workbench(this).refresh, _REFRESH_S)
