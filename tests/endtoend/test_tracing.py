"""A traced record through a whole node: gateway, log, pipeline and views export spans that belong together."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from mainstem.client.log import Log
from mainstem.node.stack import Stack
from tests.support.eventually import eventually
from tests.support.tracing import Collector, SeenSpan

pytestmark = pytest.mark.spark
APP = """
import mainstem as ms
from pyspark.sql import functions as F
app = ms.App("traced")
orders = app.topic("orders", schema="id STRING NOT NULL, price INT", key="id")
@app.pipeline(orders, into="doubled", key="id")
def double(rows):
    return rows.select("id", (F.col("price") * 2).alias("price"))
app.view("orders", orders, ms.KeyValue())
app.view("doubled", "doubled", ms.KeyValue())
"""
TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


def one(collector: Collector, service: str, name: str) -> SeenSpan:
    """The one span of this name, waited for."""
    found = eventually(lambda: collector.named(service, name), f"{name} of {service}", within_s=120)
    assert len(found) == 1
    return found[0]


def test_a_record_is_followed_through_gateway_pipeline_and_views(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "app.py").write_text(APP)
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "100")
    with Collector() as collector, Stack(tmp_path / "data", lambda _: None) as stack:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.endpoint)
        bootstrap = stack.start_log("127.0.0.1:0")
        stack.launch_pipelines(tmp_path / "app.py", "traced", bootstrap, "local[1]")
        stack.launch_views(tmp_path / "app.py", bootstrap)
        address = stack.launch_gateway(bootstrap, "127.0.0.1:0", views=True, console=False)
        for name in ("pipelines", "views", "gateway"):
            stack.supervisor.wait_ready(name)
        with httpx.Client(base_url=f"http://{address}", timeout=60) as http:
            headers = {"traceparent": f"00-{TRACE}-{PARENT}-01"}
            body = {"records": [{"key": "a", "value": {"id": "a", "price": 3}}]}
            answer = http.post("/topics/orders/records", json=body, headers=headers).raise_for_status()
            position = answer.json()["position"]
            row = http.get("/views/doubled/keys/a", params={"at_least": position, "timeout": 60}, headers=headers)
            assert row.raise_for_status().json()["rows"][0]["price"] == 6

        request = one(collector, "mainstem-gateway", "POST /topics/{topic}/records")
        send = one(collector, "mainstem-gateway", "send orders")
        applied = one(collector, "mainstem-views", "apply orders")
        batch = eventually(
            lambda: [span for span in collector.named("mainstem-pipelines", "process double") if span.links],
            "a micro-batch with links",
            within_s=60,
        )[0]
        asked = one(collector, "mainstem-gateway", "GET /views/{view}/keys/{key}")
        answered = one(collector, "mainstem-views", "GET /views/{view}/keys/{key}")
        waited = one(collector, "mainstem-views", "wait doubled")
        with Log(bootstrap) as log:
            (record,) = log.read("orders")

    assert (request.trace_id, request.parent_id) == (TRACE, PARENT)
    assert (send.trace_id, send.parent_id) == (TRACE, request.span_id)
    assert dict(record.headers)["traceparent"] == f"00-{TRACE}-{send.span_id}-01".encode()
    assert applied.links == {TRACE}
    assert applied.attributes["mainstem.view"] == "orders"
    assert batch.links == {TRACE}
    assert batch.attributes["mainstem.pipeline"] == "double"
    assert batch.attributes["mainstem.read"] == "orders/0:1"
    assert batch.attributes["mainstem.wrote"] == "doubled/0:1"
    assert (asked.trace_id, answered.parent_id) == (TRACE, asked.span_id)
    assert waited.parent_id == answered.span_id
    assert not {span.service for span in collector.spans} - {"mainstem-gateway", "mainstem-views", "mainstem-pipelines"}
