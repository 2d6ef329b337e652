"""SaslAuthenticate (36), versions 0–2: one token of a SASL exchange; from version 1 it returns the session's duration.

A refusal is the same for a wrong name and a wrong password; it takes ``connection.failed.authentication.delay.ms`` and
ends the connection. ``BARE_TOKEN`` serves the bare frames that follow a SaslHandshake of version 0: the response is the
server's token; a refusal only ends the connection.
"""

from __future__ import annotations

from mainstem.broker.access.guards import open_to_all
from mainstem.broker.api import Api
from mainstem.broker.call import Call
from mainstem.broker.node import Node
from mainstem.errors import AuthenticationError
from mainstem.protocol.errors import ErrorCode
from mainstem.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse


async def handle(node: Node, call: Call) -> SaslAuthenticateResponse:
    body: SaslAuthenticateRequest = call.body
    authentication = call.session.authentication
    if authentication is None:
        return _refused(ErrorCode.ILLEGAL_SASL_STATE, "this listener has no authentication")
    try:
        token, session_ms = await authentication.prove(bytes(body.auth_bytes))
    except AuthenticationError as error:
        return _refused(ErrorCode.SASL_AUTHENTICATION_FAILED, f"authentication failed: {error}")
    return SaslAuthenticateResponse(
        error_code=ErrorCode.NONE, error_message=None, auth_bytes=token, session_lifetime_ms=session_ms
    )


def _refused(code: ErrorCode, message: str) -> SaslAuthenticateResponse:
    return SaslAuthenticateResponse(error_code=code, error_message=message, auth_bytes=b"")


API = Api(SaslAuthenticateRequest, handle, open_to_all, before_authentication=True)
BARE_TOKEN = Api(SaslAuthenticateRequest, handle, open_to_all, before_authentication=True)
