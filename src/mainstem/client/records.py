"""Records to append: a value, and optionally a key, headers, a partition and a timestamp. Values; thread-safe."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from mainstem.client.values import key_bytes, value_bytes
from mainstem.model import Headers, Record
from mainstem.tracing.spans import SendSpan

HeadersLike: TypeAlias = Iterable[tuple[str, Any]] | Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class NewRecord:
    """A record to append. ``None`` as a value is a tombstone; without a key any partition may be taken."""

    value: Any
    key: Any = None
    headers: HeadersLike = ()
    partition: int | None = None
    timestamp_ms: int | None = None


@dataclass(frozen=True, slots=True)
class EncodedRecord:
    """A record in bytes, as a producer takes it."""

    value: bytes | None
    key: bytes | None
    headers: Headers = ()
    partition: int | None = None
    timestamp_ms: int | None = None
    placed_by: bytes | None = None
    """Without a key, these bytes select the partition in its place."""

    @property
    def size_bytes(self) -> int:
        """About how long it is in a batch."""
        headers = sum(len(name) + len(value or b"") + 4 for name, value in self.headers)
        return len(self.key or b"") + len(self.value or b"") + headers + 16


def encoded(record: Any) -> EncodedRecord:
    """Encode one item of ``append_many``: a NewRecord, a Record as it was read, ``(key, value)``, or a bare value.

    A Record's partition, offset and topic are not copied. Raises SchemaError for a value without a JSON form.
    """
    if isinstance(record, NewRecord):
        return EncodedRecord(
            value_bytes(record.value),
            key_bytes(record.key),
            encoded_headers(record.headers),
            record.partition,
            record.timestamp_ms,
        )
    if isinstance(record, Record):
        timestamp_ms = record.timestamp_ms if record.timestamp_ms >= 0 else None
        return EncodedRecord(record.value, record.key, record.headers, None, timestamp_ms)
    if isinstance(record, tuple) and len(record) == 2:
        return EncodedRecord(value_bytes(record[1]), key_bytes(record[0]), (), None, None)
    return EncodedRecord(value_bytes(record), None, (), None, None)


def encoded_headers(headers: HeadersLike) -> Headers:
    """Header names with their values in bytes, in order; a name may occur several times."""
    pairs = headers.items() if isinstance(headers, Mapping) else headers
    return tuple((name, value_bytes(value)) for name, value in pairs)


def traced(records: Iterable[EncodedRecord], span: SendSpan | None) -> Iterable[EncodedRecord]:
    """The records with the headers of the trace that ``span`` belongs to."""
    if span is None:
        return records
    return (replace(record, headers=span.headers(record.headers)) for record in records)
