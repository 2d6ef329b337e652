"""The headers that the gateway adds to a request for a view host. A host believes them: only its owner reaches its
socket, and the gateway passes none of them on from a client.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from mainstem.gateway.access.tokens import Grants

_SEES_PIPELINES: Final = "mainstem-sees-pipelines"


def added_headers(grants: Grants) -> dict[str, str]:
    """Headers that tell a view host about the sender: whether it may see pipelines (``GET /pipelines``)."""
    return {_SEES_PIPELINES: "yes"} if grants.may_everything("read") else {}


def sees_pipelines(headers: Mapping[str, str]) -> bool:
    """Whether the sender may see pipelines."""
    return headers.get(_SEES_PIPELINES) == "yes"
