"""``GET /metrics``: what the log tells, passed on."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import ThreadingUnixStreamServer
from tempfile import TemporaryDirectory

import pytest
from scripts.metrics import METRICS

from mainstem.client.log import Log
from mainstem.gateway.access.limits import GatewayLimits
from mainstem.gateway.operation.log_metrics import LogMetrics
from mainstem.gateway.server.app import create_app
from mainstem.gateway.server.host_app import create_host_app
from mainstem.gateway.server.serving import listen_unix
from mainstem.gateway.views.forwarding import ForwardingBackend
from mainstem.pipelines.state import STATES_TOPIC
from mainstem.testing.embedded import EmbeddedBroker
from tests.gateway.served import listening_on, served
from tests.pipelines.states import STATE
from tests.views.hosting import Setting

NULLED = "mainstem_pipeline_nulled_values_total"
PAGE = b'# TYPE mainstem_info gauge\nmainstem_info{version="1"} 1\n'


class _Metrics(BaseHTTPRequestHandler):
    """Stands for the log's socket."""

    def do_GET(self) -> None:
        self.send_response(200 if self.path == "/metrics" else 404)
        self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
        self.end_headers()
        self.wfile.write(PAGE)

    def address_string(self) -> str:
        return "unix"

    def log_message(self, format: str, *arguments: object) -> None:
        """Nothing to standard error."""


@contextmanager
def metrics_socket() -> Iterator[Path]:
    with TemporaryDirectory(prefix="mm-") as directory:
        path = Path(directory) / "m.sock"
        with ThreadingUnixStreamServer(str(path), _Metrics) as server:
            thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
            thread.start()
            try:
                yield path
            finally:
                server.shutdown()
                thread.join(20)


@pytest.fixture
def nowhere() -> Iterator[Log]:
    """A log that is never asked."""
    with Log("127.0.0.1:1", timeout_s=0.5) as log:
        yield log


def test_the_logs_metrics_are_passed_on(nowhere: Log) -> None:
    with metrics_socket() as path:
        app = create_app(nowhere, ForwardingBackend([]), GatewayLimits(), LogMetrics(path))
        with served(app) as api:
            answer = api.get("/metrics")
    assert answer.status_code == 200
    assert answer.content.startswith(PAGE)
    assert "# TYPE mainstem_gateway_background_failures_total counter" in answer.text
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")


def test_what_pipelines_count_comes_behind_the_logs_metrics() -> None:
    with EmbeddedBroker() as broker, Log(broker.bootstrap, timeout_s=10.0) as log, metrics_socket() as path:
        log.create_topic(STATES_TOPIC, partitions=1)
        log.append_many(STATES_TOPIC, [STATE.to_record(), replace(STATE, pipeline="z", nulled_values={}).to_record()])
        with served(create_app(log, ForwardingBackend([]), GatewayLimits(), LogMetrics(path))) as api:
            page = api.get("/metrics").text
    labels = '{pipeline="totals",topic="orders",column="amount"}'
    assert page.endswith(f"# TYPE {NULLED} counter\n{NULLED}{labels} 3\n")


def test_a_log_that_does_not_tell_is_a_503(nowhere: Log, tmp_path: Path) -> None:
    app = create_app(nowhere, ForwardingBackend([]), GatewayLimits(), LogMetrics(tmp_path / "m.sock"))
    with served(app) as api:
        assert api.get("/metrics").status_code == 503


def test_without_a_socket_there_are_no_metrics(nowhere: Log) -> None:
    with served(create_app(nowhere, ForwardingBackend([]), GatewayLimits())) as api:
        assert api.get("/metrics").status_code == 404


def test_how_each_view_is_comes_behind_the_logs_metrics(mainstem_log: Log, tmp_path: Path) -> None:
    setting = Setting(mainstem_log, tmp_path / "views", ("kv", "search"))
    with (
        metrics_socket() as path,
        setting.host() as host,
        TemporaryDirectory(prefix="vh-") as directory,
        listening_on(create_host_app(host), listen_unix(Path(directory) / "s")),
    ):
        position = mainstem_log.append(setting.topic, b"no json", key="1")
        for view in ("kv", "search"):
            host.wait(view, lambda status: status.position.covers(position))
        app = create_app(mainstem_log, ForwardingBackend([Path(directory) / "s"]), GatewayLimits(), LogMetrics(path))
        with served(app) as api:
            page = api.get("/metrics").text
    assert page.startswith(PAGE.decode())
    for view, kind in (("kv", "key-value"), ("search", "search")):
        labels = f'{{view="{view}",kind="{kind}",topic="{setting.topic}"}}'
        for line in ("up", "dead_letters"):
            assert f"mainstem_view_{line}{labels} 1\n" in page
        for line in ("lag_offsets", "damaged_offsets"):
            assert f"mainstem_view_{line}{labels} 0\n" in page
    of_gateway = set(re.findall("^# TYPE (\\S+)", page, re.MULTILINE))
    assert of_gateway <= METRICS.keys()
