"""The description of the API is true: whatever is sent, the answer is one that it has, and never a 500.

Requests are made from the description by schemathesis, right ones and wrong ones, of a real gateway over a real log
with views. ``MAINSTEM_DESCRIBED_EXAMPLES`` is how many requests each operation gets at most; ``make fuzz`` makes more.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis.generation import GenerationMode
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

import mainstem as ms
from mainstem.client.log import Log
from mainstem.gateway.access.limits import GatewayLimits
from mainstem.gateway.operation.log_metrics import LogMetrics
from mainstem.gateway.server.app import create_app
from mainstem.gateway.server.host_app import create_host_app
from mainstem.gateway.server.serving import listen_unix
from mainstem.gateway.views.forwarding import ForwardingBackend
from mainstem.pipelines.deploy import deploy
from mainstem.problems import problem_of
from mainstem.registry.registry import Registry
from mainstem.registry.requests import SchemaRequest
from mainstem.testing.embedded import EmbeddedBroker
from mainstem.views.host.host import ViewHost
from tests.gateway.served import listening_on, served
from tests.test_problems import ERROR_CLASSES, example

TOPIC = "described"
CHANGED = "changed"  # a topic that requests may change
SUBJECT = "described-value"
CHECKS = [
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
SLOW = {"post /views/{view}/verify": 3, "post /views/{view}/rebuild": 3, "delete /views/{view}": 3}
EXAMPLES = int(os.environ.get("MAINSTEM_DESCRIBED_EXAMPLES", "4"))
WAIT_S = 0.01
VIEWS = ("by-id", "table", "names", "friends", "figures", "folded", "archive")


def declared() -> ms.App:
    app = ms.App("described-views")
    topic = app.topic(
        TOPIC,
        schema="id STRING NOT NULL, name STRING, friend STRING",
        key="id",
        partitions=2,
        configs={"mainstem.key.index": "true", "mainstem.conditional.append": "true"},
    )
    app.view("by-id", topic, ms.KeyValue())
    app.view("table", topic, ms.SQL())
    app.view("names", topic, ms.Search("name"))
    app.view("friends", topic, ms.Graph(source="id", target="friend"))
    app.view("figures", topic, ms.Metrics(by="friend"))
    app.view("folded", topic, ms.KeyValue(fold=lambda state, record: {"last": record.offset}))
    app.view("archive", topic, ms.Lake())
    app.view("victim", topic, ms.KeyValue())
    return app


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    directory = tmp_path_factory.mktemp("described")
    with EmbeddedBroker() as broker, Log(broker.bootstrap, timeout_s=10) as log:
        deploy(declared(), log)
        log.create_topic(CHANGED, partitions=1)
        text = '{"type": "record", "name": "Described", "fields": []}'
        Registry(log).register(SUBJECT, SchemaRequest("AVRO", text), normalize=False)
        log.append_many(TOPIC, [(key, {"id": key, "name": f"name {key}", "friend": "a"}) for key in "abc"])
        with ViewHost(tuple(declared().views.values()), broker.bootstrap, directory) as host:
            for view in declared().views:
                host.wait(view, lambda status: status.state != "starting", 120)
            with listening_on(create_host_app(host), listen_unix(directory / "s")):
                backend = ForwardingBackend([directory / "s"])
                with served(create_app(log, backend, GatewayLimits(), LogMetrics(directory / "no-metrics"))) as client:
                    yield client


def description() -> dict[str, Any]:
    nowhere = Path("/nonexistent")
    return create_app(Log("127.0.0.1:1"), ForwardingBackend([]), GatewayLimits(), LogMetrics(nowhere)).openapi()


def operations() -> list[Any]:
    schema = schemathesis.openapi.from_dict(description())
    return [found.ok() for found in schema.get_all_operations()]


def name_of(operation: Any) -> str:
    return f"{operation.method} {operation.path}"


def aimed(case: Any, view: str) -> None:
    """Let a request name what there is, and not wait for what never comes."""
    is_change = "/configs" in case.path or "/partitions" in case.path or case.method == "DELETE"
    names = {"topic": CHANGED if is_change else TOPIC, "view": "victim" if case.method == "DELETE" else view}
    names |= {"subject": SUBJECT, "version": "latest", "schema_id": "1"}
    if "/apis/" in case.path:
        names |= {"artifact": SUBJECT, "group": "default"}
    for name in set(case.path_parameters or {}) & set(names):
        case.path_parameters[name] = names[name]
    bound(case)


def bound(case: Any) -> None:
    if isinstance(case.query, dict) and isinstance(case.query.get("timeout"), int | float):
        case.query["timeout"] = min(case.query["timeout"], WAIT_S)
    if isinstance(case.body, dict):
        for name in {"timeout_s"} & set(case.body):
            if isinstance(case.body[name], int | float):
                case.body[name] = min(case.body[name], WAIT_S)
        if "requests" in case.path and "timeout_s" not in case.body:
            case.body["timeout_s"] = WAIT_S


def ask(api: httpx.Client, case: Any) -> None:
    if case.path.endswith("/stream"):  # it does not end: see how it begins
        with api.stream(case.method, case.formatted_path, params=case.query) as begun:
            assert begun.status_code != 500
            assert str(begun.status_code) in case.operation.definition.raw["responses"]
        return
    answer = case.call(base_url=str(api.base_url), timeout=60)
    assert answer.status_code != 500, answer.text
    case.validate_response(answer, checks=CHECKS)


def can_be_wrong(operation: Any) -> bool:
    """Whether it takes something with a type: a path is any text."""
    document = operation.definition.raw
    return "requestBody" in document or any(given["in"] == "query" for given in document.get("parameters", ()))


@pytest.mark.parametrize("operation", operations(), ids=name_of)
def test_every_answer_is_described(api: httpx.Client, operation: Any) -> None:
    check(api, operation, GenerationMode.POSITIVE)


@pytest.mark.parametrize("operation", [each for each in operations() if can_be_wrong(each)], ids=name_of)
def test_every_answer_to_what_is_wrong_is_described(api: httpx.Client, operation: Any) -> None:
    check(api, operation, GenerationMode.NEGATIVE)


def check(api: httpx.Client, operation: Any, mode: GenerationMode) -> None:
    @settings(
        max_examples=SLOW.get(name_of(operation), EXAMPLES),
        derandomize=True,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(data=st.data())
    def every(data: st.DataObject) -> None:
        case = data.draw(operation.as_strategy(generation_mode=mode))
        if data.draw(st.booleans()):
            aimed(case, data.draw(st.sampled_from(VIEWS)))
        bound(case)
        ask(api, case)

    every()


def test_every_member_that_a_problem_may_have_is_described() -> None:
    described = set(description()["components"]["schemas"]["Problem"]["properties"])
    assert described == {member for error_class in ERROR_CLASSES for member in problem_of(example(error_class))}
