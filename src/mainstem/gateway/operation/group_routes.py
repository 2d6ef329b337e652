"""The routes of one consumer group: describe, reset, delete. They work on Apache Kafka, too."""

from __future__ import annotations

from typing import Annotated, Final

from fastapi import Query, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from mainstem.client.admin.group_admin import OffsetChange
from mainstem.client.log import Log
from mainstem.gateway.access.access_rules import ADMIN_ALL, READ_ALL
from mainstem.gateway.access.routes import Routes
from mainstem.gateway.http.blocking import Workers
from mainstem.gateway.http.bodies import read_json
from mainstem.gateway.http.description import Answers, Success, success
from mainstem.gateway.http.json_responses import json_response
from mainstem.gateway.http.key_paths import GROUP, GROUP_WITHIN
from mainstem.gateway.http.queries import ConfirmQuery, NoQuery, require_confirmation
from mainstem.gateway.topics.reads import moment
from mainstem.gateway.topics.topic_json import group_description_json, offset_change_json

_THREADS_MAX: Final = 4
_TOPICS_MAX: Final = 1_000


class ResetBody(BaseModel):
    """Where the group goes on. Without ``topics``: in those that it has committed in, or that the position names."""

    model_config = ConfigDict(extra="forbid")

    to: str = Field(
        max_length=100_000,
        description="`earliest`, `latest`, an offset, a position or a time (ISO 8601)",
        examples=["earliest", "flights/0:17", "2013-01-01T10:00:00Z"],
    )
    topics: list[Annotated[str, Field(max_length=249)]] = Field(default_factory=list, max_length=_TOPICS_MAX)
    dry_run: bool = Field(False, description="show what would change, and change nothing")


def group_router(log: Log) -> Routes:
    """``/groups/{group}`` and its reset."""
    router, workers = Routes("operation"), Workers(_THREADS_MAX)

    @router.declare(
        "GET",
        f"/groups/{GROUP}",
        "One group: its members, and how far it is in each partition",
        READ_ALL,
        success("The group", "Object"),
    )
    async def describe(group: str, _: Annotated[NoQuery, Query()]) -> Response:
        return json_response(group_description_json(await workers.run(log.group_admin.describe, group)))

    @router.declare(
        "POST",
        f"/groups/{GROUP_WITHIN}/reset",
        "Move the offsets of a group without members",
        ADMIN_ALL,
        Answers((Success(200, "The changes", "Object"),), (409, 416)),
        body=ResetBody,
    )
    async def reset(group: str, http: Request, _: Annotated[NoQuery, Query()]) -> Response:
        body = await read_json(http, ResetBody)
        changes = await workers.run(_reset, log, group, body)
        shown = [offset_change_json(each) for each in changes]
        return json_response({"group": group, "executed": not body.dry_run, "partitions": shown})

    @router.declare(
        "DELETE",
        f"/groups/{GROUP}",
        "Delete a group without members, and what it committed",
        ADMIN_ALL,
        Answers((Success(200, "Deleted", "Object"),), (409,)),
    )
    async def delete(group: str, query: Annotated[ConfirmQuery, Query()]) -> Response:
        require_confirmation(query.confirm, group)
        await workers.run(log.group_admin.delete, group)
        return json_response({"deleted": group})

    return router


def _reset(log: Log, group: str, body: ResetBody) -> list[OffsetChange]:
    changes = log.group_admin.plan_reset(group, moment(body.to), body.topics)
    if not body.dry_run:
        log.group_admin.set_offsets(group, {each.topic_partition: each.after for each in changes})
    return changes
