"""Create, fork, append, close and delete. Blocking; safe from any thread, and from any number of gateways.

A fork takes two steps, so that its source knows of it first: the source notes the fork's name, then the fork is
created. A deletion goes the other way. A gateway that dies in between leaves a name too many in the source, which is
then kept by its name (410) where it could have been gone (404); no data depends on it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

from mainstem.errors import (
    InputError,
    OutcomeUnknownError,
    StreamConflictError,
    UnknownStreamError,
    UnsupportedFeatureError,
)
from mainstem.gateway.durable.stream_checks import check_append, existing, is_duplicate, matches
from mainstem.gateway.durable.stream_config import ForkSource, StreamConfig
from mainstem.gateway.durable.stream_events import StreamEvent
from mainstem.gateway.durable.stream_fields import AppendFields, CreateFields, ForkFields, type_or_default
from mainstem.gateway.durable.stream_forks import inherited
from mainstem.gateway.durable.stream_log import Proposal, StreamFound, StreamLog, StreamName
from mainstem.gateway.durable.stream_messages import StoredBody, head_of, joined, plain_type, stored
from mainstem.gateway.durable.stream_offsets import StreamPosition, may_grow
from mainstem.gateway.durable.stream_state import FORKS_MAX, StreamState
from mainstem.model import Position, TopicPartition

_EMPTY: Final = StoredBody(b"", 0)


class StreamOutcome(NamedTuple):
    """The outcome of a request. ``is_new``: it changed the stream; False for a repeat."""

    found: StreamFound
    is_new: bool

    @property
    def state(self) -> StreamState:
        """The stream after the request."""
        assert self.found.state is not None
        return self.found.state

    def position(self, topic: str) -> Position:
        """The position just after the stream's last record, to read one's own write by."""
        return Position({TopicPartition(topic, self.found.partition): self.found.last + 1})


@dataclass(frozen=True, slots=True)
class _Plan:
    """A fork that is to be created."""

    config: StreamConfig
    source: StreamName
    prefix: StoredBody


class StreamChanges:
    """The changes of streams."""

    def __init__(self, streams: StreamLog) -> None:
        self._streams = streams

    def create(self, name: StreamName, fields: CreateFields, body: bytes) -> StreamOutcome:
        """Create the stream, or find that it is there already, as it is asked for.

        Raises StreamConflictError, InputError, and for a fork UnknownStreamError.
        """
        found = self._streams.find(name)
        if self._is_there(found, fields):
            return StreamOutcome(found, is_new=False)
        if fields.fork is None:
            config = StreamConfig(type_or_default(fields.content_type), fields.ttl_s, fields.expires_ms)
            return self._created(name, fields, config, _body(config, body))
        plan = self._planned(name, fields, fields.fork)
        data = _joined(plan.config, plan.prefix, _body(plan.config, body))
        try:
            outcome = self._created(name, fields, plan.config, data)
        except OutcomeUnknownError:
            raise  # the fork may be there
        except BaseException:
            self._release(plan.source, plan.config.source, name.key)
            self._keep_note(name)  # another gateway may have created it
            raise
        self._keep_note(name)
        return outcome

    def append(self, name: StreamName, fields: AppendFields, body: bytes) -> StreamOutcome:
        """Append, close, or both. Raises UnknownStreamError, StreamRemovedError, StreamRefusedError and others."""
        if not body and not fields.closed:
            raise InputError("an append needs a body; Stream-Closed: true closes a stream without one")

        def decide(found: StreamFound) -> Proposal | StreamOutcome:
            state = existing(found.state, self._streams.now_ms())
            if is_duplicate(state, fields):
                if not state.is_closed or _closed_by(state, fields) or not fields.closed:
                    return StreamOutcome(found, is_new=False)
            elif state.is_closed and not body and fields.producer is None:
                return StreamOutcome(found, is_new=False)
            check_append(state, fields, has_body=bool(body))
            data = stored(state.config.content_type, body) if body else _EMPTY
            if body and not data.count:
                raise InputError("an empty array appends nothing")
            return Proposal(_append_event(state, fields, data), data.value)

        return _outcome(self._streams.change(name, decide))

    def touch(self, name: StreamName) -> None:
        """Note a read, if the stream has a time to live and the last note is old."""

        def decide(found: StreamFound) -> Proposal | StreamFound:
            now_ms, state = self._streams.now_ms(), found.state
            if state is None or state.is_deleted or state.is_expired(now_ms) or not state.needs_touch(now_ms):
                return found
            return Proposal(StreamEvent("touch", state.tail.length))

        self._streams.change(name, decide)

    def delete(self, name: StreamName) -> None:
        """Delete the stream; its name stays taken while forks of it exist. Raises as ``append``."""
        sources: list[ForkSource | None] = []

        def decide(found: StreamFound) -> Proposal:
            state = existing(found.state, self._streams.now_ms())
            sources[:] = [None if state.forks else state.config.source]
            if state.forks:
                return Proposal(StreamEvent("delete", state.tail.length, keeps=True))
            return Proposal(StreamEvent("delete", state.tail.length), None)

        self._streams.change(name, decide)
        if sources[0] is not None:
            self._release(name, sources[0], name.key)
            self._keep_note(name)

    # ---- how

    def _is_there(self, found: StreamFound, fields: CreateFields) -> bool:
        """Whether the stream is there as it is asked for. Raises StreamConflictError when it is there otherwise."""
        state = found.state
        if state is None or state.is_expired(self._streams.now_ms()):
            return False
        if state.is_deleted:
            raise StreamConflictError("the stream was deleted; forks of it still exist, so its name stays taken")
        if not matches(state, fields):
            raise StreamConflictError("the stream exists already with another configuration")
        return True

    def _created(self, name: StreamName, fields: CreateFields, config: StreamConfig, data: StoredBody) -> StreamOutcome:
        event = StreamEvent("create", config.base.length, data.count, config, closes=fields.closed)

        def decide(found: StreamFound) -> Proposal | StreamOutcome:
            is_there = self._is_there(found, fields)
            return StreamOutcome(found, is_new=False) if is_there else Proposal(event, data.value)

        return _outcome(self._streams.change(name, decide))

    def _planned(self, name: StreamName, fields: CreateFields, fork: ForkFields) -> _Plan:
        """Note the fork in its source, and say how to create it."""
        source = StreamName(name.topic, fork.source)
        plans: list[_Plan] = []

        def decide(found: StreamFound) -> Proposal | None:
            state = self._source(found, fields)
            plans[:] = [self._plan(source, state, fields, fork)]
            if name.key in state.forks:
                return None  # an earlier request has noted it, or one that runs beside this
            if len(state.forks) >= FORKS_MAX:
                raise UnsupportedFeatureError(f"a stream has at most {FORKS_MAX} forks")
            return Proposal(StreamEvent("fork", state.tail.length, other=name.key))

        if source == name:
            raise StreamConflictError("a stream cannot be a fork of itself")
        self._streams.change(source, decide)
        return plans[0]

    def _keep_note(self, name: StreamName) -> None:
        """Note a fork in its source again, if a request about an earlier fork of that name has removed the note."""
        state = self._streams.find(name).state
        source = None if state is None else state.config.source
        if source is None:
            return
        origin = source.origin

        def decide(found: StreamFound) -> Proposal | None:
            held = found.state
            if held is None or held.origin != origin or name.key in held.forks:
                return None
            return Proposal(StreamEvent("fork", held.tail.length, other=name.key))

        self._streams.change(StreamName(name.topic, source.key), decide)

    def _source(self, found: StreamFound, fields: CreateFields) -> StreamState:
        state = found.state
        if state is None or state.is_expired(self._streams.now_ms()):
            raise UnknownStreamError("there is no stream to fork from")
        if state.is_deleted:
            raise StreamConflictError("the stream to fork from was deleted")
        if fields.content_type is not None and plain_type(fields.content_type) != plain_type(state.config.content_type):
            raise StreamConflictError(f"a fork takes its source's content type, {state.config.content_type}")
        return state

    def _plan(self, source: StreamName, state: StreamState, fields: CreateFields, fork: ForkFields) -> _Plan:
        at = state.tail if fork.position is None else fork.position
        if at.length > state.tail.length:
            raise InputError("Stream-Fork-Offset is after the end of the stream")
        base, prefix = self._cut(source, at, fork.sub_offset) if fork.sub_offset else (at, _EMPTY)
        own = fields.ttl_s is not None or fields.expires_ms is not None
        config = StreamConfig(
            state.config.content_type if fields.content_type is None else fields.content_type,
            fields.ttl_s if own else state.config.ttl_s,
            fields.expires_ms if own else state.config.expires_ms,
            ForkSource(source.key, state.origin, at.token, fork.sub_offset),
            inherited(source.key, state, base),
            base,
        )
        return _Plan(config, source, prefix)

    def _cut(self, source: StreamName, at: StreamPosition, count: int) -> tuple[StreamPosition, StoredBody]:
        """Where a fork begins that inherits a part of one record, and that part. Raises InputError."""
        page = self._streams.page(source, at, 1)
        size = page.end.length - at.length
        if count > size:
            raise InputError(f"Stream-Fork-Sub-Offset {count} is past the end of the append, which has {size}")
        if count == size:
            return page.end, _EMPTY
        return at, StoredBody(head_of(page.state.config.content_type, page.values[0], count), count)

    def _release(self, of: StreamName, source: ForkSource | None, fork: str) -> None:
        """Take a deleted fork out of its source; a deleted source without other forks goes, too."""
        while source is not None:
            name, origin, gone = StreamName(of.topic, source.key), source.origin, fork
            following: list[ForkSource | None] = [None]

            def decide(
                found: StreamFound,
                origin: int = origin,
                gone: str = gone,
                following: list[ForkSource | None] = following,
            ) -> Proposal | None:
                state = found.state
                following[:] = [None]
                if state is None or state.origin != origin or gone not in state.forks:
                    return None
                ends = state.is_deleted and all(each == gone for each in state.forks)
                if ends:
                    following[:] = [state.config.source]
                return Proposal(StreamEvent("unfork", state.tail.length, other=gone), None if ends else b"")

            self._streams.change(name, decide)
            source, fork = following[0], name.key


def _body(config: StreamConfig, body: bytes) -> StoredBody:
    return stored(config.content_type, body) if body else _EMPTY


def _joined(config: StreamConfig, first: StoredBody, second: StoredBody) -> StoredBody:
    parts = [each for each in (first, second) if each.count]
    if len(parts) < 2:
        return parts[0] if parts else _EMPTY
    return StoredBody(joined(config.content_type, [each.value for each in parts]), first.count + second.count)


def _append_event(state: StreamState, fields: AppendFields, data: StoredBody) -> StreamEvent:
    if not may_grow(state.tail.length, data.count):
        raise UnsupportedFeatureError("the stream is as long as a stream can be")
    by = fields.producer
    producer = None if by is None else (by.producer, by.epoch, by.seq)
    return StreamEvent("append", state.tail.length, data.count, producer=producer, seq=fields.seq, closes=fields.closed)


def _closed_by(state: StreamState, fields: AppendFields) -> bool:
    by = fields.producer
    return by is not None and state.closed_by == (by.producer, by.epoch, by.seq)


def _outcome(result: StreamFound | StreamOutcome) -> StreamOutcome:
    if isinstance(result, StreamOutcome):
        return result
    return StreamOutcome(result, is_new=True)
