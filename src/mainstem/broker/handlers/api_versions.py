"""ApiVersions (18), versions 0–4: which APIs and versions are served, straight from the table of handlers.

A version that is not served is answered in version 0 with UNSUPPORTED_VERSION and the same list, so that any client,
however new, finds a version to go on with (KIP-511).
Deliberate: no features are listed, as none is switched on by them here yet.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mainstem.broker.api import Api, Call
from mainstem.protocol.apis import ApiKey
from mainstem.protocol.errors import ErrorCode
from mainstem.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from mainstem.protocol.schema import Versions

if TYPE_CHECKING:
    from mainstem.broker.node import Node


def handle(node: Node, call: Call) -> ApiVersionsResponse:
    """Serve one request; the top of the file says how."""
    return _response(node, ErrorCode.NONE)


def _handle_unsupported(node: Node, call: Call) -> ApiVersionsResponse:
    return _response(node, ErrorCode.UNSUPPORTED_VERSION)


def _response(node: Node, code: ErrorCode) -> ApiVersionsResponse:
    keys = []
    for api in node.apis.values():
        first, last = api.advertised or api.versions
        keys.append(ApiVersion(api_key=api.key, min_version=first, max_version=last))
    return ApiVersionsResponse(error_code=code, api_keys=keys)


API = Api(ApiKey.API_VERSIONS, Versions(0, 4), handle)
UNSUPPORTED = Api(ApiKey.API_VERSIONS, Versions(0, 0), _handle_unsupported)
