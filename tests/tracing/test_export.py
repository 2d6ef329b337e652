"""Which processes export spans: those whose environment names a collector. What is wrong there stops no process."""

from __future__ import annotations

import logging
import os
import subprocess
import sys

import pytest

from mainstem.tracing import export
from tests.support.ports import free_port

ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
CODE = """
import sys
from mainstem.tracing.export import export_traces
export_traces("mainstem-gateway")
trace = sys.modules.get("opentelemetry.trace")
if trace is None:
    print("not loaded")
else:
    provider = trace.get_tracer_provider()
    print(provider.resource.attributes["service.name"])
    with provider.get_tracer("test").start_as_current_span("a"):
        pass
"""


def exported_by(**variables: str) -> subprocess.CompletedProcess[str]:
    """What a process says that shall export, in this environment."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")} | variables
    return subprocess.run([sys.executable, "-c", CODE], env=environment, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize(
    "variables",
    [
        {},
        {ENDPOINT: "http://127.0.0.1:9", "OTEL_SDK_DISABLED": "true"},
        {ENDPOINT: "http://127.0.0.1:9", "OTEL_TRACES_EXPORTER": "none"},
    ],
)
def test_without_a_collector_nothing_is_exported_or_loaded(variables: dict[str, str]) -> None:
    run = exported_by(**variables)
    assert (run.returncode, run.stdout, run.stderr) == (0, "not loaded\n", "")


def test_an_exporter_that_is_not_known_is_one_warning() -> None:
    run = exported_by(**{ENDPOINT: "http://127.0.0.1:9", "OTEL_TRACES_EXPORTER": "zipkin"})
    assert (run.returncode, run.stdout) == (0, "not loaded\n")
    assert run.stderr == "traces are not exported: OTEL_TRACES_EXPORTER is 'zipkin'; it can be otlp or none\n"


@pytest.mark.parametrize(("named", "service"), [({}, "mainstem-gateway"), ({"OTEL_SERVICE_NAME": "orders"}, "orders")])
def test_a_collector_that_is_away_costs_spans_and_no_time_at_the_end(named: dict[str, str], service: str) -> None:
    run = exported_by(**{ENDPOINT: f"http://127.0.0.1:{free_port()}"}, **named)
    assert (run.returncode, run.stdout) == (0, f"{service}\n")


def test_without_the_extra_a_warning_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv(ENDPOINT, "http://127.0.0.1:9")
    monkeypatch.setattr("mainstem.extras._is_installed", lambda _: False)
    with caplog.at_level(logging.WARNING):
        export.export_traces("mainstem-gateway")
    (line,) = caplog.messages
    assert line.startswith("traces are not exported: opentelemetry.sdk")
    assert line.endswith("pip install 'mainstem[otel]'")
