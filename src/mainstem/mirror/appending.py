"""MirrorAppend: batches of several partitions to the target in one request. A function over a ``WireClient``.

The request may be sent again: it says where the target must end, so nothing is appended twice.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from mainstem.client.failures import error_of
from mainstem.client.wire.cluster.cluster import WireClient
from mainstem.errors import MainstemError
from mainstem.model import TopicPartition
from mainstem.protocol.errors import ErrorCode
from mainstem.protocol.messages.mirror_append import (
    MirrorAppendRequest,
    MirrorAppendResponse,
    MirroredPartition,
    MirroredTopic,
)


@dataclass(slots=True)
class MirrorAppend:
    """Batches for one partition, which must end at ``expected_end``. Gaps are filled, also up to ``fill_to``."""

    expected_end: int
    records: memoryview
    fill_to: int
    start: int
    end: int
    """Where the partition ends then."""


@dataclass(frozen=True, slots=True)
class MirrorAppended:
    """The end of the partition now, -1 where the log does not say it, and why nothing was appended, if so."""

    end: int
    code: int = ErrorCode.NONE
    error: MainstemError | None = None


def append(client: WireClient, appends: Mapping[TopicPartition, MirrorAppend]) -> dict[TopicPartition, MirrorAppended]:
    """Append; what became of each partition. Raises AuthorizationError, LogUnavailableError."""
    by_topic: dict[str, list[MirroredPartition]] = {}
    for tp, each in appends.items():
        item = MirroredPartition(
            index=tp.partition,
            expected_end_offset=each.expected_end,
            fill_to_offset=each.fill_to,
            start_offset=each.start,
            records=each.records,
        )
        by_topic.setdefault(tp.topic, []).append(item)
    request = MirrorAppendRequest(topics=[MirroredTopic(name=name, partitions=of) for name, of in by_topic.items()])
    answer: MirrorAppendResponse = client.request(request, resends=True)
    if answer.error_code != ErrorCode.NONE:
        context = f"{client.bootstrap} takes nothing from this user: give it the right ClusterAction on the cluster"
        raise error_of(answer.error_code, context, answer.error_message)
    results: dict[TopicPartition, MirrorAppended] = {}
    for topic in answer.topics:
        for result in topic.partitions:
            tp = TopicPartition(topic.name, result.index)
            error = None
            if result.error_code != ErrorCode.NONE:
                error = error_of(result.error_code, f"{client.bootstrap} refuses {tp}", result.error_message)
            results[tp] = MirrorAppended(result.log_end_offset, result.error_code, error)
    return results
