"""OpenTelemetry: appends and the work on records belong to one trace. Without a tracer provider nothing happens."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
from confluent_kafka import Consumer, Producer
from opentelemetry import trace
from opentelemetry.instrumentation.confluent_kafka import ConfluentKafkaInstrumentor
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import StatusCode

from mainstem.client.http.request_reply import CORRELATION_ID, REPLY_TOPIC, reply_topic_of
from mainstem.client.log import Log
from mainstem.client.records import NewRecord
from mainstem.errors import UnknownTopicError
from mainstem.model import Record
from mainstem.tracing.spans import (
    LINKS_MAX,
    header_names,
    inside,
    links_to,
    processing,
    processing_many,
    request_headers,
)
from tests.gateway.answering import working
from tests.support.eventually import eventually
from tests.support.tracing import connected, named, traced_in_memory

TRACEPARENT = re.compile(rb"00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")
FOREIGN = b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
UNSAMPLED = b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"


def trace_of(record: Record) -> str:
    """The id of the trace in a record's header."""
    header = dict(record.headers)["traceparent"] or b""
    assert TRACEPARENT.fullmatch(header)
    return header.decode().split("-")[1]


def test_a_program_that_does_not_trace_writes_no_headers(mainstem_log: Log, mainstem_topic: str) -> None:
    position = mainstem_log.append(mainstem_topic, 1)
    (record,) = mainstem_log.read(mainstem_topic)
    with processing(record) as span, processing_many("all", {}) as spans, inside("part", {}):
        assert span is None
        assert spans is None
    assert record.headers == ()
    assert request_headers() == {}
    assert header_names() == frozenset()
    assert links_to([(("traceparent", FOREIGN),)]) == []
    assert position == mainstem_log.end(mainstem_topic)


def test_a_program_that_does_not_trace_does_not_load_opentelemetry() -> None:
    code = (
        "import sys, mainstem as ms, mainstem.broker.process\n"
        "from mainstem.testing.embedded import EmbeddedBroker\n"
        "with EmbeddedBroker() as broker, ms.Log(broker.bootstrap) as log:\n"
        "    log.create_topic('a'); log.append('a', 1); log.append_many('a', range(1000)); list(log.read('a'))\n"
        "print([name for name in sys.modules if name.startswith('opentelemetry')])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
    assert run.stdout == "[]\n"


@pytest.mark.parametrize("count", [1, 3, 1000])
def test_an_append_is_a_span_and_its_records_name_it(mainstem_log: Log, mainstem_topic: str, count: int) -> None:
    with traced_in_memory() as exporter:
        position = mainstem_log.append_many(mainstem_topic, [NewRecord(n, partition=0) for n in range(count)])
    (span,) = named(exporter, mainstem_topic)
    assert span.name == f"send {mainstem_topic}"
    assert span.attributes["messaging.system"] == "kafka"
    assert span.attributes["messaging.destination.partition.id"] == "0"
    if count == 1:
        assert span.attributes["messaging.kafka.offset"] == next(iter(position.values())) - 1
    else:
        assert span.attributes["messaging.batch.message_count"] == count
    assert {trace_of(record) for record in mainstem_log.read(mainstem_topic)} == {span.trace_id}


def test_a_record_keeps_the_trace_that_it_names(mainstem_log: Log, mainstem_topic: str) -> None:
    with traced_in_memory():
        mainstem_log.append(mainstem_topic, 1, headers={"a": "b", "traceparent": FOREIGN})
    (record,) = mainstem_log.read(mainstem_topic)
    assert record.headers == (("a", b"b"), ("traceparent", FOREIGN))


def test_an_append_that_fails_is_a_span_with_an_error(mainstem_log: Log) -> None:
    with traced_in_memory() as exporter, pytest.raises(UnknownTopicError):
        mainstem_log.append("not-there", 1)
    (span,) = [span for span in exporter.get_finished_spans() if span.name == "send not-there"]
    assert span.status.status_code == StatusCode.ERROR


def test_the_logs_own_topics_are_not_traced(mainstem_log: Log) -> None:
    mainstem_log.create_topic("_own", exist_ok=True)
    with traced_in_memory() as exporter:
        mainstem_log.append("_own", 1)
    assert not named(exporter, "_own")
    assert all(record.headers == () for record in mainstem_log.read("_own"))


def test_what_is_appended_while_a_record_is_processed_belongs_to_its_trace(
    mainstem_log: Log, mainstem_topic: str
) -> None:
    with traced_in_memory() as exporter:
        mainstem_log.append(mainstem_topic, 1)
        (first,) = mainstem_log.read(mainstem_topic)
        with processing(first, group="readers"), mainstem_log.transaction() as tx:
            tx.append(mainstem_topic, 2)
    send, create, process = named(exporter, mainstem_topic)
    second = list(mainstem_log.read(mainstem_topic))[1]
    assert trace_of(first) == trace_of(second)
    assert [span.name for span in (process, create)] == [f"process {mainstem_topic}", f"create {mainstem_topic}"]
    assert process.parent_id == send.span_id
    assert create.parent_id == process.span_id
    assert process.attributes["messaging.consumer.group.name"] == "readers"
    assert process.attributes["messaging.kafka.offset"] == first.offset


def test_headers_of_strangers_that_name_no_trace_are_passed_over(mainstem_log: Log, mainstem_topic: str) -> None:
    strange = [b"", b"\xff\xfe", b"x" * 100_000, b"00-" + b"0" * 32 + b"-" + b"0" * 16 + b"-01", None]
    mainstem_log.append_many(mainstem_topic, [NewRecord(1, headers={"traceparent": value}) for value in strange])
    with traced_in_memory() as exporter:
        for record in mainstem_log.read(mainstem_topic):
            assert links_to([record.headers]) == []
            with processing(record):
                pass
    spans = named(exporter, mainstem_topic)
    assert len(spans) == len(strange)
    assert {span.parent_id for span in spans} == {""}


def test_links_are_of_sampled_traces_each_once_and_bounded() -> None:
    many = [(("traceparent", b"00-%032x-%016x-01" % (n, n)),) for n in range(1, 2 * LINKS_MAX)]
    with traced_in_memory():
        assert len(links_to([(("traceparent", FOREIGN),)] * 3)) == 1
        assert links_to([(("traceparent", UNSAMPLED),), (), (("other", FOREIGN),)]) == []
        assert len(links_to(many)) == LINKS_MAX


def test_instrumented_clients_at_both_ends_and_a_worker_are_one_connected_trace(
    mainstem_log: Log, mainstem_topic: str
) -> None:
    replies = reply_topic_of(mainstem_topic)
    mainstem_log.create_topic(replies, partitions=1)

    def price(request: Record) -> object:
        mainstem_log.append(f"{mainstem_topic}-audit", request.value)
        return {"price": 17}

    mainstem_log.create_topic(f"{mainstem_topic}-audit")
    with traced_in_memory() as exporter:
        provider = trace.get_tracer_provider()
        assert isinstance(provider, TracerProvider)
        instrumentor = ConfluentKafkaInstrumentor()
        producer = instrumentor.instrument_producer(
            Producer({"bootstrap.servers": mainstem_log.bootstrap}), tracer_provider=provider
        )
        consumer = instrumentor.instrument_consumer(
            Consumer(
                {
                    "bootstrap.servers": mainstem_log.bootstrap,
                    "group.id": f"{mainstem_topic}-readers",
                    "auto.offset.reset": "earliest",
                }
            ),
            tracer_provider=provider,
        )
        headers = [(CORRELATION_ID, b"c1"), (REPLY_TOPIC, replies.encode())]
        producer.produce(mainstem_topic, b"1", headers=headers)
        assert producer.flush(30) == 0
        consumer.subscribe([replies])
        with working(mainstem_log, mainstem_topic, price):
            eventually(lambda: consumer.poll(0.5) is not None, "the reply", within_s=60)
        consumer.close()
    spans = named(exporter, mainstem_topic)
    assert {span.name for span in spans} == {
        f"{mainstem_topic} send",
        f"process {mainstem_topic}",
        f"send {mainstem_topic}-audit",
        f"{replies} process",
    }
    assert connected(spans)
    (audit,) = mainstem_log.read(f"{mainstem_topic}-audit")
    assert trace_of(audit) == next(span.trace_id for span in spans if span.name == f"{mainstem_topic} send")
