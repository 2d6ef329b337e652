"""The page of clients: what librdkafka pushes to a node's log is there, and what to do is said where nothing is."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from confluent_kafka import Producer

from mainstem.client.log import Log
from mainstem.client.wire.cluster.cluster import WireClient
from mainstem.gateway.monitoring.client_routes import clients_in
from mainstem.node.stack import Stack
from mainstem.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.console.test_pages import see
from tests.support.eventually import eventually

if TYPE_CHECKING:
    from tests.console.conftest import Open
    from tests.support.browser import NewPage

_CLIENT_METRICS = 16
PAGE = b"""# TYPE mainstem_client_producer_sent_total counter
mainstem_client_producer_sent_total{instance="i-1",client_id="a b",topic="t"} 7
mainstem_client_odd{instance="i-1",client_id="a b"} NaN
mainstem_client_odd{instance="i-2",client_id=""} 1
mainstem_telemetry_clients 2
"""


def test_a_metrics_page_is_read_by_clients() -> None:
    found = clients_in(PAGE)
    assert found == {
        "i-1": {
            "instance": "i-1",
            "client_id": "a b",
            "metrics": [
                {"name": "producer_sent_total", "labels": {"topic": "t"}, "value": 7.0},
                {"name": "odd", "labels": {}, "value": None},
            ],
        },
        "i-2": {"instance": "i-2", "client_id": "", "metrics": [{"name": "odd", "labels": {}, "value": 1.0}]},
    }
    assert clients_in(b"") == {}


def test_a_gateway_without_the_logs_socket_says_that_it_does_not_know(open_at: Open) -> None:
    see(open_at("/console/clients"), "The log does not say what clients push")


def test_the_metrics_that_a_client_pushes_are_shown(new_page: NewPage, tmp_path: Path) -> None:
    with Stack(tmp_path / "data", lambda _: None) as stack:
        bootstrap = stack.start_log("127.0.0.1:0")
        address = stack.launch_gateway(bootstrap, "127.0.0.1:0")
        stack.supervisor.wait_ready("gateway")
        page = new_page()
        page.goto(f"http://{address}/console/clients")
        see(page, "No client pushes metrics")
        _subscribe(bootstrap)
        with Log(bootstrap) as log:
            log.create_topic("pushed")
        producer = Producer({"bootstrap.servers": bootstrap, "client.id": "checkout", "enable.metrics.push": True})

        def is_listed() -> bool:
            producer.produce("pushed", b"x")
            producer.poll(0.1)
            return page.get_by_role("link", name="checkout").is_visible()

        eventually(is_listed, "the client is listed", 90)
        page.get_by_role("link", name="checkout").click()
        see(page, "producer_")
        assert producer.flush(60) == 0
        page.goto(f"http://{address}/console/groups")
        page.get_by_role("link", name="Metrics of clients").click()
        see(page, "checkout")


def _subscribe(bootstrap: str) -> None:
    """Ask every client for all metrics, as kafka-client-metrics does."""
    configs = [
        AlterableConfig(name=name, config_operation=0, value=value)
        for name, value in (("metrics", "*"), ("interval.ms", "500"))
    ]
    resource = AlterConfigsResource(resource_type=_CLIENT_METRICS, resource_name="all", configs=configs)
    with WireClient(bootstrap, timeout_s=30) as client:
        answer = client.request(IncrementalAlterConfigsRequest(resources=[resource], validate_only=False))
        assert answer.responses[0].error_code == 0
