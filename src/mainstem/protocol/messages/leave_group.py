"""The LeaveGroup API (13): its request and response."""

from __future__ import annotations

from collections.abc import Sequence

from mainstem.protocol.schema import Message, Struct, array, int16, int32, string


class MemberIdentity(Struct):
    member_id: str = string("3+", default="")
    group_instance_id: str | None = string("3+", default=None, nullable="3+")
    reason: str | None = string("5+", default=None, nullable="5+")


class LeaveGroupRequest(Message, key=13, versions="0-5", flexible="4+"):
    group_id: str = string()
    member_id: str = string("0-2", default="")
    members: Sequence[MemberIdentity] = array(MemberIdentity, "3+", default=())


class MemberResponse(Struct):
    member_id: str = string("3+", default="")
    group_instance_id: str | None = string("3+", default="", nullable="3+")
    error_code: int = int16("3+", default=0)


class LeaveGroupResponse(Message, key=13, versions="0-5", flexible="4+"):
    throttle_time_ms: int = int32("1+", default=0)
    error_code: int = int16()
    members: Sequence[MemberResponse] = array(MemberResponse, "3+", default=())
