"""What the tests of the console look at: a log, a view host, what Spark would tell, and the console.

The log and the view host run in the test's process, the gateway with its console in one of its own, as in a node. Names
begin with ``con-`` so that no other test has them.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

import mainstem as ms
from mainstem.client.log import Log
from mainstem.gateway.server.host_app import create_host_app
from mainstem.gateway.server.serving import listen_unix
from mainstem.model import Position
from mainstem.pipelines.deploy import deploy
from mainstem.pipelines.progress import PROGRESS_TOPIC, Progress
from mainstem.pipelines.state import STATES_TOPIC, Counts, MicroBatch, PipelineState, Status
from mainstem.testing.embedded import EmbeddedBroker
from mainstem.views.host.host import ViewHost
from mainstem.views.read_options import ReadOptions
from mainstem.views.requests import GetQuery, MetricsQuery, NeighborsQuery, Request, SearchQuery, SqlQuery
from tests.gateway.served import listening_on
from tests.support.own_environment import own_environment

AIRPORTS = ("EWR", "LGA", "JFK", "IAH", "MIA", "BQN", "ATL", "ORD", "FLL", "IAD")
CARRIERS = ("UA", "AA", "B6", "DL", "EV")
FLIGHTS = 500
ANYTHING: Mapping[str, Request] = {
    "con-by-key": GetQuery("F0001"),
    "con_table": SqlQuery("SELECT 1"),
    "con-search": SearchQuery("EWR"),
    "con-figures": MetricsQuery(),
    "con-routes": NeighborsQuery("EWR"),
    "con_lake": SqlQuery("SELECT 1"),
    "con_sink": GetQuery("F0001"),
}


@dataclass(frozen=True)
class Stage:
    """Where the parts are. ``flights`` is the position after what was loaded."""

    url: str
    log: Log
    views: Path
    host: ViewHost
    flights: Position
    gateway_pid: int
    sink: Path


def declared(sink: Path) -> ms.App:
    """An App with a view of each kind over flights. ``sink``: the database of the one that is in a foreign database."""
    app = ms.App("con-flights")
    schema = "flight STRING NOT NULL, carrier STRING, origin STRING, dest STRING, delay INT"
    flights = app.topic("con-flights", schema=schema, key="flight", partitions=2)
    app.topic("con-carriers", schema="carrier STRING NOT NULL, flights INT", key="carrier", compacted=True)
    app.topic("con-live", schema="id STRING NOT NULL", key="id", partitions=1)
    features = {
        "mainstem.idempotency.window.ms": "86400000",
        "mainstem.key.index": "true",
        "mainstem.conditional.append": "true",
    }
    dots = app.topic("con-dots", schema="id STRING NOT NULL", key="id", partitions=1, configs=features)
    app.view("con-dots", dots, ms.KeyValue())
    app.view("con-by-key", flights, ms.KeyValue())
    app.view("con_table", flights, ms.SQL())
    app.view("con-search", flights, ms.Search("origin", "dest", "carrier"))
    app.view("con-figures", flights, ms.Metrics(by="carrier", values="delay"))
    app.view("con_lake", flights, ms.Lake())
    app.view("con-routes", flights, ms.Graph(source="origin", target="dest"))
    app.sink(flights, ms.SQLite(sink, table="con_sink"))
    return app


def flight(number: int) -> dict[str, object]:
    """One of the flights, the same each time."""
    return {
        "flight": f"F{number:04d}",
        "carrier": CARRIERS[number % len(CARRIERS)],
        "origin": AIRPORTS[number % 3],
        "dest": AIRPORTS[3 + number % 7],
        "delay": number % 61 - 10,
    }


@contextmanager
def staged(directory: Path) -> Iterator[Stage]:
    """All of it, running."""
    with EmbeddedBroker() as broker, Log(broker.bootstrap, timeout_s=20.0) as log:
        app = declared(directory / "shop.db")
        deploy(app, log)
        position = log.append_many("con-flights", [(f"F{n:04d}", flight(n)) for n in range(FLIGHTS)])
        derived = log.append_many("con-carriers", [(name, {"carrier": name, "flights": 100}) for name in CARRIERS])
        tell_of_pipeline(log, position, derived)
        with ViewHost(tuple(app.views.values()), broker.bootstrap, directory) as host:
            for view, question in ANYTHING.items():
                host.query(view, question, ReadOptions(position, 120.0))
            with listening_on(create_host_app(host), listen_unix(directory / "s")):
                with gateway(broker.bootstrap, directory / "s") as (url, pid):
                    register_schemas(url)
                    yield Stage(url, log, directory, host, position, pid, directory / "shop.db")


def register_schemas(url: str) -> None:
    """Two versions of the values of ``con-orders`` with a reference, and its keys in Protobuf."""
    item = {"type": "record", "name": "Item", "fields": [{"name": "sku", "type": "string"}]}
    fields: list[dict[str, object]] = [{"name": "id", "type": "string"}, {"name": "item", "type": "Item"}]
    more = {"name": "note", "type": "string", "default": ""}
    references = [{"name": "Item", "subject": "con-item", "version": 1}]
    for subject, schema in (
        ("con-item", {"schema": json.dumps(item)}),
        *(
            ("con-orders-value", {"schema": json.dumps(order), "references": references})
            for order in (
                {"type": "record", "name": "Order", "fields": fields},
                {"type": "record", "name": "Order", "fields": [*fields, more]},
            )
        ),
        ("con-orders-key", {"schema": 'syntax = "proto3"; message Id { string id = 1; }', "schemaType": "PROTOBUF"}),
    ):
        httpx.post(f"{url}/registry/subjects/{subject}/versions", json=schema, timeout=20).raise_for_status()


@contextmanager
def gateway(
    bootstrap: str,
    *view_hosts: Path,
    tokens: Path | None = None,
    read_only: bool = False,
    module: str = "mainstem.console.process",
) -> Iterator[tuple[str, int]]:
    """The gateway with its console in a process of its own: its address and process id."""
    argv = [sys.executable, "-m", module, "--stop-with-parent"]
    argv += ["--bootstrap", bootstrap, "--http", "127.0.0.1:0"]
    if tokens is not None:
        argv += ["--tokens", str(tokens)]
    if read_only:
        argv += ["--console-read-only"]
    for socket in view_hosts:
        argv += ["--view-host", str(socket)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    process = subprocess.Popen(argv, **pipes, text=True, env=own_environment())
    try:
        assert process.stdout is not None
        line = process.stdout.readline().strip()
        assert line.startswith("ready: http "), line
        yield f"http://{line.removeprefix('ready: http ')}", process.pid
    finally:
        process.kill()
        process.communicate(timeout=20)


def tell_of_pipeline(log: Log, source: Position, sink: Position) -> None:
    """What the driver of a pipeline tells through the log."""
    now_ms = int(time.time() * 1000)
    batches = tuple(
        MicroBatch(
            n, now_ms - (9 - n) * 1_000, 50, {"addBatch": 200 + 30 * n, "walCommit": 40, "triggerExecution": 260}
        )
        for n in range(10)
    )
    state = PipelineState(
        "con-count",
        "con-flights",
        Status.WAITING,
        "1 second",
        now_ms - 60_000,
        now_ms + 3_600_000,
        Counts(10, FLIGHTS, 5, 0, 5),
        {"con-flights": {"delay": 1234}},
        250.0,
        recent=batches,
    )
    progress = Progress("con-count", 9, source, sink, Position(), ("con-flights",), ("con-carriers",))
    for topic, (key, value) in ((PROGRESS_TOPIC, progress.to_record()), (STATES_TOPIC, state.to_record())):
        log.create_topic(topic, partitions=1, configs={"cleanup.policy": "compact"}, exist_ok=True)
        log.append(topic, value, key=key)
