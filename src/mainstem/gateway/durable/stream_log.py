"""Streams over ``Log``: their state, appends under the condition that nothing came between, and bounded reads.

1. The state of a stream is in its key's last record, or in the checkpoint that this record names and the records after
   it. A state that was read is kept, up to ``KEPT_BYTES`` in all, and is true as long as its record is the key's last
   one in the same topic: the key index says so in one request.
2. Every record is appended with the id of the topic and ``expect_key_offset``, the offset of the key's last record as
   the decision saw it. So decisions of several gateways on one stream never interleave: one is appended, and the others
   decide again.
3. A read ends at the tail of the state that it began with.

Blocking; safe from any thread.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Final, NamedTuple, TypeVar
from uuid import UUID

from mainstem.client.log import Log
from mainstem.client.read.key_reader import KeyReader
from mainstem.errors import (
    ConditionFailedError,
    IndexNotReadyError,
    InputError,
    OffsetOutOfRangeError,
    StreamRemovedError,
    UnavailableError,
    UnknownTopicError,
    UnsupportedFeatureError,
)
from mainstem.gateway.durable.stream_events import EVENT, STATE, StreamEvent, event_of
from mainstem.gateway.durable.stream_forks import parts_of
from mainstem.gateway.durable.stream_offsets import START, StreamPosition
from mainstem.gateway.durable.stream_state import CHECKPOINT_EVERY, UNKNOWN, StreamState, advanced, state_of
from mainstem.model import Record

KEPT_BYTES: Final = 64 << 20
_STATE_BYTES: Final = 1_024
_ENTRY_BYTES: Final = 600
_ATTEMPTS: Final = 20
_SEEN_S: Final = 2.0
_PAUSE_S: Final = 0.005
_ABSENT: Final = -1
_REMOVED: Final = "retention has removed records of this stream after this offset"
_Answer = TypeVar("_Answer")


class StreamName(NamedTuple):
    """A stream: the key of a topic."""

    topic: str
    key: str


class StreamFound(NamedTuple):
    """A stream as the log has it. ``state`` None: it does not exist. ``last``: the key's last offset, -1 without."""

    state: StreamState | None
    last: int
    partition: int
    topic_id: UUID
    """In a recreated topic no stream exists."""


class StreamPage(NamedTuple):
    """Data of a stream from ``start`` to ``end``, and the stream as it was when the read began."""

    found: StreamFound
    values: list[bytes]
    start: StreamPosition
    end: StreamPosition

    @property
    def state(self) -> StreamState:
        """The state, of a stream that exists."""
        assert self.found.state is not None
        return self.found.state

    @property
    def is_up_to_date(self) -> bool:
        """Whether it ends at the stream's tail."""
        return self.end.length >= self.state.tail.length

    @property
    def is_final(self) -> bool:
        """Whether nothing can follow."""
        return self.is_up_to_date and self.state.is_closed


class _OpenedStream(NamedTuple):
    """A stream, the reader that was opened to find it, and its last record if that was read."""

    found: StreamFound
    reader: KeyReader
    last_record: Record | None = None

    def between(self, start: int, stop: int) -> Iterable[Record]:
        """The stream's records from ``start`` to ``stop - 1``; the last one is not read twice."""
        reader, record = self.reader.between(start, stop), self.last_record
        return [record] if record is not None and reader.has_only(record.offset) else reader


class Proposal(NamedTuple):
    """An event to append, with its value (None: a tombstone)."""

    event: StreamEvent
    value: bytes | None = b""


class StreamLog:
    """The streams of a log."""

    def __init__(self, log: Log, kept_bytes: int = KEPT_BYTES) -> None:
        self._log = log
        self._kept_max = kept_bytes
        self._kept: OrderedDict[StreamName, StreamFound] = OrderedDict()
        self._kept_bytes = 0
        self._lock = threading.Lock()

    def now_ms(self) -> int:
        """The time by which streams expire."""
        return int(time.time() * 1_000)

    def find(self, name: StreamName) -> StreamFound:
        """The stream as the log has it now.

        Raises UnknownTopicError, UnsupportedFeatureError, IndexNotReadyError, LogUnavailableError, UnavailableError.
        """
        return self._opened(name, None).found

    def _opened(self, name: StreamName, position: StreamPosition | None) -> _OpenedStream:
        """The stream, with a reader of its key from ``position`` on."""
        until_s = time.monotonic() + _SEEN_S
        while True:
            reader = self._reader_from(name, position)
            last, known = reader.last_offset, self._known(name)
            [(tp, _)] = reader.end.items()
            assert last is not None
            if known is not None and known.topic_id == reader.topic_id and known.last >= last:
                return _OpenedStream(known, reader)
            if last == _ABSENT:
                absent = StreamFound(None, _ABSENT, tp.partition, reader.topic_id)
                return _OpenedStream(self._keep(name, absent), reader)
            record = next(reader.between(last, last + 1), None)
            if record is not None:
                return _OpenedStream(self._keep(name, self._loaded(name, reader, record)), reader, record)
            if time.monotonic() > until_s:  # its newest record is not durable yet, or of an open transaction
                raise UnavailableError(f"the newest record of {name.key[:100]!r} cannot be read yet; try again")
            time.sleep(_PAUSE_S)

    def change(self, name: StreamName, decide: Callable[[StreamFound], Proposal | _Answer]) -> StreamFound | _Answer:
        """Append what ``decide`` proposes, if nothing came between; else decide again.

        ``decide`` answers otherwise, or raises, when nothing is to be appended. Its first look may be at a kept state:
        only what it proposes counts then, since the append proves that state.
        Raises what an append raises, UnavailableError when others are faster again and again.
        """
        known = self._known(name)
        if known is not None and known.state is not None:
            appended = self._tried(name, known, decide)
            if appended is not None:
                return appended
        for _ in range(_ATTEMPTS):
            found = self.find(name)
            proposal = decide(found)
            if not isinstance(proposal, Proposal):
                return proposal
            after = self._appended(name, found, proposal)
            if after is not None:
                return after
        raise UnavailableError("many writers append to this stream at once; try again in a moment")

    def page(self, name: StreamName, position: StreamPosition | None, bytes_max: int) -> StreamPage:
        """Data from ``position`` on, a little over ``bytes_max`` at most; nothing from the tail on (None).

        Raises InputError, StreamRemovedError, and what ``find`` raises; the caller checks whether it may be read.
        """
        opened = self._opened(name, position)
        found, state = opened.found, opened.found.state
        if state is None or position is None or position == state.tail:
            at = START if state is None else state.tail
            return StreamPage(found, [], at, at)
        if position.length > state.tail.length:
            raise InputError(f"the offset {position.token} is not one of this stream")
        values: list[bytes] = []
        size_bytes, end = 0, position
        for record, event in self._data(name, opened, state, position):
            if event.before > end.length and not values:
                raise StreamRemovedError(_REMOVED)
            if event.before != end.length:
                raise InputError(f"the offset {position.token} is not one of this stream")
            values.append(record.value or b"")
            size_bytes += len(values[-1])
            end = StreamPosition(event.before + event.count, record.offset + 1)
            if size_bytes >= bytes_max:
                break
        else:
            if end.length != state.tail.length:
                raise StreamRemovedError(_REMOVED)
        return StreamPage(found, values, position, end)

    # ---- how

    def _data(
        self, name: StreamName, opened: _OpenedStream, state: StreamState, position: StreamPosition
    ) -> Iterator[tuple[Record, StreamEvent]]:
        """The records with data from a position on, of the streams that it was forked from, too."""
        [(_, seen_to)] = opened.reader.end.items()
        try:
            for part in parts_of(name.key, state, position):
                if part.key == name.key and part.stop <= seen_to:
                    records = opened.between(part.start, part.stop)
                else:
                    records = self._reader(StreamName(name.topic, part.key), part.start, part.stop)
                for record in records:
                    event = event_of(record)
                    if event.count:
                        yield record, event
        except OffsetOutOfRangeError as error:
            raise StreamRemovedError(_REMOVED) from error

    def _reader(self, name: StreamName, start: int | str, stop: int | None = None) -> KeyReader:
        reader = self._log.read_key(name.topic, name.key, start=start, end=stop)
        if reader.is_index_being_built:
            raise IndexNotReadyError(f"the streams of topic {name.topic!r} cannot be read yet: {reader.scan_reason}")
        if reader.scan_reason is not None:
            raise UnsupportedFeatureError(f"topic {name.topic!r} has no streams: {reader.scan_reason}")
        return reader

    def _reader_from(self, name: StreamName, position: StreamPosition | None) -> KeyReader:
        """A reader from a position that a client gave: of the tail alone when the log does not go so far."""
        if position is not None:
            with suppress(OffsetOutOfRangeError):
                return self._reader(name, position.record_offset)
        return self._reader(name, "latest")

    def _loaded(self, name: StreamName, reader: KeyReader, record: Record) -> StreamFound:
        """The stream by its last record."""
        last = record.offset
        event, state = event_of(record), state_of(record)
        if state is not None:
            return StreamFound(state, last, record.partition, reader.topic_id)
        if event.checkpoint is None:
            return StreamFound(None, last, record.partition, reader.topic_id)
        for index, each in enumerate(reader.between(event.checkpoint, last + 1)):
            if index == 0:
                state = state_of(each)
            else:
                state = advanced(state, event_of(each), each.offset, each.timestamp_ms, has_state=False)
            if index > 2 * CHECKPOINT_EVERY:
                raise UnsupportedFeatureError(f"{name.key[:100]!r} has records that were not written by /streams")
        return StreamFound(state, last, record.partition, reader.topic_id)

    def _tried(
        self, name: StreamName, known: StreamFound, decide: Callable[[StreamFound], Proposal | _Answer]
    ) -> StreamFound | None:
        """One try from a kept state; None when that settles nothing."""
        try:
            proposal = decide(known)
        except Exception:  # noqa: BLE001 - a refusal may be due to an old state: the caller decides on a new one
            return None
        return self._appended(name, known, proposal) if isinstance(proposal, Proposal) else None

    def _appended(self, name: StreamName, found: StreamFound, proposal: Proposal) -> StreamFound | None:
        """The stream after the append; None when something came between."""
        state = found.state
        if state is not None and state.is_checkpoint_due and proposal.event.kind != "touch":
            noted = self._appended(name, found, Proposal(StreamEvent("touch", state.tail.length)))
            if noted is None:
                return None
            found, state = noted, noted.state
        event, now_ms = proposal.event, self.now_ms()
        next_state = advanced(state, event, UNKNOWN, now_ms)
        has_state = next_state is not None and (next_state.is_small or event.kind in ("create", "touch"))
        if next_state is not None and not has_state and state is not None:
            event = replace(event, checkpoint=state.checkpoint)
        headers = [(EVENT, event.header)]
        if next_state is not None and has_state:
            headers.append((STATE, next_state.header))
        self._forget(name)  # until the outcome is known
        try:
            position = self._log.append(
                name.topic,
                proposal.value,
                key=name.key,
                headers=headers,
                timestamp_ms=now_ms,
                expect_key_offset=found.last,
                expect_topic_id=found.topic_id,
            )
        except (ConditionFailedError, UnknownTopicError):
            return None
        [(tp, after)] = position.items()
        next_state = advanced(state, event, after - 1, now_ms, has_state=has_state)
        return self._keep(name, StreamFound(next_state, after - 1, tp.partition, found.topic_id))

    def _known(self, name: StreamName) -> StreamFound | None:
        with self._lock:
            found = self._kept.get(name)
            if found is not None:
                self._kept.move_to_end(name)
            return found

    def _keep(self, name: StreamName, found: StreamFound) -> StreamFound:
        with self._lock:
            held = self._kept.get(name)
            if held is not None and held.topic_id == found.topic_id and held.last > found.last:
                return found  # another thread was faster and knows more
            self._drop(name)
            self._kept[name] = found
            self._kept_bytes += _size_bytes(found)
            while self._kept_bytes > self._kept_max and self._kept:
                self._drop(next(iter(self._kept)))
        return found

    def _forget(self, name: StreamName) -> None:
        with self._lock:
            self._drop(name)

    def _drop(self, name: StreamName) -> None:
        held = self._kept.pop(name, None)
        if held is not None:
            self._kept_bytes -= _size_bytes(held)


def followed(found: StreamFound, record: Record) -> StreamFound:
    """The stream after a record that came later. Raises UnsupportedFeatureError."""
    event = event_of(record)
    has_state = event.checkpoint is None
    state = advanced(found.state, event, record.offset, record.timestamp_ms, has_state=has_state)
    return StreamFound(state, record.offset, record.partition, found.topic_id)


def _size_bytes(found: StreamFound) -> int:
    state = found.state
    if state is None:
        return _STATE_BYTES
    return _STATE_BYTES + _ENTRY_BYTES * (len(state.producers) + len(state.forks) + len(state.config.segments))
