"""The AlterClientQuotas API (49): its request and response."""

from __future__ import annotations

from collections.abc import Sequence

from mainstem.protocol.schema import Message, Struct, array, boolean, float64, int16, int32, string


class RequestEntityData(Struct):
    entity_type: str = string()
    entity_name: str | None = string(nullable="0+")


class OpData(Struct):
    key: str = string()
    value: float = float64()
    remove: bool = boolean()


class RequestEntryData(Struct):
    entity: Sequence[RequestEntityData] = array(RequestEntityData)
    ops: Sequence[OpData] = array(OpData)


class AlterClientQuotasRequest(Message, key=49, versions="0-1", flexible="1+"):
    entries: Sequence[RequestEntryData] = array(RequestEntryData)
    validate_only: bool = boolean()


class ResponseEntityData(Struct):
    entity_type: str = string()
    entity_name: str | None = string(nullable="0+")


class ResponseEntryData(Struct):
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    entity: Sequence[ResponseEntityData] = array(ResponseEntityData)


class AlterClientQuotasResponse(Message, key=49, versions="0-1", flexible="1+"):
    throttle_time_ms: int = int32(default=0)
    entries: Sequence[ResponseEntryData] = array(ResponseEntryData)
