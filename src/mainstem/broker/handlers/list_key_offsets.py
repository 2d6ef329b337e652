"""ListKeyOffsets (32001), version 0, Mainstem's own: where a key's records are in a partition, from its key index.

INVALID_CONFIG when the topic has no key index, OFFSET_NOT_AVAILABLE while it is being built: then the client scans.
The offsets include every record of the key below the high watermark. Some of these records may have been compacted,
and some transactions aborted: the client fetches the offsets to find out.
"""

from __future__ import annotations

from typing import Final

from mainstem.broker.access.acls import Operation, ResourceType
from mainstem.broker.access.guards import on_named
from mainstem.broker.api import Api
from mainstem.broker.call import Call
from mainstem.broker.error_codes import error_code, refusal
from mainstem.broker.node import Node
from mainstem.errors import IndexNotReadyError, MainstemError
from mainstem.log.partition.partition_log import PartitionLog
from mainstem.protocol.errors import ErrorCode
from mainstem.protocol.messages.list_key_offsets import ListKeyOffsetsRequest, ListKeyOffsetsResponse

OFFSETS_MAX: Final = 10_000
"""The most offsets in one answer: they take some milliseconds of the event loop."""


def handle(node: Node, call: Call) -> ListKeyOffsetsResponse:
    body: ListKeyOffsetsRequest = call.body
    try:
        return _list(node.topics.partition(body.topic, body.partition), body)
    except IndexNotReadyError as error:
        return ListKeyOffsetsResponse(error_code=ErrorCode.OFFSET_NOT_AVAILABLE, error_message=str(error))
    except MainstemError as error:
        return ListKeyOffsetsResponse(error_code=error_code(error), error_message=str(error))


def _list(log: PartitionLog, body: ListKeyOffsetsRequest) -> ListKeyOffsetsResponse:
    index = log.features.index if log.features is not None else None
    if index is None or not log.config.mainstem_key_index:
        text = f"topic {body.topic!r} has no key index: set mainstem.key.index=true"
        raise refusal(ErrorCode.INVALID_CONFIG, text)
    end, limit = min(body.end_offset, log.high_watermark), min(max(body.max_offsets, 0), OFFSETS_MAX)
    return ListKeyOffsetsResponse(
        offsets=index.offsets(body.key, body.start_offset, end, limit) if limit else [],
        last_offset=index.last_offset(body.key, log.high_watermark),
        high_watermark=log.high_watermark,
        log_start_offset=log.log_start_offset,
    )


API = Api(ListKeyOffsetsRequest, handle, on_named(ResourceType.TOPIC, Operation.READ, "topic"))
