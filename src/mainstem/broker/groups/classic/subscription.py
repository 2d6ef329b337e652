"""The topics that a member of a classic consumer group subscribes to, read from its JoinGroup metadata.

Clients define the consumer protocol among themselves. This module reads only the version and the topics, which are in
the same place in every version.
"""

from __future__ import annotations

import struct
from typing import Final

_HEADER: Final = struct.Struct(">hi")
_LENGTH: Final = struct.Struct(">h")


def subscribed_topics(metadata: bytes) -> frozenset[str] | None:
    """The topics of a subscription; None if the bytes are not a subscription."""
    try:
        _, count = _HEADER.unpack_from(metadata)
        if not 0 <= count <= len(metadata) // _LENGTH.size:
            return None
        position, topics = _HEADER.size, set()
        for _ in range(count):
            (length,) = _LENGTH.unpack_from(metadata, position)
            position += _LENGTH.size
            if not 0 <= length <= len(metadata) - position:
                return None
            topics.add(metadata[position : position + length].decode())
            position += length
    except (struct.error, UnicodeDecodeError):
        return None
    return frozenset(topics)
