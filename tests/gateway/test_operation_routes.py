"""Operation over HTTP: health, pipelines, groups, the description of the API."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import httpx
import pytest
from fastapi import FastAPI
from starlette.routing import Route, compile_path

from mainstem.client.log import Log
from mainstem.gateway.access.limits import GatewayLimits
from mainstem.gateway.server.app import create_app, create_registry_app
from mainstem.gateway.views.forwarding import ForwardingBackend
from mainstem.model import Position
from mainstem.pipelines.control.commands import newest_commands
from mainstem.pipelines.control.run_log import RUN_LOG_TOPIC, RunEvent, RunLogEntry, RunPlan
from mainstem.pipelines.progress import PROGRESS_TOPIC, Progress
from mainstem.testing.embedded import EmbeddedBroker
from tests.gateway.served import served
from tests.support.eventually import eventually


@pytest.fixture
def own_log() -> Iterator[Log]:
    """A log that no other test writes progress to."""
    with EmbeddedBroker() as broker, Log(broker.bootstrap, timeout_s=10.0) as log:
        yield log


def progress(name: str, offset: int) -> tuple[bytes, bytes]:
    source, sink = Position.of("a", 0, offset), Position.of("b", 0, offset)
    return Progress(name, offset, source, sink, Position(), ("a",), ("b",)).to_record()


def test_a_log_that_answers_is_healthy(api: httpx.Client) -> None:
    eventually(lambda: api.get("/healthz").json()["status"] == "ok", "the log answers")


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


def test_a_pipeline_takes_commands(own_log: Log) -> None:
    own_log.create_topic(PROGRESS_TOPIC, partitions=1)
    own_log.append_many(PROGRESS_TOPIC, [progress("p", 0)])
    with served(create_app(own_log, ForwardingBackend([]), GatewayLimits())) as api:
        answer = api.post("/pipelines/p/pause")
        assert (answer.status_code, answer.json()) == (202, {"pipeline": "p", "action": "pause", "command": 0})
        unknown, away = api.post("/pipelines/q/pause"), api.post("/pipelines/p/restart")
        assert (unknown.status_code, unknown.json()["type"]) == (404, "/problems/unknown-pipeline")
        assert (away.status_code, away.json()["type"]) == (409, "/problems/pipeline-not-running")
        assert api.post("/pipelines/p/fly").status_code in (400, 404)
    assert newest_commands(own_log)["p"].action == "pause"


def test_a_pipelines_log_and_plan_are_there_when_they_are_written(own_log: Log) -> None:
    own_log.create_topic(PROGRESS_TOPIC, partitions=1)
    own_log.append_many(PROGRESS_TOPIC, [progress("p", 0), progress("q", 0)])
    nothing = {"pipeline": "p", "plan": None, "at_ms": None, "batch_id": None}
    with served(create_app(own_log, ForwardingBackend([]), GatewayLimits())) as api:
        assert api.get("/pipelines/p/plan").json() == nothing  # a log without the topic
        assert api.get("/pipelines/p/log").json() == {"pipeline": "p", "entries": []}
        own_log.create_topic(RUN_LOG_TOPIC, partitions=1)
        entries = [
            RunLogEntry("p", 0, 10, RunEvent.STARTED, ""),
            RunLogEntry("p", 1, 20, RunEvent.FAILED, "ValueError: no"),
            RunLogEntry("q", 0, 15, RunEvent.PAUSED, ""),
            RunPlan("p", 30, 7, "== Physical Plan =="),
        ]
        own_log.append_many(RUN_LOG_TOPIC, [entry.to_record() for entry in entries])
        assert api.get("/pipelines/p/log").json()["entries"] == [
            {"at_ms": 20, "event": "failed", "text": "ValueError: no"},
            {"at_ms": 10, "event": "started", "text": ""},
        ]
        plan = {"pipeline": "p", "plan": "== Physical Plan ==", "at_ms": 30, "batch_id": 7}
        assert api.get("/pipelines/p/plan").json() == plan
        for what in ("plan", "log"):
            unknown = api.get(f"/pipelines/nope/{what}")
            assert (unknown.status_code, unknown.json()["type"]) == (404, "/problems/unknown-pipeline")


def test_the_page_of_the_api_has_every_route_and_needs_no_script(api: httpx.Client) -> None:
    page = api.get("/docs")
    assert page.headers["content-type"].startswith("text/html")
    assert "default-src 'none'" in page.headers["content-security-policy"]
    document = api.get("/openapi.json").json()
    routes = {f"{method.upper()} {path}" for path, found in document["paths"].items() for method in found}
    assert {route for route in routes if f"<code>{route}</code>" not in page.text} == set()
    assert "<script" not in page.text
    assert "408" in page.text
    assert "<code>query</code><td>body, string, required" in page.text
    assert "<code>dry_run</code><td>body, boolean" in page.text


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


def gateway_app(log: Log, limits: GatewayLimits) -> FastAPI:
    return create_app(log, ForwardingBackend([]), limits)


@pytest.mark.parametrize("create", [gateway_app, create_registry_app])
def test_each_route_that_is_served_is_described(
    session_log: Log, create: Callable[[Log, GatewayLimits], FastAPI]
) -> None:
    app = create(session_log, GatewayLimits())
    undescribed = {"/docs", "/openapi.json", "/problems/{slug}"}
    served = {
        (compile_path(route.path)[1], method.lower())
        for route in app.routes
        if isinstance(route, Route) and route.path not in undescribed
        for method in route.methods or ()
    }
    assert len(served) > 30
    described = {(path, method) for path, operations in app.openapi()["paths"].items() for method in operations}
    assert {each for each in served if each[1] != "head" or each in described} == described


def test_the_errors_of_the_registry_are_described_in_its_form(api: httpx.Client) -> None:
    document = api.get("/openapi.json").json()
    operation = document["paths"]["/registry/subjects/{subject}/versions"]["post"]
    assert operation["responses"]["409"]["$ref"] == "#/components/responses/RegistryError409"
    described = document["components"]["responses"]["RegistryError409"]["content"]
    assert list(described) == ["application/vnd.schemaregistry.v1+json"]
    assert "schemaType" in str(operation["requestBody"])
    assert {each["name"] for each in document["paths"]["/registry/mode/{subject}"]["put"]["parameters"]} >= {"subject"}


def test_the_body_of_an_append_is_described(api: httpx.Client) -> None:
    operation = api.get("/openapi.json").json()["paths"]["/topics/{topic}/records"]["post"]
    assert "records" in str(operation["requestBody"])
