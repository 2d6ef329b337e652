"""The records of ``__consumer_offsets``, in Kafka's own format, so that Kafka's tools read them.

Key: two bytes that say its type, then the key's struct. Value: two bytes that say its version, then the value's struct;
a tombstone removes what the key names. Written are: offsets as version 4 of their value, which names the topic's id (1
where a client said when it expires, which no other version can say), groups as version 3 of theirs (without the fields
that only newer groups have); every version that Kafka ever wrote is read.
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from mainstem.broker.coordinator.effects import StateRecord
from mainstem.errors import FrameError
from mainstem.protocol.codec import decode_message, encode_message
from mainstem.protocol.messages import group_records as messages
from mainstem.protocol.schema import ZERO_UUID

if TYPE_CHECKING:
    from mainstem.broker.groups.classic.classic_group import ClassicGroup

_GROUP_VALUE_VERSION: Final = 3
_OFFSET_VALUE_VERSION: Final = 4
_EXPIRING_VALUE_VERSION: Final = 1
_INT16: Final = struct.Struct(">h")
OFFSET_KEY_TYPES: Final = frozenset({0, 1})
GROUP_KEY_TYPE: Final = 2


class CommittedOffset(NamedTuple):
    """Where a group wants to go on in one partition. Only old clients say when it expires (-1: by the node's rules).

    ``topic_id`` is zero where the record does not name it: an older release or an offset with its own expiry wrote it.
    """

    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp_ms: int
    expire_timestamp_ms: int = -1
    topic_id: uuid.UUID = ZERO_UUID


class OffsetKey(NamedTuple):
    """Whose committed offset of which partition."""

    group_id: str
    topic: str
    partition: int


@dataclass(frozen=True, slots=True)
class OffsetRecord:
    """A record that sets, or with None removes, a committed offset."""

    key: OffsetKey
    committed: CommittedOffset | None


@dataclass(frozen=True, slots=True)
class GroupChange:
    """A record that sets, or with None removes, a classic group."""

    group_id: str
    value: messages.GroupMetadataValue | None


def offset_changes(group_id: str, committed: Mapping[tuple[str, int], CommittedOffset]) -> list[OffsetRecord]:
    """The changes that commit these offsets of a group: (topic, partition) → offset."""
    return [OffsetRecord(OffsetKey(group_id, topic, number), value) for (topic, number), value in committed.items()]


def offset_record(key: OffsetKey, committed: CommittedOffset | None) -> StateRecord:
    """The record of a committed offset; its tombstone for None."""
    body = messages.OffsetCommitKey(group=key.group_id, topic=key.topic, partition=key.partition)
    if committed is None:
        return StateRecord(_key(body), None)
    value = messages.OffsetCommitValue(
        offset=committed.offset,
        leader_epoch=committed.leader_epoch,
        metadata=committed.metadata,
        commit_timestamp=committed.commit_timestamp_ms,
        expire_timestamp=committed.expire_timestamp_ms,
        topic_id=committed.topic_id,
    )
    version = _OFFSET_VALUE_VERSION if committed.expire_timestamp_ms < 0 else _EXPIRING_VALUE_VERSION
    return StateRecord(_key(body), _value(value, version))


def group_record(group: ClassicGroup) -> StateRecord:
    """The record of a group as it is: its generation, its members and what each was assigned."""
    value = messages.GroupMetadataValue(
        protocol_type=group.protocol_type or "",
        generation=group.generation_id,
        protocol=group.protocol,
        leader=group.leader,
        current_state_timestamp=group.state_timestamp_ms,
        members=[
            messages.MemberMetadata(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                rebalance_timeout=member.rebalance_timeout_ms,
                session_timeout=member.session_timeout_ms,
                subscription=member.metadata_for(group.protocol),
                assignment=member.assignment,
            )
            for member in group.members.values()
        ],
    )
    return StateRecord(_key(messages.GroupMetadataKey(group=group.group_id)), _value(value))


def group_tombstone(group_id: str) -> StateRecord:
    """The record that removes a group."""
    return StateRecord(_key(messages.GroupMetadataKey(group=group_id)), None)


def key_type(key: bytes) -> int:
    """The type of a record, from its key. Raises FrameError for a damaged key."""
    return _leading_int16(key)


def read_offset_change(key: bytes, value: bytes | None) -> OffsetRecord:
    """Decode a record of ``OFFSET_KEY_TYPES``. Raises FrameError for a damaged record."""
    name = decode_message(messages.OffsetCommitKey, 0, key, 2)
    offset_key = OffsetKey(name.group, name.topic, name.partition)
    if value is None:
        return OffsetRecord(offset_key, None)
    held = decode_message(messages.OffsetCommitValue, _leading_int16(value), value, 2)
    committed = CommittedOffset(
        held.offset, held.leader_epoch, held.metadata, held.commit_timestamp, held.expire_timestamp, held.topic_id
    )
    return OffsetRecord(offset_key, committed)


def read_group_change(key: bytes, value: bytes | None) -> GroupChange:
    """Decode a record of ``GROUP_KEY_TYPE``. Raises FrameError for a damaged record."""
    group_id = decode_message(messages.GroupMetadataKey, 0, key, 2).group
    if value is None:
        return GroupChange(group_id, None)
    return GroupChange(group_id, decode_message(messages.GroupMetadataValue, _leading_int16(value), value, 2))


def _key(body: messages.OffsetCommitKey | messages.GroupMetadataKey) -> bytes:
    return _INT16.pack(body.__api_key__) + encode_message(body, 0)


def _value(
    body: messages.OffsetCommitValue | messages.GroupMetadataValue, version: int = _GROUP_VALUE_VERSION
) -> bytes:
    return _INT16.pack(version) + encode_message(body, version)


def _leading_int16(data: bytes) -> int:
    if len(data) < 2:
        raise FrameError(f"a group record's key or value is {len(data)} bytes long")
    number: int = _INT16.unpack_from(data)[0]
    return number
