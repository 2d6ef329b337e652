"""The dead letter of a record: Kafka's headers, and the record's key and value where the group copies them.

Pure functions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from mainstem.broker.share.in_flight import RecordState
from mainstem.model import Headers, TopicPartition
from mainstem.record.writer import NewRecord

_PREFIX: Final = "__dlq.errors."
_CAUSES: Final = {
    RecordState.REJECTED: "Offset rejected by client.",
    RecordState.EXHAUSTED: "Offset delivery count exceeded the threshold.",
}
"""Kafka's texts: programs look at them."""
_RECORD_BYTES: Final = 64
_BATCH_RECORDS_MAX: Final = 500
_BATCH_BYTES_MAX: Final = 512 * 1024


class Letter(NamedTuple):
    """A record that was given up. ``key`` and ``value`` are those of the record, if they are copied."""

    offset: int
    delivery_count: int
    cause: RecordState
    key: bytes | None = None
    value: bytes | None = None


def letter_record(letter: Letter, group_id: str, source: TopicPartition, time_ms: int) -> NewRecord:
    """The record to write. The record's own headers are not copied, as in Kafka."""
    texts = {
        "topic": source.topic,
        "partition": str(source.partition),
        "offset": str(letter.offset),
        "group": group_id,
        "delivery.count": str(letter.delivery_count),
        "message": _CAUSES[letter.cause],
    }
    headers: Headers = tuple((f"{_PREFIX}{name}", text.encode()) for name, text in texts.items())
    return NewRecord(letter.key, letter.value, headers, time_ms)


def in_batches(records: Iterable[NewRecord], bytes_max: int) -> Iterator[list[NewRecord]]:
    """Records in batches that a topic with ``max.message.bytes=bytes_max`` takes.

    A record that alone is too large goes without its key and value: its headers say where it is.
    """
    limit = min(bytes_max, _BATCH_BYTES_MAX)
    batch: list[NewRecord] = []
    batch_bytes = _RECORD_BYTES
    for record in records:
        size = _size(record)
        if size + _RECORD_BYTES > bytes_max:
            record = record._replace(key=None, value=None)
            size = _size(record)
        if batch and (batch_bytes + size > limit or len(batch) >= _BATCH_RECORDS_MAX):
            yield batch
            batch, batch_bytes = [], _RECORD_BYTES
        batch.append(record)
        batch_bytes += size
    if batch:
        yield batch


def _size(record: NewRecord) -> int:
    """Not less than the bytes that the record takes."""
    headers = sum(len(name) + len(value or b"") + 10 for name, value in record.headers)
    return _RECORD_BYTES + len(record.key or b"") + len(record.value or b"") + headers
