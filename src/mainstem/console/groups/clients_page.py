"""``/console/clients``: the metrics that Kafka clients push to the log (KIP-714)."""

from __future__ import annotations

from typing import Any

from nicegui import ui

from mainstem.console.frame import Page, page
from mainstem.console.gateway_client import GatewayClient
from mainstem.console.parts import card, column, empty, search_field, set_rows, table
from mainstem.console.requests import ConsoleRequest

_SUBSCRIBE = "kafka-client-metrics.sh --bootstrap-server HOST:PORT --alter --name all --metrics '*' --interval 10000"
_CLIENTS = (
    column("client_id", "Client", href="address", classes="breaks"),
    column("instance", "Instance", classes="mono cut"),
    column("metrics", "Metrics", format="count"),
)
_METRICS = (
    column("name", "Metric", classes="breaks"),
    column("labels", "Of", classes="breaks"),
    column("value", "Value", classes="mono"),
)


async def show(client: GatewayClient, instance: str) -> None:
    """Build the page; with ``instance``, the metrics of this client."""
    with page(client, "Clients", "Groups") as this:
        _Clients(this, instance)


class _Clients:
    """The table of clients, or of one client's metrics."""

    def __init__(self, this: Page, instance: str) -> None:
        self._page = this
        self._request = ConsoleRequest("/clients", {"instance": instance} if instance else {})
        self._is_one = bool(instance)
        with card("Metrics that the client has pushed" if instance else ""):
            with ui.element("div").classes("bar"):
                place = ui.element("div")
            columns, what = (_METRICS, "Metrics") if instance else (_CLIENTS, "Clients")
            self._table = table(columns, "key", what).classes("cards")
            with place:
                search_field("Find a metric" if instance else "Find a client", self._table)
            self._unknown = empty(
                "The log does not say what clients push",
                "Mainstem's log keeps the metrics of clients. Apache Kafka hands them to a plug-in of its own.",
            )
            self._nothing = empty(
                "This client pushes no metrics now" if instance else "No client pushes metrics",
                "Clients push once the log subscribes to their metrics, at the next time that they ask:",
                _SUBSCRIBE,
            )
            for each in (self._unknown, self._nothing):
                each.set_visibility(False)
        this.every(self._refresh)

    async def _refresh(self) -> None:
        answer = await self._page.ask(self._request)
        clients: list[dict[str, Any]] = answer["clients"]
        rows = (
            [_metric(each) for one in clients for each in one["metrics"]] if self._is_one else list(map(_row, clients))
        )
        set_rows(self._table, rows)
        self._table.set_visibility(bool(rows))
        self._nothing.set_visibility(not rows and answer["is_known"])
        self._unknown.set_visibility(not answer["is_known"])


def _row(client: dict[str, Any]) -> dict[str, Any]:
    address = ConsoleRequest("/console/clients", {"instance": client["instance"]}).target
    return {**client, "key": client["instance"], "address": address}


def _metric(metric: dict[str, Any]) -> dict[str, Any]:
    labels = ", ".join(f"{name} {value}" for name, value in metric["labels"].items())
    value = "" if metric["value"] is None else f"{metric['value']:,.6g}"
    return {"key": f"{metric['name']} {labels}", "name": metric["name"], "labels": labels, "value": value}
