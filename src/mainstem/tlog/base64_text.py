"""Base64 in one form only: text that decodes to the same bytes as another text is refused. Pure functions."""

from __future__ import annotations

import base64
import binascii

from mainstem.errors import ProofError


def encode_base64(data: bytes) -> str:
    """The text of ``data``."""
    return base64.b64encode(data).decode()


def decode_base64(text: str | bytes) -> bytes:
    """The bytes of a text. Raises ProofError."""
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        data = None
    if data is None or base64.b64encode(data) != (text.encode() if isinstance(text, str) else text):
        raise ProofError("invalid base64")
    return data
