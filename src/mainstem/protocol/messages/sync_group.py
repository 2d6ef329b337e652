"""The SyncGroup API (14): its request and response."""

from __future__ import annotations

from collections.abc import Sequence

from mainstem.protocol.schema import Message, Struct, array, bytestring, int16, int32, string


class SyncGroupRequestAssignment(Struct):
    member_id: str = string()
    assignment: bytes = bytestring()


class SyncGroupRequest(Message, key=14, versions="0-5", flexible="4+"):
    group_id: str = string()
    generation_id: int = int32()
    member_id: str = string()
    group_instance_id: str | None = string("3+", default=None, nullable="3+")
    protocol_type: str | None = string("5+", default=None, nullable="5+")
    protocol_name: str | None = string("5+", default=None, nullable="5+")
    assignments: Sequence[SyncGroupRequestAssignment] = array(SyncGroupRequestAssignment)


class SyncGroupResponse(Message, key=14, versions="0-5", flexible="4+"):
    throttle_time_ms: int = int32("1+", default=0)
    error_code: int = int16()
    protocol_type: str | None = string("5+", default=None, nullable="5+")
    protocol_name: str | None = string("5+", default=None, nullable="5+")
    assignment: bytes = bytestring()
