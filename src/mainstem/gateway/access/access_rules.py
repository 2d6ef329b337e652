"""The scope that each request requires of its token: one line for each method and path.

A request without a line requires the scope ``admin`` on everything, so a route that is forgotten here is closed and not
open. A test requires a line for every route of the description. Pure data and functions.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from starlette.routing import compile_path

from mainstem.client.http.request_reply import RequestId
from mainstem.errors import UnknownRequestError
from mainstem.gateway.access.tokens import Grants, Kind, Scope
from mainstem.gateway.http.key_paths import KEY


@dataclass(frozen=True, slots=True)
class AccessRule:
    """The scope that is asked for: of a topic or view that the path names, or (``kind`` None) of everything.

    ``scope`` None: any token will do, and the answer shows what it may read. ``is_open``: no token is asked for.
    """

    scope: Scope | None = None
    kind: Kind | None = None
    is_open: bool = False

    def admits(self, grants: Grants, path: Mapping[str, str]) -> bool:
        """Whether ``grants`` do, for the parameters of the path."""
        if self.scope is None:
            return True
        if self.kind is None:
            return grants.may_everything(self.scope)
        return grants.may(self.scope, self.kind, _named(self.kind, path))

    def wanted(self, path: Mapping[str, str]) -> str:
        """The scope in words, for who lacks it."""
        if self.kind is None:
            return f"{self.scope} on *"
        return f"{self.scope} on {self.kind}:{_named(self.kind, path)[:100]}"


_OPEN: Final = AccessRule(is_open=True)
_ANY: Final = AccessRule()
_READ_TOPIC: Final = AccessRule("read", "topic")
_WRITE_TOPIC: Final = AccessRule("write", "topic")
_READ_VIEW: Final = AccessRule("read", "view")
_ADMIN_VIEW: Final = AccessRule("admin", "view")
_READ_ALL: Final = AccessRule("read")
ADMIN_ALL: Final = AccessRule("admin")

RULES: Final[Mapping[tuple[str, str], AccessRule]] = {
    ("GET", "/"): _OPEN,
    ("GET", "/healthz"): _OPEN,
    ("GET", "/openapi.json"): _OPEN,
    ("GET", "/client.js"): _OPEN,
    ("GET", "/problems/{slug}"): _OPEN,
    ("GET", "/topics"): _ANY,
    ("GET", "/topics/{topic}"): _READ_TOPIC,
    ("POST", "/topics/{topic}/records"): _WRITE_TOPIC,
    ("GET", "/topics/{topic}/records"): _READ_TOPIC,
    ("GET", "/topics/{topic}/keys/" + KEY): _READ_TOPIC,
    ("GET", "/topics/{topic}/stream"): _READ_TOPIC,
    ("POST", "/topics/{topic}/requests"): _WRITE_TOPIC,
    ("GET", "/requests/{request}"): _WRITE_TOPIC,  # the id names the topic, and has to be known besides
    ("GET", "/views"): _ANY,
    ("GET", "/views/{view}"): _READ_VIEW,
    ("DELETE", "/views/{view}"): _ADMIN_VIEW,
    ("POST", "/views/{view}/verify"): _ADMIN_VIEW,
    ("POST", "/views/{view}/rebuild"): _ADMIN_VIEW,
    ("GET", "/views/{view}/keys"): _READ_VIEW,
    ("GET", "/views/{view}/keys/" + KEY): _READ_VIEW,
    ("POST", "/views/{view}/sql"): _READ_VIEW,
    ("GET", "/views/{view}/search"): _READ_VIEW,
    ("GET", "/views/{view}/neighbors"): _READ_VIEW,
    ("GET", "/views/{view}/path"): _READ_VIEW,
    ("GET", "/views/{view}/diff"): _READ_VIEW,
    ("GET", "/views/{view}/metrics"): _READ_VIEW,
    ("GET", "/views/{view}/prometheus"): _READ_VIEW,
    ("GET", "/views/{view}/stream"): _READ_VIEW,
    ("GET", "/pipelines"): _READ_ALL,
    ("GET", "/groups"): _READ_ALL,
    ("GET", "/metrics"): _READ_ALL,
    ("GET", "/config"): ADMIN_ALL,
}
_COMPILED: Final[tuple[tuple[str, re.Pattern[str], AccessRule], ...]] = tuple(
    (method, compile_path(template)[0], rule) for (method, template), rule in RULES.items()
)


def rule_for(method: str, path: str) -> tuple[AccessRule, dict[str, str]]:
    """The rule of a request, and the parameters of its path. ``path`` is percent-decoded, as routes see it."""
    for of_method, pattern, rule in _COMPILED:
        match = pattern.match(path)
        if match is not None and of_method == ("GET" if method == "HEAD" else method):
            return rule, match.groupdict()
    return ADMIN_ALL, {}


def _named(kind: Kind, path: Mapping[str, str]) -> str:
    """The topic or view that a path is about."""
    if "request" not in path:
        return path[kind]
    try:
        return RequestId.parse(path["request"]).topic
    except UnknownRequestError:
        return ""  # no topic: a caller that may write everything gets the answer "no such request"
