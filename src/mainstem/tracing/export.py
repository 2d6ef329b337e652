"""Lets a process of Mainstem (gateway, view host, pipelines) export its spans, where the environment says so.

The variables are OpenTelemetry's own (https://opentelemetry.io/docs/specs/otel/protocol/exporter/). Spans go out over
OTLP on HTTP if ``OTEL_EXPORTER_OTLP_ENDPOINT`` or ``OTEL_EXPORTER_OTLP_TRACES_ENDPOINT`` is set, unless
``OTEL_TRACES_EXPORTER=none`` or ``OTEL_SDK_DISABLED=true``. The SDK reads the rest (sampler, headers, limits).

What is wrong with this never stops a process: it is one warning, and the process runs without traces. A collector that
is away costs spans, which wait in a queue of bounded length.
"""

from __future__ import annotations

import logging
import os
from typing import Final

from mainstem.errors import MissingDependencyError
from mainstem.extras import require

_LOG: Final = logging.getLogger("mainstem.tracing")
_ENDPOINTS: Final = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_TIMEOUTS: Final = ("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "OTEL_EXPORTER_OTLP_TIMEOUT")
_TIMEOUT_S: Final = 3.0
"""Shorter than OpenTelemetry's 10 s: a process that stops tries for so long to send its last spans."""
_SERVICE_NAME: Final = "OTEL_SERVICE_NAME"


def export_traces(service: str) -> None:
    """Export this process's spans as those of ``service``, unless ``OTEL_SERVICE_NAME`` names it."""
    if not _is_asked_for():
        return
    try:
        require("otel")
        _set_provider(service)
    except (MissingDependencyError, ValueError) as error:  # of a variable that the SDK does not understand
        _LOG.warning("traces are not exported: %s", error)


def _is_asked_for() -> bool:
    if os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return False
    exporter = os.environ.get("OTEL_TRACES_EXPORTER", "").strip().lower()
    if exporter not in ("", "otlp"):
        if exporter != "none":
            _LOG.warning("traces are not exported: OTEL_TRACES_EXPORTER is %r; it can be otlp or none", exporter)
        return False
    return any(os.environ.get(name) for name in _ENDPOINTS)


def _set_provider(service: str) -> None:
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor
    from opentelemetry.trace import set_tracer_provider

    provider = TracerProvider(
        resource=Resource.create({} if os.environ.get(_SERVICE_NAME) else {"service.name": service})
    )
    timeout_s = None if any(os.environ.get(name) for name in _TIMEOUTS) else _TIMEOUT_S
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(timeout=timeout_s)))
    set_tracer_provider(provider)
