"""PushTelemetry (72), version 0: takes metrics of a client (KIP-714), which ``/metrics`` then shows.

Metrics are OpenTelemetry's; gauges and sums are kept, within bounds. A payload that cannot be read is INVALID_RECORD.
Deliberate: histograms are left out; no client of Kafka sends any.
"""

from __future__ import annotations

from mainstem.broker.access.guards import open_to_all
from mainstem.broker.api import Api
from mainstem.broker.call import Call
from mainstem.broker.error_codes import error_code
from mainstem.broker.node import Node
from mainstem.errors import MainstemError
from mainstem.protocol.errors import ErrorCode
from mainstem.protocol.messages.push_telemetry import PushTelemetryRequest, PushTelemetryResponse


async def handle(node: Node, call: Call) -> PushTelemetryResponse:
    body: PushTelemetryRequest = call.body
    try:
        await node.telemetry.push(
            body.client_instance_id,
            call.client_attributes,
            body.subscription_id,
            terminating=body.terminating,
            payload=(body.compression_type, body.metrics),
        )
    except MainstemError as error:
        return PushTelemetryResponse(error_code=error_code(error))
    return PushTelemetryResponse(error_code=ErrorCode.NONE)


API = Api(PushTelemetryRequest, handle, open_to_all)
