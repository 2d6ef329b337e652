"""OpenTelemetry spans for what a program appends and processes, joined over the log by the header ``traceparent``.

A program traces when it has set a tracer provider (``opentelemetry.trace.set_tracer_provider``). Otherwise everything
here does nothing, and OpenTelemetry is not even imported. The log's own process never traces (decision 48).

The program's propagator says which headers a record gets: by default ``traceparent`` and ``tracestate`` of the W3C
(https://www.w3.org/TR/trace-context/), and ``baggage``. A record that has one of them already keeps it: it belongs to
the trace of its maker. Topics whose names begin with ``_`` are the log's own, and are not traced. Names and
attributes are those of OpenTelemetry's conventions (https://opentelemetry.io/docs/specs/semconv/messaging/kafka/).

Thread-safe.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from mainstem.model import Headers, Position, Record

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Link, Span, Tracer, TracerProvider

LINKS_MAX: Final = 32
"""So many traces at most a span of many records is linked to."""
_VALUE_BYTES_MAX: Final = 8192  # of W3C's baggage; a longer header of a stranger is not read
_API: Final = "opentelemetry.trace"


def is_tracing() -> bool:
    """Whether this program has set a tracer provider."""
    return _provider() is not None


class SendSpan:
    """The span of one append."""

    def __init__(self, span: Span) -> None:
        self._span = span
        self._trace = current_trace()
        self._names = header_names()
        self._count = 0

    def headers(self, own: Headers) -> Headers:
        """A record's headers with those of the trace; unchanged if it has such a header already."""
        self._count += 1
        return _with_trace(own, self._trace, self._names)

    def landed(self, position: Position) -> None:
        """Say where the records are: ``position`` is just after them."""
        if self._count > 1:
            self._span.set_attribute("messaging.batch.message_count", self._count)
        if len(position) == 1:
            ((tp, offset),) = position.items()
            self._span.set_attribute("messaging.destination.partition.id", str(tp.partition))
            if self._count == 1:
                self._span.set_attribute("messaging.kafka.offset", offset - 1)


@contextmanager
def sending(topic: str, operation: str = "send") -> Iterator[SendSpan | None]:
    """The span of an append to ``topic``; None if nothing is traced, or the topic is one of the log's own."""
    tracer = None if topic.startswith("_") else _tracer()
    if tracer is None:
        yield None
        return
    from opentelemetry.trace import SpanKind

    attributes = _attributes(topic, operation)
    with tracer.start_as_current_span(f"{operation} {topic}", kind=SpanKind.PRODUCER, attributes=attributes) as span:
        yield SendSpan(span)


@contextmanager
def processing(record: Record, *, group: str | None = None) -> Iterator[Span | None]:
    """Inside, the program works on ``record``: in a span that continues the trace of its append.

    The span is None if nothing is traced. Appends, and requests to a gateway, that are made inside belong to the same
    trace. ``ms.Worker`` does this for each request by itself.

    Args:
        record: The record, as ``Log.read`` or ``Log.follow`` gives it.
        group: The name of the group that reads it, if there is one.

    Examples:
        >>> with ms.Log("localhost:9092") as log:
        ...     for record in log.read("orders", limit=1):
        ...         with ms.processing(record):
        ...             print(record.key)
        b'ada'
    """
    tracer = _tracer()
    if tracer is None:
        yield None
        return
    from opentelemetry.trace import SpanKind

    attributes = _attributes(record.topic, "process")
    attributes |= {
        "messaging.destination.partition.id": str(record.partition),
        "messaging.kafka.offset": record.offset,
    }
    if group is not None:
        attributes["messaging.consumer.group.name"] = group
    context, name = _extracted(record.headers), f"process {record.topic}"
    with tracer.start_as_current_span(name, context, kind=SpanKind.CONSUMER, attributes=attributes) as span:
        yield span


@contextmanager
def processing_many(name: str, attributes: Mapping[str, Any], links: Sequence[Link] = ()) -> Iterator[Span | None]:
    """A span of work on many records at once, the root of a trace of its own: its records come from many traces.

    The span is None if nothing is traced. ``links``: those to the records' traces, as far as they are known by now.
    """
    tracer = _tracer()
    if tracer is None:
        yield None
        return
    from opentelemetry.context import Context
    from opentelemetry.trace import SpanKind

    with tracer.start_as_current_span(
        name, Context(), kind=SpanKind.CONSUMER, attributes=dict(attributes), links=links
    ) as span:
        yield span


@contextmanager
def inside(name: str, attributes: Mapping[str, Any]) -> Iterator[None]:
    """A span of a part of what is being done, if that is traced."""
    tracer = _tracer()
    if tracer is None:
        yield
        return
    with tracer.start_as_current_span(name, attributes=dict(attributes)):
        yield


def links_to(records: Iterable[Headers]) -> list[Link]:
    """Links to the sampled traces that the headers of records name: each once, ``LINKS_MAX`` at most."""
    if not is_tracing():
        return []
    from opentelemetry.context import Context
    from opentelemetry.trace import Link, get_current_span

    found: dict[tuple[int, int], Link] = {}
    for headers in records:
        context = get_current_span(_extracted(headers, Context())).get_span_context()
        if context.is_valid and context.trace_flags.sampled:
            found.setdefault((context.trace_id, context.span_id), Link(context))
            if len(found) == LINKS_MAX:
                break
    return list(found.values())


def request_headers() -> dict[str, str]:
    """The headers that let an HTTP request belong to the current trace; none if nothing is traced."""
    if not is_tracing():
        return {}
    from opentelemetry import propagate

    headers: dict[str, str] = {}
    propagate.inject(headers)
    return headers


def current_trace() -> Headers:
    """The headers that let a record belong to the current trace; none if nothing is traced."""
    return tuple((name, value.encode()) for name, value in request_headers().items())


def with_trace(own: Headers, trace: Headers) -> Headers:
    """A record's headers with those of a trace; unchanged if the record names a trace already."""
    return _with_trace(own, trace, header_names())


def header_names() -> frozenset[str]:
    """The names of the headers by which records and requests say their trace."""
    if not is_tracing():
        return frozenset()
    from opentelemetry import propagate

    return frozenset(propagate.get_global_textmap().fields)


def _provider() -> TracerProvider | None:
    """The program's provider; None if it has set none: then it need not have loaded OpenTelemetry either."""
    trace = sys.modules.get("opentelemetry.trace")
    if trace is None:
        return None
    provider: TracerProvider = trace.get_tracer_provider()
    return None if isinstance(provider, trace.ProxyTracerProvider) else provider


def _tracer() -> Tracer | None:
    provider = _provider()
    return None if provider is None else provider.get_tracer("mainstem")


def _with_trace(own: Headers, trace: Headers, names: frozenset[str]) -> Headers:
    return own if any(name in names for name, _ in own) else (*own, *trace)


def _attributes(topic: str, operation: str) -> dict[str, str | int]:
    return {
        "messaging.system": "kafka",
        "messaging.destination.name": topic,
        "messaging.operation.name": operation,
        "messaging.operation.type": operation,
    }


def _extracted(headers: Headers, context: Context | None = None) -> Context:
    """The context that the headers of a record name; without any it is ``context``, or the current one."""
    from opentelemetry import propagate
    from opentelemetry.context import get_current

    names = header_names()
    carrier = {
        name: value.decode(errors="replace")
        for name, value in headers
        if name in names and value is not None and len(value) <= _VALUE_BYTES_MAX
    }
    return propagate.extract(carrier, get_current() if context is None else context)
