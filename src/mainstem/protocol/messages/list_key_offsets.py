"""The ListKeyOffsets API (32001), which is Mainstem's own: its request and response.

ApiVersions lists it only for clients with the software name mainstem.
"""

from __future__ import annotations

from collections.abc import Sequence

from mainstem.protocol.schema import Message, array, bytestring, int16, int32, int64, string


class ListKeyOffsetsRequest(Message, key=32001, versions="0", flexible="0+"):
    """Where records with ``key`` may be in [start, end) of a partition, as far as they are visible."""

    topic: str = string()
    partition: int = int32()
    key: bytes = bytestring()
    start_offset: int = int64()
    end_offset: int = int64()
    max_offsets: int = int32()


class ListKeyOffsetsResponse(Message, key=32001, versions="0", flexible="0+"):
    """Rising offsets, at most ``max_offsets``, among them every record of the key; and its last one, -1 for none."""

    throttle_time_ms: int = int32(default=0)
    error_code: int = int16(default=0)
    error_message: str | None = string(default=None, nullable="0+")
    offsets: Sequence[int] = array("int64", default=())
    last_offset: int = int64(default=-1)
    high_watermark: int = int64(default=-1)
    log_start_offset: int = int64(default=-1)
