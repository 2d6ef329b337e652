"""The check that a record's key and value name a schema of their subject, for topics that validate schemas.

Only the frame is checked, as in Confluent's broker: an id of the default context, or a global id
(``schemas_topic.frames``). Where a topic asks for it, ``schema_contents`` has the bytes after it read, too. The subject
is ``TOPIC-key`` or ``TOPIC-value``, or what the schema names its record, alone or after ``TOPIC-``. Versions that are
not deleted count. Null passes. Contract: immutable; ``refused`` may run in any thread.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from mainstem.record.header import BatchHeader
from mainstem.record.key_scan import scan_headers, scan_starts
from mainstem.schemas_topic.frames import (
    GUID_FRAME_BYTES,
    ID_FRAME_BYTES,
    KEY_HEADER,
    VALUE_HEADER,
    frame_of,
    guid_frame_of,
)
from mainstem.schemas_topic.record_names import record_names
from mainstem.schemas_topic.records import SCHEMAS_TOPIC, StoredSchema
from mainstem.schemas_topic.state import RegistryState

_PARTS: Final = (("key", KEY_HEADER.encode()), ("value", VALUE_HEADER.encode()))
_ID_MAX: Final = 2**32 - 1


class SubjectRule(NamedTuple):
    """The subject of a key or value: the one of this name, or (None) the one that its schema's record names."""

    subject: str | None
    prefix: str = ""
    """The text in front of the record's name."""

    def __str__(self) -> str:
        return f"the subject {self.prefix}RECORD, by the name of its record" if self.subject is None else self.subject


class NamedSchema(NamedTuple):
    """A schema and its global id, which takes a digest of the whole text to compute."""

    guid: str
    schema: StoredSchema


class SubjectFrames(NamedTuple):
    """The frames that name a schema of a subject."""

    rule: SubjectRule
    frames: Mapping[bytes, NamedSchema]


def subject_frames(state: RegistryState, rule: SubjectRule, names: dict[str, frozenset[str]]) -> SubjectFrames:
    """The frames of a subject's versions. An alias of a subject is followed, as the registry does.

    ``names`` keeps the record names of contents by their global ids, for the next time.
    """
    if rule.subject is None:
        versions = _by_record_name(state, rule.prefix, names)
    else:
        versions = state.versions(state.aliased(rule.subject))
    named = [NamedSchema(each.content.guid, each) for each in versions]
    frames = {frame_of(each.schema.id): each for each in named if 0 <= each.schema.id <= _ID_MAX}
    return SubjectFrames(rule, frames | {guid_frame_of(each.guid): each for each in named})


def _by_record_name(state: RegistryState, prefix: str, names: dict[str, frozenset[str]]) -> list[StoredSchema]:
    """The versions whose subject is the prefix and the name of a record of theirs."""
    found: list[StoredSchema] = []
    known = dict(names)
    names.clear()
    for guid in state.guids:
        versions = state.with_guid(guid)
        names[guid] = known[guid] if guid in known else record_names(versions[0].content)
        subjects = {prefix + name for name in names[guid]}
        found += [each for each in versions if not each.is_deleted and each.subject in subjects]
    return found


@dataclass(frozen=True, slots=True)
class SchemaFrameCheck:
    """The frames that a topic takes in keys and in values; None for the part that is not validated."""

    key: SubjectFrames | None
    value: SubjectFrames | None

    def schema_of(self, frame: bytes) -> NamedSchema | None:
        """The schema that a frame names, if the topic takes it in keys or values."""
        taken = (each.frames.get(frame) for each in (self.key, self.value) if each is not None)
        return next((found for found in taken if found is not None), None)

    def refused(self, header: BatchHeader, records: bytes) -> Mapping[int, str]:
        """Why records of a batch, whose plain records these are, are refused: by their index in the batch."""
        starts = scan_starts(header, records, GUID_FRAME_BYTES)
        texts: dict[int, str] = {}
        for at, (part, name) in enumerate(_PARTS):
            taken = self.key if part == "key" else self.value
            if taken is None:
                continue
            frames, in_headers = taken.frames, _header_frames(header, records, name)
            for index, each in enumerate(starts):
                start = each[at]
                if start is None or (not in_headers and start[:ID_FRAME_BYTES] in frames):
                    continue
                frame = in_headers.get(index, start)
                if frame not in frames and frame[:ID_FRAME_BYTES] not in frames:
                    texts.setdefault(index, _reason(part, frame, taken))
        return texts


def _header_frames(header: BatchHeader, records: bytes, name: bytes) -> dict[int, bytes]:
    """The frames in headers of this name, by the record's index. They come before those in front of the value.

    For Protobuf the message's place in its schema follows the global id.
    """
    return {
        each.record: each.value[:GUID_FRAME_BYTES]
        for each in scan_headers(header, records, name)
        if each.name == name and each.value is not None and len(each.value) >= GUID_FRAME_BYTES and each.value[0] == 1
    }


def _reason(part: str, start: bytes, taken: SubjectFrames) -> str:
    if start[:1] == b"\x00" and len(start) >= ID_FRAME_BYTES:
        named = f"schema {int.from_bytes(start[1:ID_FRAME_BYTES], 'big')}"
    elif start[:1] == b"\x01" and len(start) >= GUID_FRAME_BYTES:
        named = f"schema {uuid.UUID(bytes=start[1:GUID_FRAME_BYTES])}"
    else:
        return f"its {part} does not begin with a schema id: write it with a serializer of the schema registry"
    which = taken.rule if taken.rule.subject is None else f"subject {taken.rule}"
    if not taken.frames:
        return (
            f"its {part} names {named}, but {which} has no schemas in topic {SCHEMAS_TOPIC}: register its schema first"
        )
    return f"its {part} names {named}, which is not a version of {which}: register it there first"
