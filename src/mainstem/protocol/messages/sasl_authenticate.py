"""The SaslAuthenticate API (36): its request and response."""

from __future__ import annotations

from mainstem.protocol.schema import Message, bytestring, int16, int64, string


class SaslAuthenticateRequest(Message, key=36, versions="0-2", flexible="2+"):
    auth_bytes: bytes = bytestring()


class SaslAuthenticateResponse(Message, key=36, versions="0-2", flexible="2+"):
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    auth_bytes: bytes = bytestring()
    session_lifetime_ms: int = int64("1+", default=0)
