"""Records that a log has to load from an object store before it can answer with them (tiered storage, KIP-405).

A fetch of such records is answered without any when its time is over first. That looks like offsets without records,
which readers may pass over. A reader asks here before it draws a conclusion from an answer without records.

Functions over a ``WireClient``, whose contract they have.
"""

from __future__ import annotations

from typing import Final

from mainstem.client.wire.cluster.cluster import WireClient
from mainstem.client.wire.cluster.fetching import FetchedPartition
from mainstem.client.wire.connection.deadline import Deadline
from mainstem.clock import SystemClock
from mainstem.errors import LogUnavailableError
from mainstem.model import TopicPartition
from mainstem.protocol.messages.list_offsets import ListOffsetsRequest

_EARLIEST_LOCAL: Final = -4
"""ListOffsets of it: where the part begins that the log need not load."""
_EARLIEST_LOCAL_FROM: Final = 8
"""Logs that do not know this version have no tiered storage."""
_WAIT_MS: Final = 500


def is_in_store(client: WireClient, tp: TopicPartition, offset: int) -> bool:
    """Whether the log has to load what lies at an offset. Raises UnknownTopicError, LogUnavailableError."""
    if client.version_of(ListOffsetsRequest) < _EARLIEST_LOCAL_FROM:
        return False
    return offset < client.list_offsets([tp], _EARLIEST_LOCAL).get(tp, 0)


def fetch_loaded(
    client: WireClient, tp: TopicPartition, offset: int, partition_max_bytes: int, *, read_committed: bool
) -> FetchedPartition:
    """Fetch what is there now, from an offset on. Without records, there are none: what has to be loaded is waited for.

    Raises what a fetch raises, and LogUnavailableError when the load takes longer than ``timeout_s``.
    """
    deadline, wait_ms = Deadline(SystemClock(), client.timeout_s), 0
    while True:
        fetched = client.fetch(
            {tp: offset}, max_wait_ms=wait_ms, partition_max_bytes=partition_max_bytes, read_committed=read_committed
        )[tp]
        end = fetched.last_stable_offset if read_committed else fetched.high_watermark
        if fetched.error is not None or len(fetched.records) or offset >= end or not is_in_store(client, tp, offset):
            return fetched
        wait_ms = _WAIT_MS
        if deadline.left_s() <= 0:
            raise LogUnavailableError(
                f"{tp} has records at offset {offset}, and has not loaded them from its store within "
                f"{client.timeout_s:g} s: try again"
            )
