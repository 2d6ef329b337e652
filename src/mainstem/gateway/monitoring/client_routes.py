"""``GET /clients``: the metrics that clients push to the log (KIP-714).

They are read from the log's metrics page, which bounds them. Without the log's socket, as in front of Apache Kafka,
nothing is known of clients.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Final

from fastapi import Query
from pydantic import Field
from starlette.responses import Response

from mainstem.gateway.access.access_rules import READ_ALL
from mainstem.gateway.access.routes import Routes
from mainstem.gateway.http.description import success
from mainstem.gateway.http.json_responses import json_response
from mainstem.gateway.http.queries import NoQuery
from mainstem.gateway.monitoring.snapshots import samples_in
from mainstem.gateway.operation.log_metrics import LogMetrics

_PREFIX: Final = "mainstem_client_"
_OF_CLIENT: Final = ("instance", "client_id")


class ClientsQuery(NoQuery):
    """Which clients."""

    instance: str | None = Field(
        None, max_length=100, description="the instance id of one client, whose metrics the answer then has"
    )


def client_router(metrics: LogMetrics | None) -> Routes:
    """The route; ``metrics`` is None where the log's socket is not known."""
    router = Routes("operation")

    @router.declare(
        "GET", "/clients", "The clients that push metrics to the log", READ_ALL, success("The clients", "Object")
    )
    async def list_clients(query: Annotated[ClientsQuery, Query()]) -> Response:
        page = b"" if metrics is None else bytes((await metrics.page()).body)
        found = await asyncio.to_thread(clients_in, page)
        if query.instance is None:
            clients = [{**client, "metrics": len(client["metrics"])} for client in found.values()]
        else:
            clients = [found[query.instance]] if query.instance in found else []
        return json_response({"is_known": metrics is not None, "clients": clients})

    return router


def clients_in(page: bytes) -> dict[str, dict[str, Any]]:
    """The clients in a metrics page by their instance ids, each with its metrics."""
    found: dict[str, dict[str, Any]] = {}
    for name, labels, value in _samples(page):
        client = found.setdefault(labels["instance"], {each: labels[each] for each in _OF_CLIENT} | {"metrics": []})
        own = {label: text for label, text in labels.items() if label not in _OF_CLIENT}
        number = value if math.isfinite(value) else None
        client["metrics"].append({"name": name.removeprefix(_PREFIX), "labels": own, "value": number})
    return found


def _samples(page: bytes) -> Iterator[tuple[str, Mapping[str, str], float]]:
    for name, samples in samples_in(page, lambda name: name.startswith(_PREFIX)).items():
        for labels, value in samples:
            if all(each in labels for each in _OF_CLIENT):
                yield name, labels, value
