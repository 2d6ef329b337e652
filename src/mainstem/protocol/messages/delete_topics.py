"""The DeleteTopics API (20): its request and response."""

from __future__ import annotations

import uuid
from collections.abc import Sequence

from mainstem.protocol.schema import ZERO_UUID, Message, Struct, array, int16, int32, string, uuid_


class DeleteTopicState(Struct):
    name: str | None = string("6+", default=None, nullable="6+")
    topic_id: uuid.UUID = uuid_("6+", default=ZERO_UUID)


class DeleteTopicsRequest(Message, key=20, versions="1-6", flexible="4+"):
    topics: Sequence[DeleteTopicState] = array(DeleteTopicState, "6+", default=())
    topic_names: Sequence[str] = array("string", "1-5", default=())
    timeout_ms: int = int32()


class DeletableTopicResult(Struct):
    name: str | None = string(nullable="6+")
    topic_id: uuid.UUID = uuid_("6+", default=ZERO_UUID)
    error_code: int = int16()
    error_message: str | None = string("5+", default=None, nullable="5+")


class DeleteTopicsResponse(Message, key=20, versions="1-6", flexible="4+"):
    throttle_time_ms: int = int32(default=0)
    responses: Sequence[DeletableTopicResult] = array(DeletableTopicResult)
