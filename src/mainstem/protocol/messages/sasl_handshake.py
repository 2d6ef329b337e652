"""The SaslHandshake API (17): its request and response."""

from __future__ import annotations

from collections.abc import Sequence

from mainstem.protocol.schema import Message, array, int16, string


class SaslHandshakeRequest(Message, key=17, versions="0-1"):
    mechanism: str = string()


class SaslHandshakeResponse(Message, key=17, versions="0-1"):
    error_code: int = int16()
    mechanisms: Sequence[str] = array("string")
