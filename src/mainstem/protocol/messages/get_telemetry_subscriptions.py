"""The GetTelemetrySubscriptions API (71): its request and response."""

from __future__ import annotations

import uuid
from collections.abc import Sequence

from mainstem.protocol.schema import Message, array, boolean, int16, int32, uuid_


class GetTelemetrySubscriptionsRequest(Message, key=71, versions="0", flexible="0+"):
    client_instance_id: uuid.UUID = uuid_()


class GetTelemetrySubscriptionsResponse(Message, key=71, versions="0", flexible="0+"):
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16()
    client_instance_id: uuid.UUID = uuid_()
    subscription_id: int = int32(default=0)
    accepted_compression_types: Sequence[int] = array("int8", default=())
    push_interval_ms: int = int32(default=0)
    telemetry_max_bytes: int = int32(default=0)
    delta_temporality: bool = boolean(default=False)
    requested_metrics: Sequence[str] = array("string", default=())
