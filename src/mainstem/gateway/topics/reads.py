"""Bounded reads of a topic: where from, where to, and how far an answer got.

An answer ends at the first of: the end that was asked for (default: the log's end when the read began), ``limit``
records, or some mebibytes. Its position is where a further read goes on: ``from=<position>`` repeats nothing and skips
nothing. Blocking; each call is on its own, safe from any thread.
"""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from typing import Any

from mainstem.client.log import Log
from mainstem.client.read.key_reader import KeyReader
from mainstem.client.read.start import Moment
from mainstem.encodings.encoded_records import EncodedRecords
from mainstem.errors import InputError, PositionError
from mainstem.gateway.topics.record_json import record_json
from mainstem.model import OnDamaged, Position

_ANSWER_BYTES_MAX = 8 << 20
_OFFSET_DIGITS_MAX = 18


@dataclass(frozen=True, slots=True)
class BoundedRead:
    """The range to read; ``start`` and ``end`` are in the form that ``moment`` parses."""

    topic: str
    start: str = "earliest"
    end: str = "latest"
    key: str | None = None
    limit: int = 100
    on_damaged: OnDamaged = "stop"


@dataclass(frozen=True, slots=True)
class ReadAnswer:
    """The records, as JSON documents, and where to go on.

    Of a key: its last offset, if an index tells it, or why its partition was scanned. ``damaged``: the offsets that
    were skipped, each as ``topic/partition:first-last``.
    """

    records: list[dict[str, Any]]
    position: Position
    last_offset: int | None = None
    scan_reason: str | None = None
    damaged: tuple[str, ...] = ()


def read(log: Log, what: BoundedRead, encoded: EncodedRecords) -> ReadAnswer:
    """Read from ``log``. Raises UnknownTopicError, PositionError, PositionFormatError, OffsetOutOfRangeError,
    DamagedRecordsError, SchemaError.
    """
    start, end = moment(what.start, what.topic), moment(what.end, what.topic)
    key = encoded.encoded_key(what.topic, what.key)
    reader = log.read(what.topic, start=start, end=end, key=key, limit=what.limit, on_damaged=what.on_damaged)
    records: list[dict[str, Any]] = []
    size_bytes = 0
    for record in reader:
        records.append(record_json(encoded.shown(record)))
        size_bytes += len(record.key or b"") + len(record.value or b"")
        if size_bytes >= _ANSWER_BYTES_MAX:
            break
    damaged = tuple(damage.offsets for damage in reader.damaged)
    if isinstance(reader, KeyReader):
        return ReadAnswer(records, reader.position, reader.last_offset, reader.scan_reason, damaged)
    return ReadAnswer(records, reader.position, damaged=damaged)


def moment(words: str, topic: str | None = None) -> Moment:
    """Parse ``earliest``, ``latest``, an offset, a position or a time (ISO 8601).

    Raises PositionError for a position of another topic than ``topic``, if that is given, and InputError for any other
    text.
    """
    if words in ("earliest", "latest"):
        return words
    if words.isascii() and words.isdecimal() and len(words) <= _OFFSET_DIGITS_MAX:
        return int(words)
    if "/" in words:
        position = Position.parse(words)
        strangers = position.topics - {topic} if topic is not None else ()
        if strangers:
            raise PositionError(f"the position names {', '.join(sorted(strangers))}; this is a read of {topic}")
        return position
    try:
        return datetime.datetime.fromisoformat(words)
    except ValueError as error:
        raise InputError(
            f"invalid place in a topic {words[:100]!r}: give earliest, latest, an offset, a position such as "
            "flights/0:17, or a time such as 2013-01-01T10:00:00Z"
        ) from error
