"""Kafka's small text files: offset checkpoints, leader epochs, partition and node properties. Text in, text out.

A checkpoint file is a version line, a count line and one line for each entry; the count shows whether the file is
complete. ``decode_…`` returns None for anything that is not exactly such a file: callers treat it as absent. Pure
functions.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Mapping
from uuid import UUID

from mainstem.log.partition.leader_epochs import EpochEntry
from mainstem.model import TopicPartition

_VERSION = "0"


def encode_offsets(offsets: Mapping[TopicPartition, int]) -> bytes:
    """An offset checkpoint: a line ``topic partition offset`` for each partition."""
    return _encode(f"{tp.topic} {tp.partition} {offset}" for tp, offset in sorted(offsets.items()))


def decode_offsets(data: bytes | None) -> dict[TopicPartition, int] | None:
    """Read an offset checkpoint."""
    rows = _decode(data, columns=3)
    if rows is None:
        return None
    try:
        return {TopicPartition(topic, int(partition)): int(offset) for topic, partition, offset in rows}
    except ValueError:
        return None


def encode_leader_epochs(entries: Iterable[EpochEntry]) -> bytes:
    """A leader epoch checkpoint: a line ``epoch start-offset`` for each epoch."""
    return _encode(f"{entry.epoch} {entry.start_offset}" for entry in entries)


def decode_leader_epochs(data: bytes | None) -> list[EpochEntry] | None:
    """Read a leader epoch checkpoint."""
    rows = _decode(data, columns=2)
    if rows is None:
        return None
    try:
        return [EpochEntry(int(epoch), int(start_offset)) for epoch, start_offset in rows]
    except ValueError:
        return None


def _encode(lines: Iterable[str]) -> bytes:
    rows = list(lines)
    return "\n".join((_VERSION, str(len(rows)), *rows, "")).encode()


def _decode(data: bytes | None, columns: int) -> list[list[str]] | None:
    if data is None:
        return None
    try:
        version, count, *lines = data.decode("ascii").splitlines()
        rows = [line.split() for line in lines]
        if version != _VERSION or int(count) != len(rows) or any(len(row) != columns for row in rows):
            return None
    except ValueError:  # not ASCII, fewer than two lines, or not a number
        return None
    return rows


def encode_uuid(identifier: UUID) -> str:
    """Kafka's text form of an id: URL-safe base64 without padding."""
    return base64.urlsafe_b64encode(identifier.bytes).decode().rstrip("=")


def decode_uuid(text: str) -> UUID | None:
    """Read Kafka's text form of an id."""
    try:
        return UUID(bytes=base64.urlsafe_b64decode(text + "=="))
    except (ValueError, binascii.Error):
        return None


def encode_partition_metadata(topic_id: UUID) -> bytes:
    """``partition.metadata``: which topic the directory belongs to."""
    return f"version: 0\ntopic_id: {encode_uuid(topic_id)}".encode()


def decode_partition_metadata(data: bytes | None) -> UUID | None:
    """Read ``partition.metadata``."""
    if data is None:
        return None
    properties = dict(line.split(":", 1) for line in data.decode("ascii", "replace").splitlines() if ":" in line)
    if properties.get("version", "").strip() != _VERSION:
        return None
    return decode_uuid(properties.get("topic_id", "").strip())


def encode_properties(properties: Mapping[str, str]) -> bytes:
    """A Java properties file; keys and values are plain words."""
    return "".join(f"{name}={value}\n" for name, value in properties.items()).encode()


def decode_properties(data: bytes) -> dict[str, str]:
    """Read a Java properties file of plain words; comments and empty lines are passed over."""
    lines = (line.strip() for line in data.decode("utf-8", "replace").splitlines())
    pairs = (line.split("=", 1) for line in lines if "=" in line and not line.startswith("#"))
    return {name.strip(): value.strip() for name, value in pairs}
