"""``GET /topics/{topic}/stream``: a topic's committed records as events, from a position on, without end.

1. Before the stream begins: the start becomes an offset of each partition, and is checked; an error is a problem
   document.
2. The past is read in pieces, each by one of ``_PAST_READERS_MAX`` threads, so that many readers who come back at once
   take turns. A reader of one key follows the topic's key index if it has one.
3. At the end of its past the reader joins the topic's tail (``topic_tail``), which it shares with all others.

In each partition events come in the log's order, without a gap and without a repeat. Damaged records end a stream with
an error. With ``on_damaged=skip`` the stream steps over them: the tail ends at the damaged records, the reader returns
to step 2, reads its past after them, and then joins a new tail. ``TopicStreams`` belongs to one event loop.
"""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

from mainstem.client.log import Log
from mainstem.client.read.reader import BoundedReader
from mainstem.encodings.encoded_records import encoded_records
from mainstem.errors import DamagedRecordsError, OffsetOutOfRangeError, UnavailableError
from mainstem.gateway.http.blocking import Workers
from mainstem.gateway.streams.event_format import beat, opening
from mainstem.gateway.streams.event_stream import BEAT_S
from mainstem.gateway.streams.topic_frames import Offsets, Piece, RecordFilter, offsets_in, piece_of, position_text
from mainstem.gateway.streams.topic_tail import RING_BYTES, TopicTail
from mainstem.gateway.topics.reads import moment
from mainstem.model import OnDamaged, Position, Record, TopicPartition
from mainstem.record.partitioner import partition_for

_LOG: Final = logging.getLogger(__name__)
_PAST_READERS_MAX: Final = 8
_TAILS_MAX: Final = 64
_PAST_BYTES: Final = 256 << 10
_KEY_RECORDS_MAX: Final = 100


@dataclass(frozen=True, slots=True)
class TopicStart:
    """Where a reader begins, and what it wants. ``by_index``: its key's past is found through the key index.

    ``key`` is the wanted key as the topic has it; ``wanted`` has it as records are shown.
    """

    topic: str
    offsets: Offsets
    wanted: RecordFilter
    by_index: bool
    on_damaged: OnDamaged
    key: bytes | None


class TopicStreams:
    """The readers of topics in one gateway."""

    def __init__(self, log: Log, *, beat_s: float = BEAT_S, ring_bytes: int = RING_BYTES) -> None:
        self._log = log
        self._beat_s = beat_s
        self._ring_bytes = ring_bytes
        self._tails: dict[str, TopicTail] = {}
        self._followers = Workers(_TAILS_MAX)
        self._past = Workers(_PAST_READERS_MAX)

    async def start(self, topic: str, start: str, wanted: RecordFilter, on_damaged: OnDamaged = "stop") -> TopicStart:
        """Find out where to begin.

        Raises UnknownTopicError, InputError, PositionError, OffsetOutOfRangeError, UnavailableError.
        """
        found = await self._past.run(_start, self._log, topic, start, wanted, on_damaged)
        if topic not in self._tails and len(self._tails) >= _TAILS_MAX:
            raise UnavailableError(f"{_TAILS_MAX} topics are being followed already; try again later")
        return found

    async def events(self, start: TopicStart) -> AsyncGenerator[bytes, None]:
        """The blocks of one stream."""
        reader = _Reader(start, self._log, self._past, self._beat_s)
        yield opening(reader.position)
        while True:
            async with self._holding(start.topic) as tail:
                while True:
                    number, target = tail.number, tail.offsets
                    async for block in reader.past(target):
                        yield block
                    if tail.join(number):
                        break
                try:
                    async for block in reader.follow(tail, number, target):
                        yield block
                except DamagedRecordsError as error:
                    if start.on_damaged == "stop":
                        raise
                    _LOG.warning("a stream goes on after damage: %s", error)
                finally:
                    tail.leave()

    @asynccontextmanager
    async def _holding(self, topic: str) -> AsyncGenerator[TopicTail, None]:
        tail = self._tails.get(topic)
        if tail is None or tail.has_failed:
            tail = self._tails[topic] = TopicTail(self._log, topic, self._followers, self._ring_bytes)
        tail.readers += 1
        try:
            await tail.opened()
            yield tail
        finally:
            tail.readers -= 1
            if tail.readers == 0:
                tail.close()
                if self._tails.get(topic) is tail:
                    del self._tails[topic]


class _Reader:
    """One reader: its position, and the time of its last event or heartbeat."""

    def __init__(self, start: TopicStart, log: Log, workers: Workers, beat_s: float) -> None:
        self._start = start
        self._wanted = start.wanted
        self._offsets = dict(start.offsets)
        self._log = log
        self._workers = workers
        self._beat_s = beat_s
        self._alive_s = time.monotonic()

    @property
    def position(self) -> str:
        return position_text(self._start.topic, self._wanted.of(self._offsets))

    async def past(self, target: Offsets) -> AsyncGenerator[bytes, None]:
        """Read up to ``target``, where that is ahead."""
        end = {**self._offsets, **self._wanted.of(target)}
        while any(self._offsets.get(partition, 0) < offset for partition, offset in end.items()):
            piece = await self._workers.run(_past_piece, self._log, self._start, dict(self._offsets), end)
            frames = piece.frames(self._wanted)
            self._offsets = piece.end
            async for block in self._blocks(frames):
                yield block

    async def follow(self, tail: TopicTail, number: int, target: Offsets) -> AsyncGenerator[bytes, None]:
        """Go on with the tail, which stood at ``target`` before the piece ``number``."""
        ahead = {partition: offset for partition, offset in self._offsets.items() if offset > target.get(partition, 0)}
        while True:
            piece = await tail.piece(number, self._beat_s)
            if piece is None:
                async for block in self._blocks(b""):
                    yield block
                continue
            number += 1
            frames = piece.frames_after(self._wanted, ahead) if ahead else piece.frames(self._wanted)
            ahead = {partition: offset for partition, offset in ahead.items() if offset > piece.end.get(partition, 0)}
            self._offsets = {**piece.end, **ahead}
            async for block in self._blocks(frames):
                yield block

    async def _blocks(self, frames: bytes) -> AsyncGenerator[bytes, None]:
        """The events, if there are any; else a heartbeat when one is due."""
        now_s = time.monotonic()
        if frames:
            yield frames
        elif now_s - self._alive_s >= self._beat_s:
            yield beat(self.position)
        else:
            return
        self._alive_s = time.monotonic()


def _start(log: Log, topic: str, words: str, wanted: RecordFilter, on_damaged: OnDamaged) -> TopicStart:
    reader = log.read(topic, start=moment(words, topic))
    offsets = offsets_in(reader.position)
    key: bytes | None = None
    if wanted.key is not None:
        key = encoded_records(log).encoded_key(topic, wanted.key)
        wanted = RecordFilter(wanted.key, partition_for(key, len(offsets)), wanted.route)
    for tp, beginning in log.beginning(topic).items():
        offset = offsets.get(tp.partition, 0)
        if offset < beginning and tp.partition in wanted.of(offsets):
            raise OffsetOutOfRangeError(
                f"{tp}:{offset} was removed from the log, which begins at {tp}:{beginning}; begin with from=earliest"
            )
    by_index = False
    if key is not None:
        end = Position.of(topic, wanted.partition or 0, 0)
        by_index = log.read_key(topic, key, end=end, partition=wanted.partition).scan_reason is None
    return TopicStart(topic, offsets, wanted, by_index, on_damaged, key)


def _past_piece(log: Log, start: TopicStart, offsets: Offsets, end: Offsets) -> Piece:
    """A bounded piece of what lies between two positions; its end is how far it got."""
    topic, wanted, shown = start.topic, start.wanted, encoded_records(log).shown
    until = _position(topic, wanted.of(end))
    if start.by_index and start.key is not None:
        begin = _position(topic, wanted.of(offsets))
        by_key = log.read_key(
            topic,
            start.key,
            start=begin,
            end=until,
            partition=wanted.partition,
            limit=_KEY_RECORDS_MAX,
            on_damaged=start.on_damaged,
        )
        if by_key.scan_reason is None:
            records = list(map(shown, _up_to_damage(by_key)))
            return piece_of(topic, records, offsets, _advanced(offsets, by_key.position))
    records = []
    size_bytes = 0
    reader = log.read(
        topic,
        start=_position(topic, offsets),
        end=until,
        fetch_bytes=2 * _PAST_BYTES,
        on_damaged=start.on_damaged,
    )
    for record in _up_to_damage(reader):
        if start.key is None or record.key == start.key:
            record = shown(record)
            if wanted.takes(record):
                records.append(record)
        size_bytes += record.size_bytes + 1
        if size_bytes >= _PAST_BYTES:
            break
    return piece_of(topic, records, offsets, _advanced(offsets, reader.position))


def _up_to_damage(reader: BoundedReader) -> Iterator[Record]:
    """The records before the first that cannot be read. Raises DamagedRecordsError where there are none."""
    has_moved = False
    try:
        for record in reader:
            yield record
            has_moved = True
    except DamagedRecordsError:
        if not has_moved:
            raise


def _advanced(offsets: Offsets, position: Position) -> Offsets:
    moved = offsets_in(position)
    return {**offsets, **{partition: max(offset, offsets.get(partition, 0)) for partition, offset in moved.items()}}


def _position(topic: str, offsets: Offsets) -> Position:
    return Position({TopicPartition(topic, partition): offset for partition, offset in offsets.items()})
