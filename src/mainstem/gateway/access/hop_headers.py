"""The headers that the gateway adds to a request for a view host. A host believes them: only its owner reaches its
socket, and the gateway passes none of them on from a client.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from mainstem.gateway.access.tokens import Grants

_SEES_PIPELINES: Final = "mainstem-sees-pipelines"
_READER: Final = "mainstem-reader"


def added_headers(grants: Grants, token: str | None) -> dict[str, str]:
    """Headers about the sender: the name of its token, and whether it may see pipelines (``GET /pipelines``)."""
    named = {} if token is None else {_READER: token}
    return named | ({_SEES_PIPELINES: "yes"} if grants.may_everything("read") else {})


def reader(headers: Mapping[str, str]) -> str:
    """The name of the sender's token; empty without one."""
    return headers.get(_READER, "")


def sees_pipelines(headers: Mapping[str, str]) -> bool:
    """Whether the sender may see pipelines."""
    return headers.get(_SEES_PIPELINES) == "yes"
