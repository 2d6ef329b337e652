"""Proving a user on a fresh connection: SaslHandshake, then SaslAuthenticate until the log is convinced.

With SCRAM the log has to prove that it knows the user, too. With OAUTHBEARER (RFC 7628) a token is sent. Stateless.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mainstem.client.failures import error_of
from mainstem.client.security import OAUTHBEARER, PLAIN, Security
from mainstem.client.wire.connection.deadline import Deadline
from mainstem.errors import AuthenticationError
from mainstem.protocol.errors import ErrorCode
from mainstem.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from mainstem.protocol.messages.sasl_handshake import SaslHandshakeRequest
from mainstem.protocol.scram import ScramClient

if TYPE_CHECKING:
    from mainstem.client.wire.connection.connection import BrokerConnection


def log_in(connection: BrokerConnection, security: Security, deadline: Deadline) -> int:
    """Prove the user; for how many milliseconds that holds, 0 for good.

    Raises AuthenticationError, LogUnavailableError.
    """
    handshake = connection.exchange(SaslHandshakeRequest(mechanism=security.mechanism), deadline)
    if handshake.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM:
        offered = ", ".join(handshake.mechanisms) or "none"
        raise AuthenticationError(
            f"the log at {connection.address} does not take {security.mechanism}; it takes {offered} (sasl.mechanism)"
        )
    _check(connection, security, handshake.error_code, None)
    if security.mechanism == PLAIN:
        return _token(connection, security, f"\0{security.username}\0{security.password}".encode(), deadline)[1]
    if security.mechanism == OAUTHBEARER:
        return _with_token(connection, security, deadline)
    scram = ScramClient(security.mechanism, security.username, security.password)
    challenge, _ = _token(connection, security, scram.first(), deadline)
    verdict, session_ms = _token(connection, security, scram.final(challenge), deadline)
    scram.check(verdict)
    return session_ms


def _with_token(connection: BrokerConnection, security: Security, deadline: Deadline) -> int:
    token = security.token().text
    said, session_ms = _token(connection, security, f"n,,\x01auth=Bearer {token}\x01\x01".encode(), deadline)
    if said:  # Kafka says first why it refuses the token, and refuses when that is acknowledged
        _token(connection, security, b"\x01", deadline)
        raise AuthenticationError(f"the log at {connection.address} refuses the token: {said[:200]!r}")
    return session_ms


def _token(connection: BrokerConnection, security: Security, token: bytes, deadline: Deadline) -> tuple[bytes, int]:
    answer = connection.exchange(SaslAuthenticateRequest(auth_bytes=token), deadline)
    _check(connection, security, answer.error_code, answer.error_message)
    return bytes(answer.auth_bytes), answer.session_lifetime_ms


def _check(connection: BrokerConnection, security: Security, code: int, said: str | None) -> None:
    if code:
        who = "the token" if security.mechanism == OAUTHBEARER else f"user {security.username!r}"
        raise error_of(code, f"the log at {connection.address} refuses {who}", said)
