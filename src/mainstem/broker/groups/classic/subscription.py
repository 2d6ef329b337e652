"""What a member of a classic consumer group says when it joins: the topics that it subscribes to.

The consumer protocol is between clients; of its subscription only the version and the topics are read here, which every
version has in the same place.
"""

from __future__ import annotations

import struct
from typing import Final

_HEADER: Final = struct.Struct(">hi")
_LENGTH: Final = struct.Struct(">h")


def subscribed_topics(metadata: bytes) -> frozenset[str] | None:
    """The topics of a subscription; None for bytes that are none."""
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
