"""The routes of the log's users. They send Kafka's requests, so they work on Apache Kafka, too.

A password comes in over TLS or from this machine only. It is hashed in this process, never kept, logged or returned.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

from fastapi import Query, Request
from pydantic import BaseModel, ConfigDict, Field, SecretStr
from starlette.responses import Response

from mainstem.client.log import Log
from mainstem.gateway.access.access_rules import ADMIN_ALL
from mainstem.gateway.access.private_connections import require_known_sender, require_private
from mainstem.gateway.access.routes import Routes
from mainstem.gateway.http.blocking import Workers
from mainstem.gateway.http.bodies import read_json
from mainstem.gateway.http.description import Answers, Success, success
from mainstem.gateway.http.json_responses import json_response
from mainstem.gateway.http.key_paths import USER
from mainstem.gateway.http.queries import ConfirmQuery, NoQuery, require_confirmation

_THREADS_MAX: Final = 2


class UserBody(BaseModel):
    """A user with a password. Without ``mechanisms`` it can log in by all of them."""

    model_config = ConfigDict(extra="forbid")

    user: str = Field(min_length=1, max_length=249)
    password: SecretStr = Field(min_length=1, max_length=1_024)
    mechanisms: list[Literal["SCRAM-SHA-256", "SCRAM-SHA-512"]] = Field(default_factory=list, max_length=2)


def user_router(log: Log, *, has_tokens: bool) -> Routes:
    """``/users``. ``has_tokens``: each sender is known by a token."""
    router, workers = Routes("access"), Workers(_THREADS_MAX)

    @router.declare(
        "GET",
        "/users",
        "The log's users, and how each can log in",
        ADMIN_ALL,
        Answers((Success(200, "The users", "Object"),), (409,)),
    )
    async def list_users(http: Request, _: Annotated[NoQuery, Query()]) -> Response:
        require_known_sender(http.scope, has_tokens=has_tokens)
        users = await workers.run(log.access_admin.users)
        return json_response({"users": [{"user": user, "mechanisms": found} for user, found in users.items()]})

    @router.declare(
        "POST",
        "/users",
        "Add a user, or give it a new password; over TLS or from this machine only",
        ADMIN_ALL,
        Answers((Success(201, "Added", "Object"),), (409,)),
        body=UserBody,
    )
    async def put_user(http: Request, _: Annotated[NoQuery, Query()]) -> Response:
        require_known_sender(http.scope, has_tokens=has_tokens)
        require_private(http.scope, "a password")
        body = await read_json(http, UserBody)
        put = log.access_admin.put_user
        mechanisms = await workers.run(put, body.user, body.password.get_secret_value(), body.mechanisms)
        return json_response({"user": body.user, "mechanisms": mechanisms}, status=201)

    @router.declare(
        "DELETE",
        f"/users/{USER}",
        "Remove a user; connections that it has stay until they end",
        ADMIN_ALL,
        success("Removed", "Object"),
    )
    async def remove_user(user: str, http: Request, query: Annotated[ConfirmQuery, Query()]) -> Response:
        require_known_sender(http.scope, has_tokens=has_tokens)
        require_confirmation(query.confirm, user, "user ")
        await workers.run(log.access_admin.remove_user, user)
        return json_response({"removed": user})

    return router
