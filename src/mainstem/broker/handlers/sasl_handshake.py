"""SaslHandshake (17), versions 0–1: the client chooses the mechanism of its authentication.

After version 0 the tokens arrive as bare frames, after version 1 in SaslAuthenticate. ILLEGAL_SASL_STATE on a listener
without authentication, and for an authenticated client whose session does not end.
"""

from __future__ import annotations

from mainstem.broker.access.guards import open_to_all
from mainstem.broker.api import Api
from mainstem.broker.call import Call
from mainstem.broker.node import Node
from mainstem.protocol.errors import ErrorCode
from mainstem.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse


def handle(node: Node, call: Call) -> SaslHandshakeResponse:
    body: SaslHandshakeRequest = call.body
    authentication = call.session.authentication
    if authentication is None:
        return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE, mechanisms=[])
    code = authentication.choose(body.mechanism, call.api_version)
    return SaslHandshakeResponse(error_code=code, mechanisms=list(authentication.settings.mechanisms))


API = Api(SaslHandshakeRequest, handle, open_to_all, before_authentication=True)
