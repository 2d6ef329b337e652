"""The records of ``__consumer_offsets``: committed offsets and classic groups.

A record's key is the key struct after two bytes that say its type (``__api_key__``); its value is the value struct
after two bytes that say its version.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence

from mainstem.protocol.schema import ZERO_UUID, Message, Struct, array, bytestring, int32, int64, string, uuid_


class OffsetCommitKey(Message, key=1, versions="0"):
    group: str = string()
    topic: str = string()
    partition: int = int32()


class OffsetCommitValue(Message, key=1, versions="0-4", flexible="4+"):
    offset: int = int64()
    leader_epoch: int = int32("3+", default=-1)
    metadata: str = string()
    commit_timestamp: int = int64()
    expire_timestamp: int = int64("1", default=-1)
    topic_id: uuid.UUID = uuid_("4+", default=ZERO_UUID, tag=0)


class GroupMetadataKey(Message, key=2, versions="0"):
    group: str = string()


class MemberMetadata(Struct):
    member_id: str = string()
    group_instance_id: str | None = string("3+", default=None, nullable="3+")
    client_id: str = string()
    client_host: str = string()
    rebalance_timeout: int = int32("1+", default=-1)
    session_timeout: int = int32()
    subscription: bytes = bytestring()
    assignment: bytes = bytestring()


class GroupMetadataValue(Message, key=2, versions="0-4", flexible="4+"):
    protocol_type: str = string()
    generation: int = int32()
    protocol: str | None = string(nullable="0+")
    leader: str | None = string(nullable="0+")
    current_state_timestamp: int = int64("2+", default=-1)
    members: Sequence[MemberMetadata] = array(MemberMetadata)
