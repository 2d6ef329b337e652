"""The scope that each request requires of its token. Each route declares its rule (``access.routes``).

A request that no declared route takes requires the scope ``admin`` on everything. Immutable.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from starlette.routing import compile_path

from mainstem.client.http.request_reply import RequestId
from mainstem.errors import UnknownRequestError
from mainstem.gateway.access.tokens import Grants, Kind, Scope


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


OPEN: Final = AccessRule(is_open=True)
ANY_TOKEN: Final = AccessRule()
READ_TOPIC: Final = AccessRule("read", "topic")
WRITE_TOPIC: Final = AccessRule("write", "topic")
ADMIN_TOPIC: Final = AccessRule("admin", "topic")
READ_VIEW: Final = AccessRule("read", "view")
ADMIN_VIEW: Final = AccessRule("admin", "view")
READ_ALL: Final = AccessRule("read")
WRITE_ALL: Final = AccessRule("write")
ADMIN_ALL: Final = AccessRule("admin")
_OPEN_PATHS: Final = ("/", "/docs", "/openapi.json", "/problems/{slug}")
"""Pages about the API itself, which everyone may read."""


class AccessRules:
    """The rules of an app: of its declared routes, and of the pages that are open."""

    def __init__(self, of_routes: Iterable[tuple[str, str, AccessRule]] = ()) -> None:
        rules = [*(("GET", path, OPEN) for path in _OPEN_PATHS), *of_routes]
        self._rules = [(method, compile_path(path)[0], rule) for method, path, rule in rules]

    def rule_for(self, method: str, path: str) -> tuple[AccessRule, dict[str, str]]:
        """The rule of a request, and the parameters of its path. ``path`` is percent-decoded, as routes see it."""
        for of_method, pattern, rule in self._rules:
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
