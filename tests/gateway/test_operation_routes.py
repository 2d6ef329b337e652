"""Operation over HTTP: health, pipelines, groups, the description of the API."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from mainstem.client.log import Log
from mainstem.gateway.access.limits import GatewayLimits
from mainstem.gateway.server.app import create_app
from mainstem.gateway.views.forwarding import ForwardingBackend
from mainstem.model import Position
from mainstem.pipelines.progress import PROGRESS_TOPIC, Progress
from mainstem.testing.embedded import EmbeddedBroker
from tests.gateway.served import served


@pytest.fixture
def own_log() -> Iterator[Log]:
    """A log that no other test writes progress to."""
    with EmbeddedBroker() as broker, Log(broker.bootstrap, timeout_s=10.0) as log:
        yield log


def progress(name: str, offset: int) -> tuple[bytes, bytes]:
    source, sink = Position.of("a", 0, offset), Position.of("b", 0, offset)
    return Progress(name, offset, source, sink, Position(), ("a",), ("b",)).to_record()


def test_a_log_that_answers_is_healthy(api: httpx.Client) -> None:
    assert api.get("/healthz").json()["status"] == "ok"


def test_a_log_that_does_not_answer_is_a_503(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mainstem.gateway.operation.operation_routes._HEALTH_S", 0.05)
    with Log("127.0.0.1:1", timeout_s=0.5) as log:
        with served(create_app(log, ForwardingBackend([]), GatewayLimits())) as api:
            answer = api.get("/healthz")
    assert (answer.status_code, answer.json()["type"]) == (503, "/problems/log-unavailable")


def test_pipelines_are_listed(own_log: Log) -> None:
    own_log.create_topic("a", partitions=1)
    own_log.create_topic(PROGRESS_TOPIC, partitions=1)
    own_log.append_many(PROGRESS_TOPIC, [progress("p", 0)])
    with served(create_app(own_log, ForwardingBackend([]), GatewayLimits())) as api:
        (pipeline,) = api.get("/pipelines").json()["pipelines"]
    assert (pipeline["name"], pipeline["status"], pipeline["lag"], pipeline["source"]) == ("p", "not seen", 0, "a/0:0")


def test_groups_are_listed(api: httpx.Client) -> None:
    assert isinstance(api.get("/groups").json()["groups"], list)


def test_the_api_describes_every_route_and_its_problems(api: httpx.Client) -> None:
    document = api.get("/openapi.json").json()
    assert {"/topics/{topic}/records", "/views/{view}/sql", "/views/{view}/keys/{key}", "/healthz"} <= set(
        document["paths"]
    )
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            assert operation["summary"], (path, method)
            successes = [found for status, found in operation["responses"].items() if status.startswith("2")]
            assert successes, (path, method)
            assert not any(found["description"] == "Successful Response" for found in successes), "use Routes.declare"
            assert {"400", "401", "403", "503"} <= set(operation["responses"]), (path, method)


def test_the_body_of_an_append_is_described(api: httpx.Client) -> None:
    operation = api.get("/openapi.json").json()["paths"]["/topics/{topic}/records"]["post"]
    assert "records" in str(operation["requestBody"])
