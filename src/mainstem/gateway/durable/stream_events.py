"""The event of a record: what it does to its stream, as JSON in the record header ``mainstem-stream-event``.

    create   the stream begins, with its configuration; the value is its first data
    append   data, or none; perhaps by a producer, perhaps the last
    touch    a read of a stream with a time to live
    fork     another stream begins with the data of this one
    unfork   that stream is deleted
    delete   the stream ends; ``keeps`` when forks still need its name

``before`` is the stream's length before the record, so a reader can check a token against the record it leads to.
A record may also carry the whole state after it (``mainstem-stream-state``, see ``stream_state``). Pure functions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from pydantic import TypeAdapter, ValidationError

from mainstem.errors import UnsupportedFeatureError
from mainstem.gateway.durable.stream_config import StreamConfig
from mainstem.gateway.durable.stream_offsets import Length, Offset
from mainstem.model import Record

EVENT: Final = "mainstem-stream-event"
STATE: Final = "mainstem-stream-state"
_HEADER_BYTES_MAX: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class StreamEvent:
    """One event. ``config``: of a stream that is created; ``other``: the key of a fork."""

    kind: Literal["create", "append", "touch", "fork", "unfork", "delete"]
    before: Length = 0
    count: Length = 0
    config: StreamConfig | None = None
    producer: tuple[str, int, int] | None = None
    seq: str | None = None
    closes: bool = False
    other: str | None = None
    keeps: bool = False
    checkpoint: Offset | None = None
    """Where the newest record with the state is; None when this record has it."""

    @property
    def header(self) -> bytes:
        """The header's value; fields that say nothing are left out."""
        return _EVENTS.dump_json(self, exclude_defaults=True)


_EVENTS: Final = TypeAdapter(StreamEvent)


def event_of(record: Record) -> StreamEvent:
    """The event of a record. Raises UnsupportedFeatureError for a record that another writer appended to the key."""
    value = header_of(record, EVENT)
    try:
        event = None if value is None else _EVENTS.validate_json(value, strict=True)
    except ValidationError as error:
        raise not_ours(record) from error
    if event is None or (event.kind == "create") != (event.config is not None):
        raise not_ours(record)
    return event


def header_of(record: Record, name: str) -> bytes | None:
    """The value of a record's header, if it has it and it is not too long."""
    value = next((value for each, value in record.headers if each == name), None)
    return value if value is not None and len(value) <= _HEADER_BYTES_MAX else None


def not_ours(record: Record) -> UnsupportedFeatureError:
    """The refusal of a record that another writer appended to a stream's key."""
    return UnsupportedFeatureError(
        f"{record.topic}/{record.partition}:{record.offset} was not written by /streams: "
        "a key that other writers append to cannot be a stream"
    )
