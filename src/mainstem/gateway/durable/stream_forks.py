"""Where the data of a stream lies: in its own key, and for a fork in those of its sources. Pure functions.

A fork copies nothing. Its configuration names the segments that it inherits, of all streams up the chain, so that a
read needs the state of the fork alone. A length is the same position in a source and in its forks; it belongs to the
segment that begins there.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from mainstem.errors import InputError, StreamRemovedError, UnsupportedFeatureError
from mainstem.gateway.durable.stream_config import StreamSegment
from mainstem.gateway.durable.stream_offsets import StreamPosition
from mainstem.gateway.durable.stream_state import StreamState

CHAIN_MAX: Final = 16


class StreamPart(NamedTuple):
    """Records of a key, from ``start`` to before ``stop``."""

    key: str
    start: int
    stop: int


def parts_of(key: str, state: StreamState, position: StreamPosition) -> Iterator[StreamPart]:
    """The parts that have the data from a position on, in order. Raises InputError, StreamRemovedError."""
    for segment in _segments(key, state):
        if position.length >= segment.end:
            continue
        start = segment.start
        if position.length > segment.begin:
            start = position.record_offset
            if start <= segment.start:
                raise StreamRemovedError(f"the offset {position.token} is of a stream that was deleted")
            if start >= segment.stop:
                raise InputError(f"the offset {position.token} is not one of this stream")
        yield StreamPart(segment.key, start, segment.stop)


def inherited(key: str, state: StreamState, position: StreamPosition) -> tuple[StreamSegment, ...]:
    """The segments of a fork of ``state`` at a position. Raises UnsupportedFeatureError for too long a chain."""
    segments = []
    for each in _segments(key, state):
        if position.length >= each.end:
            segments.append(each)
        elif position.length > each.begin:
            segments.append(each._replace(end=position.length, stop=position.record_offset))
    if len(segments) > CHAIN_MAX:
        raise UnsupportedFeatureError(f"a chain of forks has at most {CHAIN_MAX} streams with data")
    return tuple(segments)


def _segments(key: str, state: StreamState) -> tuple[StreamSegment, ...]:
    base, tail = state.config.base, state.tail
    if tail.length == base.length:
        return state.config.segments
    own = StreamSegment(key, base.length, tail.length, state.origin, tail.record_offset)
    return (*state.config.segments, own)
