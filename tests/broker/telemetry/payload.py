"""Metrics as OpenTelemetry's protobuf encoding, for tests."""

from __future__ import annotations

import struct

DELTA = 1
CUMULATIVE = 2


def varint(number: int) -> bytes:
    """One number of variable length."""
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def field(number: int, content: bytes) -> bytes:
    """A field of bytes: a string or a message."""
    return varint(number << 3 | 2) + varint(len(content)) + content


def attribute(number: int, key: str, text: str) -> bytes:
    """A pair of a key and a string, in a field of that number."""
    return field(number, field(1, key.encode()) + field(2, field(1, text.encode())))


def point(value: float, **attributes: str) -> bytes:
    """A point with a double."""
    pairs = b"".join(attribute(7, key, text) for key, text in attributes.items())
    return varint(4 << 3 | 1) + struct.pack("<d", value) + pairs


def whole_point(value: int) -> bytes:
    """A point with a whole number."""
    return varint(6 << 3 | 1) + struct.pack("<q", value)


def gauge(name: str, *points: bytes) -> bytes:
    """A metric that goes up and down."""
    return field(1, name.encode()) + field(5, b"".join(field(1, each) for each in points))


def total(name: str, *points: bytes, temporality: int = CUMULATIVE) -> bytes:
    """A metric that only grows."""
    held = b"".join(field(1, each) for each in points)
    return field(1, name.encode()) + field(7, held + varint(2 << 3) + varint(temporality) + varint(3 << 3) + b"\x01")


def metrics_data(*metrics: bytes, **resource: str) -> bytes:
    """The whole message."""
    pairs = b"".join(attribute(1, key, text) for key, text in resource.items())
    return field(1, field(1, pairs) + field(2, b"".join(field(2, each) for each in metrics)))
