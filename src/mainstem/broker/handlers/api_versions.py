"""ApiVersions (18), versions 0–4: the served APIs, versions and features, from the table of handlers.

An unsupported version is answered in version 0 with UNSUPPORTED_VERSION and the same list, so that any newer client
finds a version that both support (KIP-511). A client with an invalid software name is refused with INVALID_REQUEST.
Version 3 leaves out features whose lowest level is 0: its clients cannot read them (KIP-1022). Mainstem's own APIs are
listed only for clients that call themselves mainstem, so that they do not confuse other clients.
"""

from __future__ import annotations

import re
from typing import Final

from mainstem.broker.access.guards import open_to_all
from mainstem.broker.api import Api
from mainstem.broker.api_features import features
from mainstem.broker.call import Call
from mainstem.broker.node import Node
from mainstem.broker.security.session import NO_SESSION
from mainstem.protocol.apis import OWN_APIS, OWN_CLIENT
from mainstem.protocol.errors import ErrorCode
from mainstem.protocol.messages import api_versions as messages

_NAMED_FROM: Final = 3
_LEVEL_0_FROM: Final = 4
_NAME: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


def handle(node: Node, call: Call) -> messages.ApiVersionsResponse:
    body: messages.ApiVersionsRequest = call.body
    names = (body.client_software_name, body.client_software_version)
    if call.api_version >= _NAMED_FROM and not all(map(_NAME.fullmatch, names)):
        return messages.ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST, api_keys=[])
    if call.session is not NO_SESSION:
        call.session.client_software = names
    response = _response(node, ErrorCode.NONE, lists_own=body.client_software_name == OWN_CLIENT)
    listed = [each for each in features(node.apis) if each.first > 0 or call.api_version >= _LEVEL_0_FROM]
    response.supported_features = [
        messages.SupportedFeatureKey(name=each.name, min_version=each.first, max_version=each.last) for each in listed
    ]
    response.finalized_features = [
        messages.FinalizedFeatureKey(name=each.name, min_version_level=each.level, max_version_level=each.level)
        for each in features(node.apis)
    ]
    response.finalized_features_epoch = 0
    return response


def _handle_unsupported(node: Node, call: Call) -> messages.ApiVersionsResponse:
    return _response(node, ErrorCode.UNSUPPORTED_VERSION)


def _response(node: Node, code: ErrorCode, *, lists_own: bool = False) -> messages.ApiVersionsResponse:
    keys = []
    for api in node.apis.values():
        if api.key in OWN_APIS and not lists_own:
            continue
        first, last = api.advertised or api.versions
        keys.append(messages.ApiVersion(api_key=api.key, min_version=first, max_version=last))
    return messages.ApiVersionsResponse(error_code=code, api_keys=keys)


API = Api(messages.ApiVersionsRequest, handle, open_to_all, before_authentication=True)
UNSUPPORTED = Api(messages.ApiVersionsRequest, _handle_unsupported, open_to_all, before_authentication=True)
