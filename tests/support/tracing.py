"""OpenTelemetry in tests: a provider for one test, and a collector that processes export to."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

import pytest
from opentelemetry import trace
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter


class SeenSpan(NamedTuple):
    """A span in short: ids in hexadecimal digits; ``links`` are the ids of the traces that it is linked to."""

    service: str
    name: str
    trace_id: str
    span_id: str
    parent_id: str
    links: frozenset[str]
    attributes: dict[str, Any]


@contextmanager
def traced_in_memory() -> Iterator[InMemorySpanExporter]:
    """Inside, this process traces, into memory. OpenTelemetry has no public way to take a provider back."""
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trace, "_TRACER_PROVIDER", provider)
        yield exporter


def in_short(exporter: InMemorySpanExporter) -> list[SeenSpan]:
    """The spans that have ended."""
    return [
        SeenSpan(
            "",
            span.name,
            f"{span.context.trace_id:032x}",
            f"{span.context.span_id:016x}",
            "" if span.parent is None else f"{span.parent.span_id:016x}",
            frozenset(f"{link.context.trace_id:032x}" for link in span.links),
            dict(span.attributes or {}),
        )
        for span in exporter.get_finished_spans()
    ]


def named(exporter: InMemorySpanExporter, part: str) -> list[SeenSpan]:
    """The spans with ``part`` in their names: other threads of the process may trace at the same time."""
    return [span for span in in_short(exporter) if part in span.name]


def connected(spans: Iterable[SeenSpan]) -> bool:
    """Whether traces and links join all spans."""
    groups: list[set[str]] = []
    for span in spans:
        joined = {span.trace_id, *span.links}
        apart = []
        for group in groups:
            if group & joined:
                joined |= group
            else:
                apart.append(group)
        groups = [*apart, joined]
    return len(groups) == 1


class Collector:
    """Takes spans over OTLP on HTTP, at ``endpoint``."""

    def __init__(self) -> None:
        self.spans: list[SeenSpan] = []
        taken = self.spans

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                taken.extend(_spans_of(ExportTraceServiceRequest.FromString(body)))
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        self.endpoint = f"http://127.0.0.1:{self._server.server_port}"

    def named(self, service: str, name: str) -> list[SeenSpan]:
        """The spans of this name that ``service`` has sent so far."""
        return [span for span in list(self.spans) if (span.service, span.name) == (service, name)]

    def __enter__(self) -> Collector:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def _spans_of(request: ExportTraceServiceRequest) -> Iterator[SeenSpan]:
    for of_resource in request.resource_spans:
        named = {pair.key: pair.value.string_value for pair in of_resource.resource.attributes}
        for of_scope in of_resource.scope_spans:
            for span in of_scope.spans:
                yield SeenSpan(
                    named["service.name"],
                    span.name,
                    span.trace_id.hex(),
                    span.span_id.hex(),
                    span.parent_span_id.hex(),
                    frozenset(link.trace_id.hex() for link in span.links),
                    {pair.key: getattr(pair.value, pair.value.WhichOneof("value")) for pair in span.attributes},
                )
