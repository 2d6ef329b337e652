"""Reads OpenTelemetry's ``MetricsData`` in protobuf encoding: gauges and sums, as Kafka's clients send them.

The format is stable and small, so the log reads it itself and needs no protobuf library. Whatever the input is, the
reader visits at most ``FIELDS_MAX`` fields and returns at most ``POINTS_MAX`` points. Each has the attributes that are
wanted, no others, and names and texts are cut: a message of few bytes must not become much memory. Other kinds of
metrics, such as histograms, are counted and left out. Pure functions; safe from any thread.
"""

from __future__ import annotations

import codecs
import struct
from collections.abc import Container, Iterator
from typing import Final, NamedTuple, TypeAlias

from mainstem.errors import InvalidRecordError

FIELDS_MAX: Final = 100_000
POINTS_MAX: Final = 2000
_TEXT_BYTES_MAX: Final = 1024
"""More of a name or of an attribute's text is not read: it would not be shown."""
_VARINT: Final = 0
_FIXED64: Final = 1
_BYTES: Final = 2
_FIXED32: Final = 5
_VARINT_BITS: Final = 64
_DOUBLE: Final = struct.Struct("<d")
_INT64: Final = struct.Struct("<q")
_DELTA: Final = 1

# Numbers of fields, by message.
_RESOURCE_METRICS: Final = 1
_RESOURCE, _SCOPE_METRICS = 1, 2
_ATTRIBUTES_OF_RESOURCE: Final = 1
_METRIC: Final = 2
_NAME, _GAUGE, _SUM = 1, 5, 7
_OTHER_KINDS: Final = frozenset({9, 10, 11})
_POINT, _TEMPORALITY, _IS_MONOTONIC = 1, 2, 3
_AS_DOUBLE, _AS_INT, _ATTRIBUTES_OF_POINT = 4, 6, 7
_KEY, _VALUE = 1, 2
_STRING_VALUE, _BOOL_VALUE, _INT_VALUE, _DOUBLE_VALUE = 1, 2, 3, 4

_Field: TypeAlias = "tuple[int, int, int | memoryview]"


class MetricPoint(NamedTuple):
    """One value. ``attributes``: the wanted ones of client and point. ``is_delta``: the change since the last."""

    name: str
    attributes: dict[str, str]
    value: float
    is_monotonic: bool
    is_delta: bool


class ReadMetrics(NamedTuple):
    """The content of a message; ``left_out`` counts metrics of other kinds, and points over the limit."""

    points: list[MetricPoint]
    left_out: int


def read_metrics(data: memoryview, attributes: Container[str]) -> ReadMetrics:
    """Read a message; of the attributes those of these names. Raises InvalidRecordError when it is not one, or has too
    many fields.
    """
    reader = _Reader(attributes)
    try:
        reader.metrics_data(data)
    except (IndexError, struct.error, UnicodeDecodeError, TypeError) as error:
        raise InvalidRecordError(f"the metrics are not OpenTelemetry's MetricsData: {error}") from error
    return ReadMetrics(reader.points, reader.left_out)


class _Reader:
    def __init__(self, wanted_attributes: Container[str]) -> None:
        self._wanted_attributes = wanted_attributes
        self.points: list[MetricPoint] = []
        self.left_out = 0
        self._fields = 0

    def metrics_data(self, data: memoryview) -> None:
        for number, _, value in self._fields_of(data):
            if number == _RESOURCE_METRICS:
                self._resource_metrics(_nested(value))

    def _resource_metrics(self, data: memoryview) -> None:
        attributes: dict[str, str] = {}
        scopes = []
        for number, _, value in self._fields_of(data):
            if number == _RESOURCE:
                attributes = self._attributes(_nested(value), _ATTRIBUTES_OF_RESOURCE)
            elif number == _SCOPE_METRICS:
                scopes.append(_nested(value))
        for scope in scopes:
            for number, _, value in self._fields_of(scope):
                if number == _METRIC:
                    self._metric(_nested(value), attributes)

    def _metric(self, data: memoryview, attributes: dict[str, str]) -> None:
        name = ""
        kinds = []
        for number, _, value in self._fields_of(data):
            if number == _NAME:
                name = _text(value)
            elif number in (_GAUGE, _SUM):
                kinds.append((number, _nested(value)))
            elif number in _OTHER_KINDS:
                self.left_out += 1
        for number, kind in kinds:
            self._points_of(name, kind, attributes, is_sum=number == _SUM)

    def _points_of(self, name: str, data: memoryview, attributes: dict[str, str], *, is_sum: bool) -> None:
        points = []
        temporality = is_monotonic = 0
        for number, _, value in self._fields_of(data):
            if number == _POINT:
                points.append(_nested(value))
            elif is_sum and number == _TEMPORALITY:
                temporality = _whole(value)
            elif is_sum and number == _IS_MONOTONIC:
                is_monotonic = _whole(value)
        for point in points:
            if len(self.points) >= POINTS_MAX:
                self.left_out += 1
                continue
            number_of, own = self._point(point)
            self.points.append(
                MetricPoint(name, {**attributes, **own}, number_of, bool(is_monotonic), temporality == _DELTA)
            )

    def _point(self, data: memoryview) -> tuple[float, dict[str, str]]:
        number_of = 0.0
        for number, wire, value in self._fields_of(data):
            if number == _AS_DOUBLE and wire == _FIXED64:
                number_of = _DOUBLE.unpack(_nested(value))[0]
            elif number == _AS_INT and wire == _FIXED64:
                number_of = _INT64.unpack(_nested(value))[0]
        return number_of, self._attributes(data, _ATTRIBUTES_OF_POINT)

    def _attributes(self, data: memoryview, wanted: int) -> dict[str, str]:
        attributes = {}
        for number, _, value in self._fields_of(data):
            if number == wanted:
                key, text = "", ""
                for of_pair, _, held in self._fields_of(_nested(value)):
                    if of_pair == _KEY:
                        key = _text(held)
                    elif of_pair == _VALUE:
                        text = self._any_value(_nested(held))
                if key in self._wanted_attributes:
                    attributes[key] = text
        return attributes

    def _any_value(self, data: memoryview) -> str:
        text = ""
        for number, _, value in self._fields_of(data):
            if number == _STRING_VALUE:
                text = _text(value)
            elif number == _BOOL_VALUE:
                text = "true" if _whole(value) else "false"
            elif number == _INT_VALUE:
                whole = _whole(value)
                text = str(whole - (1 << 64) if whole >> 63 else whole)
            elif number == _DOUBLE_VALUE:
                text = repr(_DOUBLE.unpack(_nested(value))[0])
        return text

    def _fields_of(self, data: memoryview) -> Iterator[_Field]:
        """Each field: its number, its wire type, and its number or bytes. Raises InvalidRecordError."""
        at, end = 0, len(data)
        while at < end:
            self._fields += 1
            if self._fields > FIELDS_MAX:
                raise InvalidRecordError(f"the metrics have more than {FIELDS_MAX} fields: subscribe to fewer")
            tag, at = _varint(data, at)
            wire = tag & 7
            if wire == _VARINT:
                whole, at = _varint(data, at)
                yield tag >> 3, wire, whole
                continue
            if wire == _BYTES:
                size, at = _varint(data, at)
            elif wire in (_FIXED64, _FIXED32):
                size = 8 if wire == _FIXED64 else 4
            else:
                raise InvalidRecordError(f"the metrics have a field of the unknown wire type {wire}")
            if size > end - at:
                raise InvalidRecordError(f"the metrics have a field of {size} bytes, where {end - at} are left")
            yield tag >> 3, wire, data[at : at + size]
            at += size


def _nested(value: int | memoryview) -> memoryview:
    if isinstance(value, int):
        raise TypeError("a number stands where bytes are expected")
    return value


def _text(value: int | memoryview) -> str:
    """The text, cut. Raises UnicodeDecodeError where what is left is none."""
    data = _nested(value)
    return codecs.utf_8_decode(data[:_TEXT_BYTES_MAX], "strict", len(data) <= _TEXT_BYTES_MAX)[0]


def _whole(value: int | memoryview) -> int:
    if not isinstance(value, int):
        raise TypeError("bytes stand where a number is expected")
    return value


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    """The number at ``at``, and where it ends. Raises IndexError at the end of the data, InvalidRecordError."""
    number = shift = 0
    while True:
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, at
        shift += 7
        if shift >= _VARINT_BITS:
            raise InvalidRecordError("the metrics have a number of more than ten bytes")
