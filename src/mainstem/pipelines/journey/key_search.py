"""Looks for the records of one key in a range of a topic: by the key index where there is one, else by a scan.

Bounded: a range that is longer than ``SCAN_MAX`` is searched by an index only. The index is asked about the partition
that Mainstem and Kafka's Java client give the key; a scan reads the range in every partition.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from mainstem.errors import LogUnavailableError, MainstemError
from mainstem.model import Position, Record, TopicPartition
from mainstem.record.partitioner import partition_for

if TYPE_CHECKING:
    from mainstem.client.log import Log

SCAN_MAX: Final = 50_000
"""The longest range, in offsets, that is read whole for one key."""
_MARKERS_MAX: Final = 500
FOUND_MAX: Final = 5
"""How many records of a key are shown: the newest."""


@dataclass(frozen=True, slots=True)
class KeyMatches:
    """The newest records of a key in a range. ``skipped`` says why the range was not searched; empty when it was."""

    records: tuple[Record, ...] = ()
    skipped: str = ""


@dataclass(frozen=True, slots=True)
class TopicRange:
    """The part of a topic that a micro-batch read or wrote, and the records in it that have the record's key."""

    topic: str
    start: Position
    end: Position
    matches: KeyMatches = field(default_factory=KeyMatches)

    @property
    def offsets(self) -> int:
        """How many offsets lie in it: records, and the markers of transactions."""
        return sum(offset - self.start.get(tp, 0) for tp, offset in self.end.items())


def without_markers_at_end(log: Log, found: TopicRange) -> TopicRange:
    """The range up to its last records: what was read ends after the markers of transactions, what was written before.

    Raises LogUnavailableError.
    """
    low = {tp: max(found.start.get(tp, 0), offset - _MARKERS_MAX) for tp, offset in found.end.items()}
    last: dict[TopicPartition, int] = {}
    try:
        for record in log.read(found.topic, start=Position(low), end=found.end, on_damaged="skip"):
            last[TopicPartition(record.topic, record.partition)] = record.offset + 1
    except LogUnavailableError:
        raise
    except MainstemError:  # the topic was deleted, or its range was removed
        return found
    start = {tp: found.start.get(tp, 0) for tp in found.end}
    end = {tp: last.get(tp, start[tp] if low[tp] == start[tp] else offset) for tp, offset in found.end.items()}
    return replace(found, start=Position(start), end=Position(end))


def records_of_key(log: Log, topic: str, key: bytes, start: Position, end: Position) -> KeyMatches:
    """The records of ``key`` from ``start`` up to ``end``, positions of the topic. Raises LogUnavailableError."""
    try:
        return _search(log, topic, key, start.restrict([topic]), end.restrict([topic]))
    except LogUnavailableError:
        raise
    except MainstemError as error:  # the topic was deleted, or its range was removed
        return KeyMatches(skipped=str(error))


def newest_of_key(log: Log, topic: str, key: bytes, until: Position) -> KeyMatches:
    """The newest record of a key before a position; ``skipped`` where it was not looked for in the whole topic.

    Raises UnknownTopicError, LogUnavailableError.
    """
    beginning, until = log.beginning(topic), until.restrict([topic])
    found = records_of_key(log, topic, key, beginning, until)
    if found.skipped:
        share = SCAN_MAX // max(1, len(until))
        low = Position({tp: max(beginning.get(tp, 0), offset - share) for tp, offset in until.items()})
        newest = records_of_key(log, topic, key, low, until)
        found = replace(newest, skipped="" if newest.records else f"only the newest {SCAN_MAX} offsets were searched")
    return replace(found, records=tuple(sorted(found.records, key=lambda each: (each.timestamp_ms, each.offset))))


def _search(log: Log, topic: str, key: bytes, start: Position, end: Position) -> KeyMatches:
    low = {tp: start.get(tp, 0) for tp in end}
    length = sum(max(0, offset - low[tp]) for tp, offset in end.items())
    if length == 0:
        return KeyMatches()
    tp = TopicPartition(topic, partition_for(key, len(log.end(topic))))
    if end.get(tp, 0) > low.get(tp, 0):
        indexed = log.read_key(topic, key, start=Position(low), end=end, on_damaged="skip")
        if indexed.scan_reason is None and (found := tuple(deque(indexed, FOUND_MAX))):
            return KeyMatches(found)
    if length > SCAN_MAX:
        return KeyMatches(skipped=f"{length} offsets are too many to search")
    scan = log.read(topic, start=Position(low), end=end, key=key, every_partition=True, on_damaged="skip")
    return KeyMatches(tuple(deque(scan, FOUND_MAX)))
