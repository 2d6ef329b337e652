"""The state of a stream as the sum of its events: ``advanced(state, event, offset, timestamp)``. Pure, immutable.

The state of a stream with few producers and forks is written with each record, so that a gateway reads one record to
know a stream. A larger state gets a record of its own (a touch) after each ``CHECKPOINT_EVERY`` others; every record
names the newest that has the state (``checkpoint``), and the records after it complete it. Producers and forks are
bounded: the producer that wrote longest ago is forgotten first.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Final

from pydantic import Field, TypeAdapter, ValidationError

from mainstem.gateway.durable.stream_config import StreamConfig
from mainstem.gateway.durable.stream_events import STATE, StreamEvent, header_of, not_ours
from mainstem.gateway.durable.stream_offsets import OFFSET_MAX, Length, StreamPosition
from mainstem.model import Record

PRODUCERS_MAX: Final = 500
FORKS_MAX: Final = 100
CHECKPOINT_EVERY: Final = 64
_SMALL_STATE_ENTRIES: Final = 4
UNKNOWN: Final = -2
"""The offset of a record that is not appended yet."""
_LATE: Final = 1.1
"""Reads are recorded after a tenth of the time to live, so a stream expires up to a tenth later, never earlier."""


@dataclass(frozen=True, slots=True)
class StreamState:
    """A stream that exists, after the record at ``last``. ``origin``: the offset of its creation."""

    config: StreamConfig
    origin: int
    last: int
    tail: StreamPosition
    touched_ms: int
    checkpoint: int
    since_checkpoint: int = 0
    is_closed: bool = False
    closed_by: tuple[str, int, int] | None = None
    seq: str | None = None
    is_deleted: bool = False
    """Deleted, and kept because forks need its name."""
    producers: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """Epoch and last sequence number by producer, the one that wrote last at the end."""
    forks: tuple[str, ...] = ()

    def is_expired(self, now_ms: int) -> bool:
        """Whether its time is over."""
        config = self.config
        if config.expires_ms is not None and now_ms >= config.expires_ms:
            return True
        return config.ttl_s is not None and now_ms >= self.touched_ms + config.ttl_s * 1_000 * _LATE

    def needs_touch(self, now_ms: int) -> bool:
        """Whether a read has to be recorded, so that the stream lives on."""
        ttl_s = self.config.ttl_s
        return ttl_s is not None and now_ms - self.touched_ms >= ttl_s * 1_000 * (_LATE - 1)

    @property
    def header(self) -> bytes:
        """The state as a record's header, without what the record's own offset says."""
        written = _WrittenState(
            self.config,
            self.origin,
            (self.tail.length, self.tail.record_offset),
            self.is_closed,
            self.closed_by,
            self.seq,
            self.is_deleted,
            dict(self.producers),
            self.forks,
        )
        return _WRITTEN.dump_json(written, exclude_defaults=True)

    @property
    def is_small(self) -> bool:
        """Whether every record carries the state."""
        return len(self.producers) + len(self.forks) + len(self.config.segments) <= _SMALL_STATE_ENTRIES

    @property
    def is_checkpoint_due(self) -> bool:
        """Whether a record of its own has to carry the state before more is appended."""
        return not self.is_small and self.since_checkpoint + 1 >= CHECKPOINT_EVERY


_MaybeUnknown = Annotated[int, Field(ge=UNKNOWN, le=OFFSET_MAX)]


@dataclass(frozen=True, slots=True)
class _WrittenState:
    """The header's form. An offset below 0 follows from that of the record."""

    config: StreamConfig
    origin: _MaybeUnknown
    tail: tuple[Length, _MaybeUnknown]
    closed: bool = False
    closed_by: tuple[str, int, int] | None = None
    seq: str | None = None
    deleted: bool = False
    producers: dict[str, tuple[int, int]] = field(default_factory=dict)
    forks: tuple[str, ...] = ()


_WRITTEN: Final = TypeAdapter(_WrittenState)


def state_of(record: Record) -> StreamState | None:
    """The state that a record carries, if it does. Raises UnsupportedFeatureError when another writer wrote it."""
    value = header_of(record, STATE)
    if value is None:
        return None
    try:
        written = _WRITTEN.validate_json(value, strict=True)
    except ValidationError as error:
        raise not_ours(record) from error
    offset, (length, record_offset) = record.offset, written.tail
    return StreamState(
        written.config,
        offset if written.origin < 0 else written.origin,
        offset,
        StreamPosition(length, offset + 1 if record_offset < 0 else record_offset),
        record.timestamp_ms,
        offset,
        0,
        written.closed,
        written.closed_by,
        written.seq,
        written.deleted,
        written.producers,
        written.forks,
    )


def advanced(
    state: StreamState | None, event: StreamEvent, offset: int, timestamp_ms: int, *, has_state: bool = True
) -> StreamState | None:
    """The state after an event; None when the stream does not exist then. ``has_state``: its record carries it."""
    if event.config is not None:
        state = _created(event, event.config, offset, timestamp_ms)
    elif state is None or (event.kind == "delete" and not event.keeps):
        return None
    elif event.kind == "append":
        state = _appended(state, event, offset)
    elif event.kind == "fork" and event.other is not None:
        state = replace(state, forks=(*state.forks, event.other))
    elif event.kind == "unfork":
        state = replace(state, forks=tuple(each for each in state.forks if each != event.other))
        if state.is_deleted and not state.forks:
            return None
    elif event.kind == "delete":
        state = replace(state, is_deleted=True)
    state = replace(state, last=offset, touched_ms=max(state.touched_ms, timestamp_ms))
    if has_state:
        return replace(state, checkpoint=offset, since_checkpoint=0)
    return replace(state, since_checkpoint=state.since_checkpoint + 1)


def _created(event: StreamEvent, config: StreamConfig, offset: int, timestamp_ms: int) -> StreamState:
    tail = StreamPosition(config.base.length + event.count, offset + 1) if event.count else config.base
    return StreamState(config, offset, offset, tail, timestamp_ms, offset, is_closed=event.closes)


def _appended(state: StreamState, event: StreamEvent, offset: int) -> StreamState:
    producers, by = state.producers, event.producer
    if by is not None:
        producers = {name: mark for name, mark in producers.items() if name != by[0]}
        producers[by[0]] = (by[1], by[2])
        if len(producers) > PRODUCERS_MAX:
            del producers[next(iter(producers))]
    return replace(
        state,
        tail=StreamPosition(state.tail.length + event.count, offset + 1) if event.count else state.tail,
        producers=producers,
        seq=state.seq if event.seq is None else event.seq,
        is_closed=state.is_closed or event.closes,
        closed_by=by if event.closes else state.closed_by,
    )
