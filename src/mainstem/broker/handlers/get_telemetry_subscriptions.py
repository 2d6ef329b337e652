"""GetTelemetrySubscriptions (71), version 0: which metrics a client is to send, and how often (KIP-714).

The configs of client metrics say so, by what is known of the client. Kafka lists this API only with a plug-in that
takes the metrics; here ``/metrics`` shows them. Deliberate: sums are asked for as totals, not as changes, as Prometheus
counts.
"""

from __future__ import annotations

from mainstem.broker.access.guards import open_to_all
from mainstem.broker.api import Api
from mainstem.broker.call import Call
from mainstem.broker.error_codes import error_code
from mainstem.broker.node import Node
from mainstem.broker.telemetry.telemetry import ACCEPTED_COMPRESSIONS
from mainstem.errors import MainstemError
from mainstem.protocol.errors import ErrorCode
from mainstem.protocol.messages.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)
from mainstem.protocol.schema import ZERO_UUID


def handle(node: Node, call: Call) -> GetTelemetrySubscriptionsResponse:
    body: GetTelemetrySubscriptionsRequest = call.body
    try:
        instance = node.telemetry.subscriptions(body.client_instance_id, call.client_attributes)
    except MainstemError as error:
        return GetTelemetrySubscriptionsResponse(error_code=error_code(error), client_instance_id=ZERO_UUID)
    return GetTelemetrySubscriptionsResponse(
        error_code=ErrorCode.NONE,
        client_instance_id=instance.instance_id,
        subscription_id=instance.subscription_id,
        accepted_compression_types=ACCEPTED_COMPRESSIONS,
        push_interval_ms=instance.interval_ms,
        telemetry_max_bytes=node.telemetry.bytes_max,
        requested_metrics=instance.metrics,
    )


API = Api(GetTelemetrySubscriptionsRequest, handle, open_to_all)
"""Every client is asked, as in Kafka."""
