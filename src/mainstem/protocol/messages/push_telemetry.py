"""The PushTelemetry API (72): its request and response."""

from __future__ import annotations

import uuid

from mainstem.protocol.schema import Buffer, Message, boolean, bytestring, int8, int16, int32, uuid_


class PushTelemetryRequest(Message, key=72, versions="0", flexible="0+"):
    client_instance_id: uuid.UUID = uuid_()
    subscription_id: int = int32()
    terminating: bool = boolean()
    compression_type: int = int8()
    metrics: Buffer = bytestring()


class PushTelemetryResponse(Message, key=72, versions="0", flexible="0+"):
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16()
