"""The ListGroups API (16): its request and response."""

from __future__ import annotations

from collections.abc import Sequence

from mainstem.protocol.schema import Message, Struct, array, int16, int32, string


class ListGroupsRequest(Message, key=16, versions="0-5", flexible="3+"):
    states_filter: Sequence[str] = array("string", "4+", default=())
    types_filter: Sequence[str] = array("string", "5+", default=())


class ListedGroup(Struct):
    group_id: str = string()
    protocol_type: str = string()
    group_state: str = string("4+", default="")
    group_type: str = string("5+", default="")


class ListGroupsResponse(Message, key=16, versions="0-5", flexible="3+"):
    throttle_time_ms: int = int32("1+", default=0)
    error_code: int = int16()
    groups: Sequence[ListedGroup] = array(ListedGroup)
