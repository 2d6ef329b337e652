"""The frame that says which schema a key or a value was written with, as Confluent's serializers write it.

It is a zero and four bytes, the schema's id in the default context; or a one and sixteen bytes, the schema's global id.
It begins the key or value. The seventeen bytes may stand in a header instead.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from typing import Final

KEY_HEADER: Final = "__key_schema_id"
VALUE_HEADER: Final = "__value_schema_id"
ID_FRAME_BYTES: Final = 5
GUID_FRAME_BYTES: Final = 17


def frame_of(schema_id: int) -> bytes:
    """The frame with an id of the default context."""
    return b"\x00" + schema_id.to_bytes(4, "big")


def guid_frame_of(guid: str) -> bytes:
    """The frame with a global id."""
    return b"\x01" + uuid.UUID(guid).bytes


def header_frame(headers: Iterable[tuple[str, bytes | None]], wanted: str = VALUE_HEADER) -> bytes | None:
    """The frame among a record's headers, pairs of a name and bytes; the last one of the wanted name counts.

    For Protobuf the message's place in its schema follows the global id.
    """
    frame = None
    for name, value in headers:
        if name == wanted and value is not None and len(value) >= GUID_FRAME_BYTES and value[0] == 1:
            frame = value
    return frame
