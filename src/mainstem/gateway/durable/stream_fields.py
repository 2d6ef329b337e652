"""The protocol's request headers and parameters, checked before anything is asked of the log. Pure functions.

Every text has a length limit and every number a range. A header that the protocol says to ignore (``Stream-Closed``
with another value than ``true``) is ignored. Raises InputError.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote

from mainstem.errors import InputError
from mainstem.gateway.durable.stream_config import CONTENT_TYPE, TTL_S_MAX
from mainstem.gateway.durable.stream_messages import DEFAULT_TYPE
from mainstem.gateway.durable.stream_offsets import NOW, StreamPosition, parse_position

KEY_BYTES_MAX: Final = 512
PRODUCER_ID_BYTES_MAX: Final = 256
SEQ_BYTES_MAX: Final = 256
_NUMBER: Final = re.compile(r"0|[1-9][0-9]{0,15}")
_NUMBER_MAX: Final = 2**53 - 1
_TIME: Final = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:[Zz]|[+-]\d\d:\d\d)")
_TYPE: Final = re.compile(CONTENT_TYPE)
RESERVED: Final = "__ds"


@dataclass(frozen=True, slots=True)
class ProducerFields:
    """An idempotent producer's id, epoch and sequence number."""

    producer: str
    epoch: int
    seq: int


@dataclass(frozen=True, slots=True)
class ForkFields:
    """The source of a fork. ``position`` None: at its tail."""

    source: str
    position: StreamPosition | None
    sub_offset: int


@dataclass(frozen=True, slots=True)
class CreateFields:
    """The stream that a PUT asks for. ``content_type`` None: the default, or the source's."""

    content_type: str | None
    ttl_s: int | None
    expires_ms: int | None
    closed: bool
    fork: ForkFields | None


@dataclass(frozen=True, slots=True)
class AppendFields:
    """The headers of a POST."""

    content_type: str | None
    seq: str | None
    closed: bool
    producer: ProducerFields | None


def check_key(key: str) -> None:
    """Refuse a key that can be no stream's name."""
    if not 0 < len(key.encode()) <= KEY_BYTES_MAX:
        raise InputError(f"a stream's key has from 1 to {KEY_BYTES_MAX} bytes")
    if key.partition("/")[0] == RESERVED:
        raise InputError(f"{RESERVED} is reserved for subscriptions, which this server does not offer")


def create_fields(headers: Mapping[str, str], topic: str) -> CreateFields:
    """The headers of a PUT."""
    ttl, expires = headers.get("stream-ttl"), headers.get("stream-expires-at")
    if ttl is not None and expires is not None:
        raise InputError("Stream-TTL and Stream-Expires-At: send one of them")
    return CreateFields(
        _content_type(headers),
        None if ttl is None else _number("Stream-TTL", ttl, TTL_S_MAX),
        None if expires is None else _time_ms(expires),
        _is_closed(headers),
        _fork(headers, topic),
    )


def append_fields(headers: Mapping[str, str]) -> AppendFields:
    """The headers of a POST."""
    seq = headers.get("stream-seq")
    if seq is not None and not 0 < len(seq.encode()) <= SEQ_BYTES_MAX:
        raise InputError(f"Stream-Seq has from 1 to {SEQ_BYTES_MAX} bytes")
    return AppendFields(_content_type(headers), seq, _is_closed(headers), _producer(headers))


def read_position(offset: str | None) -> StreamPosition | None:
    """Where a read begins; None at the tail."""
    if offset is None:
        return parse_position("-1")
    return None if offset == NOW else parse_position(offset)


def _producer(headers: Mapping[str, str]) -> ProducerFields | None:
    names = ("producer-id", "producer-epoch", "producer-seq")
    given = [headers.get(name) for name in names]
    producer, epoch, seq = given
    if producer is None and epoch is None and seq is None:
        return None
    if producer is None or epoch is None or seq is None:
        raise InputError("Producer-Id, Producer-Epoch and Producer-Seq: send all of them, or none")
    if not 0 < len(producer.encode()) <= PRODUCER_ID_BYTES_MAX:
        raise InputError(f"Producer-Id has from 1 to {PRODUCER_ID_BYTES_MAX} bytes")
    return ProducerFields(
        producer, _number("Producer-Epoch", epoch, _NUMBER_MAX), _number("Producer-Seq", seq, _NUMBER_MAX)
    )


def _fork(headers: Mapping[str, str], topic: str) -> ForkFields | None:
    source = headers.get("stream-forked-from")
    offset, sub = headers.get("stream-fork-offset"), headers.get("stream-fork-sub-offset")
    if source is None:
        if offset is not None or sub is not None:
            raise InputError("Stream-Fork-Offset and Stream-Fork-Sub-Offset need Stream-Forked-From")
        return None
    number = 0 if sub is None else _number("Stream-Fork-Sub-Offset", sub, _NUMBER_MAX)
    if number and offset is None:
        raise InputError("Stream-Fork-Sub-Offset needs Stream-Fork-Offset")
    return ForkFields(_source_key(source, topic), None if offset is None else parse_position(offset), number)


def _source_key(path: str, topic: str) -> str:
    """The key of a source: its path on this server, or its path beneath the topic."""
    text = unquote(path, errors="strict") if "%" in path else path
    root = f"/streams/{topic}/"
    key = text.removeprefix(root) if text.startswith(root) else text.removeprefix("/")
    check_key(key)
    return key


def _content_type(headers: Mapping[str, str]) -> str | None:
    text = headers.get("content-type", "").strip()
    if not text:
        return None
    if _TYPE.fullmatch(text) is None:
        raise InputError("Content-Type has at most 256 printable ASCII characters")
    return text


def type_or_default(content_type: str | None) -> str:
    """The content type of a stream that is created."""
    return content_type or DEFAULT_TYPE


def _is_closed(headers: Mapping[str, str]) -> bool:
    return headers.get("stream-closed", "").lower() == "true"


def _number(name: str, text: str, most: int) -> int:
    if _NUMBER.fullmatch(text) is None or int(text) > most:
        raise InputError(f"{name} {text[:40]!r}: give a whole number from 0 to {most} in plain digits")
    return int(text)


def _time_ms(text: str) -> int:
    refusal = f"Stream-Expires-At {text[:40]!r}: give a time such as 2030-01-01T10:00:00Z (RFC 3339)"
    if _TIME.fullmatch(text) is None:
        raise InputError(refusal)
    try:
        return max(0, int(datetime.datetime.fromisoformat(text.upper()).timestamp() * 1_000))
    except (ValueError, OverflowError) as error:
        raise InputError(refusal) from error
