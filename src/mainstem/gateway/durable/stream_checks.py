"""Whether a request fits a stream's state: the checks of the protocol, in its order. Pure functions.

A refusal is an error of our tree; the headers that the protocol puts beside it travel with it (``StreamRefusedError``).
"""

from __future__ import annotations

from typing import Final

from mainstem.errors import (
    InputError,
    MainstemError,
    StaleProducerError,
    StreamConflictError,
    StreamRemovedError,
    UnknownStreamError,
)
from mainstem.gateway.durable.stream_fields import AppendFields, CreateFields, ProducerFields, type_or_default
from mainstem.gateway.durable.stream_messages import plain_type
from mainstem.gateway.durable.stream_state import StreamState

NEXT_OFFSET: Final = "Stream-Next-Offset"
CLOSED: Final = "Stream-Closed"


class StreamRefusedError(Exception):
    """A refusal with headers of the protocol."""

    def __init__(self, error: MainstemError, headers: dict[str, str]) -> None:
        super().__init__(str(error))
        self.error = error
        self.headers = headers


def existing(state: StreamState | None, now_ms: int) -> StreamState:
    """The state of a stream that may be used. Raises UnknownStreamError, StreamRemovedError."""
    if state is None or state.is_expired(now_ms):
        raise UnknownStreamError("there is no such stream; PUT creates it")
    if state.is_deleted:
        raise StreamRemovedError("the stream was deleted; forks of it still exist, so its name stays taken")
    return state


def is_duplicate(state: StreamState, fields: AppendFields) -> bool:
    """Whether a producer has made this append before. Raises StreamRefusedError, InputError."""
    producer = fields.producer
    if producer is None:
        return False
    known = state.producers.get(producer.producer)
    if known is None:
        if producer.seq != 0:
            raise _gap(producer, 0)
        return False
    epoch, seq = known
    if producer.epoch < epoch:
        raise StreamRefusedError(
            StaleProducerError(f"a producer with epoch {epoch} has written since: this one is fenced"),
            {"Producer-Epoch": str(epoch)},
        )
    if producer.epoch > epoch:
        if producer.seq != 0:
            raise InputError("a new Producer-Epoch begins with Producer-Seq 0")
        return False
    if producer.seq > seq + 1:
        raise _gap(producer, seq + 1)
    return producer.seq <= seq


def check_append(state: StreamState, fields: AppendFields, *, has_body: bool) -> None:
    """Refuse an append that does not fit. Raises StreamRefusedError, InputError, StreamConflictError."""
    if state.is_closed:
        raise StreamRefusedError(
            StreamConflictError("the stream is closed"), {CLOSED: "true", NEXT_OFFSET: state.tail.token}
        )
    if has_body:
        if fields.content_type is None:
            raise InputError("an append needs a Content-Type")
        if plain_type(fields.content_type) != plain_type(state.config.content_type):
            raise StreamConflictError(f"the stream takes {state.config.content_type}, not {fields.content_type}")
    if fields.seq is not None and state.seq is not None and fields.seq.encode() <= state.seq.encode():
        raise StreamConflictError(f"Stream-Seq {fields.seq[:100]!r} is not after {state.seq[:100]!r}")


def matches(state: StreamState, fields: CreateFields) -> bool:
    """Whether an existing stream is the one that a PUT asks for."""
    config, fork = state.config, fields.fork
    if fields.closed != state.is_closed:
        return False
    if fork is not None:
        return _matches_fork(state, fields)
    return (
        plain_type(type_or_default(fields.content_type)) == plain_type(config.content_type)
        and fields.ttl_s == config.ttl_s
        and fields.expires_ms == config.expires_ms
    )


def _matches_fork(state: StreamState, fields: CreateFields) -> bool:
    config, fork = state.config, fields.fork
    source = config.source
    assert fork is not None
    if source is None or source.key != fork.source or source.sub_offset != fork.sub_offset:
        return False
    if fork.position is not None and fork.position.token != source.token:
        return False
    if fields.content_type is not None and plain_type(fields.content_type) != plain_type(config.content_type):
        return False
    if fields.ttl_s is None and fields.expires_ms is None:
        return True  # inherited
    return (fields.ttl_s, fields.expires_ms) == (config.ttl_s, config.expires_ms)


def _gap(producer: ProducerFields, expected: int) -> StreamRefusedError:
    return StreamRefusedError(
        StreamConflictError(f"Producer-Seq {producer.seq} came before {expected}"),
        {"Producer-Expected-Seq": str(expected), "Producer-Received-Seq": str(producer.seq)},
    )
