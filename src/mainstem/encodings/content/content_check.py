"""The check of one batch: which of its keys and values do not fit the schemas that they name. Pure functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from mainstem.encodings.content.value_readers import ValueReader
from mainstem.record.reader import read_records
from mainstem.schemas_topic.frames import GUID_FRAME_BYTES, ID_FRAME_BYTES, KEY_HEADER, VALUE_HEADER, header_frame

REASONS_MAX: Final = 1_000
"""So many records of a batch are named to a producer."""
_REASON_CHARS: Final = 300
_HEADERS: Final = {"key": KEY_HEADER, "value": VALUE_HEADER}


class FramedBytes(NamedTuple):
    """A key or value: the index of its ``record``, ``key`` or ``value``, its frame, and the bytes after it."""

    record: int
    part: str
    frame: bytes
    data: bytes


def framed_bytes(batch: bytes, parts: Sequence[str], limit_bytes: int) -> list[FramedBytes]:
    """The keys or values of a batch, or both, which all have frames; null is left out. Raises CorruptBatchError."""
    found = []
    for index, record in enumerate(read_records(batch, limit_bytes=limit_bytes)):
        for part in parts:
            bare = record.key if part == "key" else record.value
            if bare is not None:
                whole = (header_frame(record.headers, _HEADERS[part]) or b"") + bare
                size = GUID_FRAME_BYTES if whole[:1] == b"\x01" else ID_FRAME_BYTES
                found.append(FramedBytes(index, part, whole[:size], whole[size:]))
    return found


def misfits(found: Sequence[FramedBytes], readers: Mapping[bytes, ValueReader]) -> dict[int, str]:
    """Why records do not fit, by their index; the first ``REASONS_MAX``. ``readers`` are by frame."""
    refused: dict[int, str] = {}
    for each in found:
        if each.record in refused:
            continue
        reason = readers[each.frame](each.data)
        if reason is not None:
            refused[each.record] = f"its {each.part} does not fit {_name(each.frame)}: {reason[:_REASON_CHARS]}"
            if len(refused) == REASONS_MAX:
                break
    return refused


def _name(frame: bytes) -> str:
    if len(frame) == ID_FRAME_BYTES:
        return f"schema {int.from_bytes(frame[1:], 'big')}"
    return f"schema {frame[1:].hex()}"
