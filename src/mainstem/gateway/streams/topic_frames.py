"""Records as server-sent events, and which of them a reader wants. Pure functions and values.

A **piece** is the result of one fetch, encoded once for all readers. The id of an event is the position just after its
record: over all partitions of the topic, or, for readers of one key, over the key's partition alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from mainstem.gateway.http.json_responses import json_bytes
from mainstem.gateway.streams.event_format import frame
from mainstem.gateway.streams.route_patterns import RoutePattern, routing_key
from mainstem.gateway.topics.record_json import record_json
from mainstem.model import Position, Record

Offsets: TypeAlias = dict[int, int]
"""The next offset of each partition of one topic."""
_ENTRY_BYTES: Final = 400
"""About what an entry costs besides its texts."""


@dataclass(frozen=True, slots=True)
class RecordFilter:
    """The records of a topic that a reader wants: all, one key in its partition, a pattern's matches, or both."""

    key: bytes | None = None
    partition: int | None = None
    route: RoutePattern | None = None

    def takes(self, record: Record) -> bool:
        """Whether the record is wanted."""
        if self.key is not None and (record.key != self.key or record.partition != self.partition):
            return False
        return self.route is None or self.route.matches(routing_key(record))

    def of(self, offsets: Mapping[int, int]) -> Offsets:
        """The part of a position that such a reader follows."""
        if self.partition is None:
            return dict(offsets)
        return {self.partition: offsets.get(self.partition, 0)}


EVERYTHING: Final = RecordFilter()


@dataclass(frozen=True, slots=True)
class Entry:
    """One record, encoded: ``data`` is its JSON, ``position`` the one just after it, over all partitions."""

    record: Record
    data: bytes
    position: str


@dataclass(slots=True)
class Piece:
    """The records of one fetch, and the position after them. Encoded once for all readers without a filter."""

    entries: tuple[Entry, ...]
    end: Offsets
    topic: str
    size_bytes: int
    _everything: bytes | None = None
    _by_key: dict[bytes | None, list[Entry]] | None = None

    def frames(self, wanted: RecordFilter) -> bytes:
        """The events of the records that are wanted."""
        if wanted != EVERYTHING:  # not kept: there may be as many ways of wanting as there are readers
            return b"".join(self._frame(entry, wanted) for entry in self._taken(wanted))
        if self._everything is None:
            self._everything = b"".join(self._frame(entry, wanted) for entry in self.entries)
        return self._everything

    def frames_after(self, wanted: RecordFilter, ahead: Mapping[int, int]) -> bytes:
        """The same for a reader who is ahead of the others in some partitions."""
        found = []
        for entry in self._taken(wanted):
            record = entry.record
            if record.offset < ahead.get(record.partition, 0):
                continue
            if wanted.partition is None:
                position = _merged(entry.position, self.topic, ahead)
                found.append(frame(entry.data, position=position))
            else:
                found.append(self._frame(entry, wanted))
        return b"".join(found)

    def _taken(self, wanted: RecordFilter) -> Iterable[Entry]:
        if wanted.key is None:
            return (entry for entry in self.entries if wanted.takes(entry.record))
        if self._by_key is None:
            self._by_key = {}
            for entry in self.entries:
                self._by_key.setdefault(entry.record.key, []).append(entry)
        return (entry for entry in self._by_key.get(wanted.key, ()) if wanted.takes(entry.record))

    def _frame(self, entry: Entry, wanted: RecordFilter) -> bytes:
        if wanted.partition is None:
            return frame(entry.data, position=entry.position)
        return frame(entry.data, position=position_text(self.topic, {entry.record.partition: entry.record.offset + 1}))


def piece_of(topic: str, records: Iterable[Record], start: Mapping[int, int], end: Offsets) -> Piece:
    """Encode records that lie between two positions."""
    offsets = {**dict.fromkeys(end, 0), **start}
    parts = {partition: f"{topic}/{partition}:{offset}" for partition, offset in sorted(offsets.items())}
    entries, size_bytes = [], _ENTRY_BYTES
    for record in records:
        data = json_bytes(record_json(record))
        parts[record.partition] = f"{topic}/{record.partition}:{record.offset + 1}"
        position = ",".join(parts.values())
        entries.append(Entry(record, data, position))
        size_bytes += _ENTRY_BYTES + record.size_bytes + 2 * len(data) + 2 * len(position)
    return Piece(tuple(entries), end, topic, size_bytes)


def offsets_in(position: Position) -> Offsets:
    """The offsets of a position of one topic, by partition."""
    return {tp.partition: offset for tp, offset in position.items()}


def position_text(topic: str, offsets: Mapping[int, int]) -> str:
    """A position of one topic in its text form."""
    return ",".join(f"{topic}/{partition}:{offset}" for partition, offset in sorted(offsets.items()))


def _merged(position: str, topic: str, ahead: Mapping[int, int]) -> str:
    offsets: Offsets = {}
    for part in position.split(","):
        place, _, text = part.rpartition(":")
        offsets[int(place.rpartition("/")[2])] = int(text)
    for partition, offset in ahead.items():
        offsets[partition] = max(offset, offsets.get(partition, 0))
    return position_text(topic, offsets)
