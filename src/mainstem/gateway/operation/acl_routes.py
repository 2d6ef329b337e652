"""The routes of the log's ACLs, in the words of ``mainstem acls``. They work on Apache Kafka, too.

A removal says the principal twice, as a deletion says its name twice.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import Annotated, Any, Final

from fastapi import Query, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from mainstem.client.admin.access_admin import AclRule
from mainstem.client.log import Log
from mainstem.gateway.access.access_rules import ADMIN_ALL
from mainstem.gateway.access.private_connections import require_known_sender
from mainstem.gateway.access.routes import Routes
from mainstem.gateway.http.blocking import Workers
from mainstem.gateway.http.bodies import read_json
from mainstem.gateway.http.description import Answers, Success
from mainstem.gateway.http.json_responses import json_response
from mainstem.gateway.http.queries import NoQuery, require_confirmation

_THREADS_MAX: Final = 2
_Resource = Annotated[str, Field(min_length=1, max_length=300, examples=["topic:orders", "group:*", "cluster"])]
_Word = Annotated[str, Field(min_length=1, max_length=50, examples=["read", "write", "describe-configs"])]
_PRINCIPAL: Final = "`TYPE:NAME`, such as `User:alice`; `User:*` is everyone"
_ON: Final = "`topic:NAME`, `group:NAME`, `transactional-id:NAME` (`*`: every one), or `cluster`"


class AclBody(BaseModel):
    """ACLs to add: one for each operation on each resource."""

    model_config = ConfigDict(extra="forbid")

    principal: str = Field(min_length=1, max_length=1_000, description=_PRINCIPAL)
    operations: list[_Word] = Field(min_length=1, max_length=20)
    on: list[_Resource] = Field(min_length=1, max_length=100, description=_ON)
    prefix: bool = Field(False, description="all names that begin with the given one")
    deny: bool = Field(False, description="deny instead of allow; a denial wins")
    host: str = Field("*", min_length=1, max_length=100, description="the clients' address; `*`: every one")


class AclsQuery(NoQuery):
    """Which ACLs to list."""

    principal: str | None = Field(None, max_length=1_000, description=_PRINCIPAL)
    on: str | None = Field(None, max_length=300, description=f"those that apply to {_ON}")


class AclRemovalQuery(NoQuery):
    """The ACLs to remove: a principal's, on one resource."""

    principal: str = Field(max_length=1_000, description=_PRINCIPAL)
    on: str = Field(max_length=300, description=_ON)
    operation: list[_Word] = Field(default_factory=list, max_length=20, description="only these; default: all")
    prefix: bool = False
    deny: bool = False
    host: str | None = Field(None, max_length=100, description="only those for this address")
    confirm: str = Field("", description="the principal again")


def acl_router(log: Log, *, has_tokens: bool) -> Routes:
    """``/acls``. ``has_tokens``: each sender is known by a token."""
    router, workers = Routes("access"), Workers(_THREADS_MAX)

    @router.declare(
        "GET",
        "/acls",
        "The ACLs: all, those of one principal, or those that apply to one resource",
        ADMIN_ALL,
        Answers((Success(200, "The ACLs", "Object"),), (409,)),
    )
    async def list_acls(http: Request, query: Annotated[AclsQuery, Query()]) -> Response:
        require_known_sender(http.scope, has_tokens=has_tokens)
        return json_response(_shown(await workers.run(log.access_admin.acls, query.principal, query.on)))

    @router.declare(
        "POST",
        "/acls",
        "Allow a principal operations on resources, or deny them",
        ADMIN_ALL,
        Answers((Success(201, "Added", "Object"),), (409,)),
        body=AclBody,
    )
    async def add(http: Request, _: Annotated[NoQuery, Query()]) -> Response:
        require_known_sender(http.scope, has_tokens=has_tokens)
        body = await read_json(http, AclBody)
        options = {"prefix": body.prefix, "deny": body.deny, "host": body.host}
        added = await workers.run(log.access_admin.add_acls, body.principal, body.operations, body.on, **options)
        return json_response(_shown(added), status=201)

    @router.declare(
        "DELETE",
        "/acls",
        "Remove a principal's ACLs on a resource",
        ADMIN_ALL,
        Answers((Success(200, "Those that were removed", "Object"),), (409,)),
    )
    async def remove(http: Request, query: Annotated[AclRemovalQuery, Query()]) -> Response:
        require_known_sender(http.scope, has_tokens=has_tokens)
        require_confirmation(query.confirm, query.principal, "ACLs of ")
        options = {"prefix": query.prefix, "deny": query.deny, "host": query.host}
        admin = log.access_admin
        removed = await workers.run(admin.remove_acls, query.principal, [query.on], query.operation, **options)
        return json_response(_shown(removed))

    return router


def _shown(rules: Iterable[AclRule]) -> dict[str, Any]:
    return {"acls": [asdict(rule) for rule in rules]}
