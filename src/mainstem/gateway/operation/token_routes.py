"""The routes of the gateway's own tokens, and ``/whoami``.

A new token is shown once, in the answer that made it, over TLS or on this machine only; its file keeps a hash. Only a
token with ``admin`` on everything changes tokens, so no token can make one that may do more than itself. The last such
token cannot be revoked here.
"""

from __future__ import annotations

from typing import Annotated, Any, Final

from fastapi import Query, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from mainstem.errors import UnsupportedFeatureError
from mainstem.gateway.access.access_rules import ADMIN_ALL, ANY_TOKEN
from mainstem.gateway.access.private_connections import require_private
from mainstem.gateway.access.routes import Routes
from mainstem.gateway.access.token_auth import grants_of as grants_of_request
from mainstem.gateway.access.token_auth import token_name
from mainstem.gateway.access.tokens import (
    Grants,
    TokenFile,
    add_token,
    grants_of,
    new_token,
    read_tokens,
    revoke_token,
)
from mainstem.gateway.http.blocking import Workers
from mainstem.gateway.http.bodies import read_json
from mainstem.gateway.http.description import Answers, Success, success
from mainstem.gateway.http.json_responses import json_response
from mainstem.gateway.http.queries import ConfirmQuery, NoQuery, require_confirmation

_THREADS_MAX: Final = 2
_PATTERNS_MAX: Final = 100
_Pattern = Annotated[str, Field(min_length=1, max_length=300)]
_Patterns = Annotated[list[_Pattern], Field(max_length=_PATTERNS_MAX, examples=[["topic:orders", "view:*"], ["*"]])]


class TokenBody(BaseModel):
    """A token to make: its name, and what it may do with ``topic:NAME``, ``view:NAME``, ``topic:PREFIX*`` or ``*``."""

    model_config = ConfigDict(extra="forbid")

    name: str = Field(min_length=1, max_length=100)
    read: _Patterns = Field(default_factory=list)
    write: _Patterns = Field(default_factory=list)
    admin: _Patterns = Field(default_factory=list)


def token_router(tokens: TokenFile | None) -> Routes:
    """``/tokens`` and ``/whoami``. ``tokens`` None: this gateway asks for no tokens."""
    router, workers = Routes("access"), Workers(_THREADS_MAX)

    @router.declare(
        "GET", "/whoami", "The token that this request sent, and its scopes", ANY_TOKEN, success("The token", "Object")
    )
    async def whoami(http: Request, _: Annotated[NoQuery, Query()]) -> Response:
        grants = grants_of_request(http.scope)
        shown = {"name": token_name(http.scope), "asks_for_tokens": tokens is not None, **_scopes(grants)}
        return json_response(shown)

    @router.declare(
        "GET",
        "/tokens",
        "The gateway's tokens: their names and scopes",
        ADMIN_ALL,
        Answers((Success(200, "The tokens", "Object"),), (409,)),
    )
    async def list_tokens(_: Annotated[NoQuery, Query()]) -> Response:
        found = await workers.run(read_tokens, _file(tokens).path)
        return json_response({"tokens": [{"name": each.name, **_scopes(each.grants)} for each in found.values()]})

    @router.declare(
        "POST",
        "/tokens",
        "Create a token; it is shown once, over TLS or on this machine only",
        ADMIN_ALL,
        Answers((Success(201, "The token", "Object"),), (409,)),
        body=TokenBody,
    )
    async def create(http: Request, _: Annotated[NoQuery, Query()]) -> Response:
        file = _file(tokens)
        require_private(http.scope, "a new token")
        body = await read_json(http, TokenBody)
        token, secret = new_token(body.name, grants_of(body.read, body.write, body.admin))
        await workers.run(add_token, file.path, token)
        file.look_again()
        answer = json_response({"name": body.name, "token": secret, **_scopes(token.grants)}, status=201)
        answer.headers["Cache-Control"] = "no-store"
        return answer

    @router.declare(
        "DELETE",
        "/tokens/{name}",
        "Revoke a token: it is refused from the next request on",
        ADMIN_ALL,
        Answers((Success(200, "Revoked", "Object"),), (409,)),
    )
    async def revoke(name: str, query: Annotated[ConfirmQuery, Query()]) -> Response:
        file = _file(tokens)
        require_confirmation(query.confirm, name, "token ")
        await workers.run(revoke_token, file.path, name, keep_admin=True)
        file.look_again()
        return json_response({"revoked": name})

    return router


def _file(tokens: TokenFile | None) -> TokenFile:
    if tokens is None:
        raise UnsupportedFeatureError(
            "this gateway asks for no tokens: create the first one with mainstem tokens create, and start the gateway "
            "with --http-tokens FILE"
        )
    return tokens


def _scopes(grants: Grants) -> dict[str, Any]:
    return {"read": list(grants.read), "write": list(grants.write), "admin": list(grants.admin)}
