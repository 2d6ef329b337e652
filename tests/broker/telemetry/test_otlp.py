"""Reading OpenTelemetry's metrics: values, kinds, and input that is none."""

from __future__ import annotations

import contextlib
import random
import tracemalloc
import uuid

import pytest

from mainstem.broker.telemetry import otlp
from mainstem.broker.telemetry.otlp import MetricPoint, ReadMetrics
from mainstem.broker.telemetry.received_metrics import LABEL_ATTRIBUTES, ReceivedMetrics
from mainstem.errors import InvalidRecordError
from tests.broker.telemetry.payload import DELTA, field, gauge, metrics_data, point, total, varint, whole_point


def read_metrics(data: memoryview) -> ReadMetrics:
    return otlp.read_metrics(data, LABEL_ATTRIBUTES)


def test_gauges_and_sums_are_read_with_their_attributes() -> None:
    data = metrics_data(
        gauge("a", point(1.5, topic="t"), whole_point(-3)), total("b", point(2.0), temporality=DELTA), group_id="g"
    )
    read = read_metrics(memoryview(data))
    assert read.points == [
        MetricPoint("a", {"group_id": "g", "topic": "t"}, 1.5, False, False),
        MetricPoint("a", {"group_id": "g"}, -3, False, False),
        MetricPoint("b", {"group_id": "g"}, 2.0, True, True),
    ]


def test_other_kinds_and_points_over_the_limit_are_counted() -> None:
    histogram = field(1, b"h") + field(9, b"")
    many = gauge("a", *[whole_point(1)] * (otlp.POINTS_MAX + 5))
    read = read_metrics(memoryview(metrics_data(histogram, many)))
    assert (len(read.points), read.left_out) == (otlp.POINTS_MAX, 6)


def test_unknown_fields_are_passed_over() -> None:
    data = metrics_data(gauge("a", whole_point(1) + field(99, b"x") + varint(98 << 3) + b"\x05"))
    assert [each.value for each in read_metrics(memoryview(data + field(7, b"more"))).points] == [1]


@pytest.mark.parametrize(
    "data",
    [
        b"\x0a",
        b"\x0a\x05abc",
        b"\x08\x01",
        b"\x0b\x00",
        b"\xff" * 20,
        metrics_data(gauge("a", whole_point(1)))[:-3],
        metrics_data(field(1, b"\xff\xfe") + field(5, b"")),
    ],
)
def test_input_that_is_no_metrics_is_refused(data: bytes) -> None:
    with pytest.raises(InvalidRecordError):
        read_metrics(memoryview(data))


def test_too_many_fields_are_refused() -> None:
    with pytest.raises(InvalidRecordError, match="more than"):
        read_metrics(memoryview(b"\x12\x00" * (otlp.FIELDS_MAX + 1)))


def test_attributes_of_the_client_are_not_multiplied_by_its_points() -> None:
    many = b"".join(field(1, field(1, b"key%d" % number)) for number in range(20_000))
    metric = gauge("a", *[b""] * otlp.POINTS_MAX)
    data = memoryview(field(1, field(1, many) + field(2, field(2, metric))))
    tracemalloc.start()
    try:
        read = read_metrics(data)
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert len(read.points) == otlp.POINTS_MAX
    assert most < 4 << 20


def test_names_and_texts_are_cut_before_they_are_kept() -> None:
    name = "org.apache.kafka." + "é" * (1 << 20)
    read = read_metrics(memoryview(metrics_data(gauge(name, whole_point(1)), topic="t" * (1 << 20))))
    (found,) = read.points
    assert len(found.name.encode()) <= 1024 >= len(found.attributes["topic"])
    assert name.startswith(found.name)
    ReceivedMetrics(10).take(uuid.uuid4(), "c", read.points)


def test_flipped_bytes_never_raise_another_error() -> None:
    chosen = random.Random(5)
    whole = metrics_data(gauge("a", point(1.5, topic="t"), whole_point(-3)), total("b", point(2.0)), group_id="g")
    for _ in range(3000):
        damaged = bytearray(whole)
        for _ in range(chosen.randrange(1, 4)):
            damaged[chosen.randrange(len(damaged))] = chosen.randrange(256)
        with contextlib.suppress(InvalidRecordError):
            read_metrics(memoryview(damaged))
