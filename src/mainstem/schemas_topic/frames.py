"""The frame that says which schema a key or a value was written with, as Confluent's serializers write it.

It is a zero and four bytes, the schema's id in the default context; or a one and sixteen bytes, the schema's global id.
It begins the key or value. The seventeen bytes may stand in a header instead.
"""

from __future__ import annotations

import uuid
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
