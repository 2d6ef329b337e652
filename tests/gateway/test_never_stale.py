"""SIGKILL of a view host again and again, seen over HTTP: an answer holds what was appended before it, or is an error.

A client for each kind of view appends a flight, reads it back with ``at_least``, and reads once more without. All the
while the host's process is killed and started anew. The position that a client sees never goes back.

Each flight has a destination of its own, and the faster a client is, the more flights it makes before the slowest one
has its answers. So no view may hold something for each destination that is bounded: the metrics view counts by origin.
Other clients have filled the topic beyond what it could count apart before the first answer.
"""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from mainstem.client.log import Log
from mainstem.gateway.access.limits import GatewayLimits
from mainstem.gateway.server.app import create_app
from mainstem.gateway.views.forwarding import ForwardingBackend
from mainstem.model import Position
from mainstem.pipelines.kinds import Metrics
from tests.gateway.served import served
from tests.views.hosting import DDL

KILLS = 3
ANSWERS_A_LIFE = 2
PATIENCE_S = 120.0
TOPIC = "never-stale"
APP = f"""
import mainstem as ms
from tests.views.hosting import KINDS
kinds = {{**KINDS, "metrics": ms.Metrics(by=("origin",), values=("miles",))}}
app = ms.App("never-stale")
flights = app.topic({TOPIC!r}, {DDL!r})
for name, kind in kinds.items():
    app.view(name, flights, kind)
"""
Rows = list[dict[str, Any]]


def by_key(http: httpx.Client, view: str, number: int, query: dict[str, Any]) -> httpx.Response:
    return http.get(f"/views/{view}/keys/{view}", params=query)


def by_sql(http: httpx.Client, view: str, number: int, query: dict[str, Any]) -> httpx.Response:
    select = {"query": f"SELECT miles FROM {view} WHERE _key = '{view}'"}
    return http.post(f"/views/{view}/sql", params=query, json=select)


def by_words(http: httpx.Client, view: str, number: int, query: dict[str, Any]) -> httpx.Response:
    return http.get(f"/views/{view}/search", params={"q": f"_key:{view}", **query})


def by_node(http: httpx.Client, view: str, number: int, query: dict[str, Any]) -> httpx.Response:
    return http.get(f"/views/{view}/neighbors", params={"node": view, **query})


def by_label(http: httpx.Client, view: str, number: int, query: dict[str, Any]) -> httpx.Response:
    return http.get(f"/views/{view}/metrics", params={"label": f"origin={view}", "over": "origin", **query})


def by_count(http: httpx.Client, view: str, number: int, query: dict[str, Any]) -> httpx.Response:
    select = {"query": f"SELECT count(*) AS flights FROM {view} WHERE origin = '{view}'"}
    return http.post(f"/views/{view}/sql", params=query, json=select)


def miles(rows: Rows) -> int:
    return int(rows[0]["miles"])


def flights(rows: Rows) -> int:
    return int(rows[0]["flights"])


def records(rows: Rows) -> int:
    return int(rows[0]["records"])


def node(rows: Rows) -> int:
    return int(rows[0]["node"])


# How each kind is asked, and which flight its answer shows. A new kind joins with a line of its own.
ASKED: Mapping[str, tuple[Callable[..., httpx.Response], Callable[[Rows], int]]] = {
    "kv": (by_key, miles),
    "sql": (by_sql, miles),
    "search": (by_words, miles),
    "graph": (by_node, node),
    "fold": (by_key, flights),
    "lake": (by_count, flights),
    "metrics": (by_label, records),
}


class Reader:
    """A client that writes and reads back, in a thread of its own, until it is told to stop or finds a fault."""

    def __init__(self, view: str, log: Log, http: httpx.Client, answered: threading.Condition) -> None:
        self.view = view
        self.answers = 0
        self.faults: list[str] = []
        self._log = log
        self._http = http
        self._answered = answered
        self._stopping = threading.Event()
        self._seen = Position()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive()

    def _run(self) -> None:
        number = 0
        while not self._is_over:
            number += 1
            flight = {"origin": self.view, "dest": str(number), "miles": number}
            position = self._log.append(TOPIC, flight, key=self.view)
            while not self._is_over and not self._reads(number, position):
                self._stopping.wait(0.05)

    @property
    def _is_over(self) -> bool:
        return self._stopping.is_set() or bool(self.faults)

    def _reads(self, number: int, position: Position) -> bool:
        """Whether the host answered, with ``at_least`` and without; what is wrong with an answer is a fault."""
        ask, shown = ASKED[self.view]
        for query in ({"at_least": str(position), "timeout": 10}, {}):
            answer = ask(self._http, self.view, number, query)
            if answer.status_code in (503, 504):
                return False
            document = answer.json()
            reached = Position.parse(document.get("position", ""))
            fresh = answer.status_code == 200 and reached.covers(position) and reached.covers(self._seen)
            if not fresh or not document["rows"] or shown(document["rows"]) != number:
                with self._answered:
                    self.faults.append(f"{self.view}: flight {number} at {position}, seen {self._seen}: {answer.text}")
                    self._answered.notify_all()
                return False
            self._seen = reached
        with self._answered:
            self.answers += 1
            self._answered.notify_all()
        return True


@contextmanager
def host(app: Path, bootstrap: str, directory: Path) -> Iterator[None]:
    """A view host's process, killed at the end."""
    argv = [
        sys.executable,
        "-m",
        "mainstem.gateway.server.view_host_process",
        "--app",
        str(app),
        "--bootstrap",
        bootstrap,
    ]
    argv += ["--data", str(directory), "--socket", str(directory / "s")]
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("ready:")
        yield
    finally:
        process.kill()
        process.communicate(timeout=30)


def test_no_answer_is_stale_however_often_the_host_is_killed(mainstem_log: Log, tmp_path: Path) -> None:
    (app := tmp_path / "app.py").write_text(APP)
    mainstem_log.create_topic(TOPIC, partitions=1)
    others = [(f"other-{n}", {"origin": "a", "dest": str(n), "miles": n}) for n in range(Metrics().labels_max + 1)]
    mainstem_log.append_many(TOPIC, others)
    answered = threading.Condition()
    with served(create_app(mainstem_log, ForwardingBackend([tmp_path / "s"]), GatewayLimits())) as http:
        readers = [Reader(view, mainstem_log, http, answered) for view in ASKED]
        for _ in range(KILLS):
            goals = {reader: reader.answers + ANSWERS_A_LIFE for reader in readers}
            with host(app, mainstem_log.bootstrap, tmp_path), answered:
                answered.wait_for(
                    lambda goals=goals: all(r.answers >= goal or r.faults for r, goal in goals.items()),  # type: ignore[misc]
                    PATIENCE_S,
                )
        for reader in readers:
            reader.stop()
    assert [fault for reader in readers for fault in reader.faults] == []
    assert all(reader.answers >= KILLS * ANSWERS_A_LIFE for reader in readers)
