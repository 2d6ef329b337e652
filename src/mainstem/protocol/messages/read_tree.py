"""The ReadTree API (32003), which is Mainstem's own: its request and response.

ApiVersions lists it only for clients with the software name mainstem.
"""

from __future__ import annotations

from mainstem.protocol.schema import Message, bytestring, int16, int32, int64, string


class ReadTreeRequest(Message, key=32003, versions="0", flexible="0+"):
    """A resource of a partition's verifiable log: ``path`` is one of tlog-tiles, such as ``checkpoint``.

    With an empty ``path``: the leaf of the batch that holds ``offset``.
    """

    topic: str = string()
    partition: int = int32()
    path: str = string(default="")
    offset: int = int64(default=-1)


class ReadTreeResponse(Message, key=32003, versions="0", flexible="0+"):
    """The resource; of a leaf its entry, and its index, which is -1 where no batch ends at or after the offset."""

    throttle_time_ms: int = int32(default=0)
    error_code: int = int16(default=0)
    error_message: str | None = string(default=None, nullable="0+")
    data: bytes = bytestring(default=b"")
    leaf_index: int = int64(default=-1)
