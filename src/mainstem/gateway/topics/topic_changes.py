"""The routes that make, change and delete topics. They go through Kafka's admin requests, so they work on Apache Kafka.

What deletes records asks for the topic's name once more (``confirm``), so that a slip of a path deletes nothing.
"""

from __future__ import annotations

from typing import Annotated, Final

from fastapi import Query, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from mainstem.client.log import Log
from mainstem.errors import InputError
from mainstem.gateway.access.access_rules import ADMIN_ALL, ADMIN_TOPIC
from mainstem.gateway.access.routes import Routes
from mainstem.gateway.http.blocking import Workers
from mainstem.gateway.http.bodies import read_json
from mainstem.gateway.http.description import Answers, Success, success
from mainstem.gateway.http.json_responses import json_response
from mainstem.gateway.http.queries import ConfirmQuery, NoQuery, RecordDeletionQuery, require_confirmation
from mainstem.gateway.topics.reads import moment
from mainstem.gateway.topics.topic_json import deletion_json, topic_json
from mainstem.gateway.topics.topic_routes import check_name
from mainstem.model import is_topic_name

_THREADS_MAX: Final = 4
_CONFIGS_MAX: Final = 100
PARTITIONS_MAX: Final = 10_000
_Name = Annotated[str, Field(max_length=249)]
_Value = Annotated[str, Field(max_length=10_000)]


class NewTopicBody(BaseModel):
    """A topic to make. What is not given is the log's default."""

    model_config = ConfigDict(extra="forbid")

    name: _Name
    partitions: int | None = Field(None, ge=1, le=PARTITIONS_MAX)
    configs: dict[_Name, _Value] = Field(default_factory=dict, max_length=_CONFIGS_MAX)


class ConfigsBody(BaseModel):
    """Configs to set, and configs that get their defaults again. ``dry_run``: check, and show the changes."""

    model_config = ConfigDict(extra="forbid")

    set: dict[_Name, _Value] = Field(default_factory=dict, max_length=_CONFIGS_MAX)
    reset: list[_Name] = Field(default_factory=list, max_length=_CONFIGS_MAX)
    dry_run: bool = False


class PartitionsBody(BaseModel):
    """The number of partitions that the topic gets. ``dry_run``: check, and change nothing."""

    model_config = ConfigDict(extra="forbid")

    partitions: int = Field(ge=1, le=PARTITIONS_MAX)
    dry_run: bool = False


def topic_changes_router(log: Log) -> Routes:
    """``POST /topics``, and what changes one topic."""
    router, workers = Routes("topics"), Workers(_THREADS_MAX)
    _add_configs_and_partitions(router, log, workers)

    @router.declare(
        "POST",
        "/topics",
        "Create a topic",
        ADMIN_ALL,
        Answers((Success(201, "Created", "Topic"),), (409,)),
        body=NewTopicBody,
    )
    async def create(http: Request, _: Annotated[NoQuery, Query()]) -> Response:
        body = await read_json(http, NewTopicBody)
        if not is_topic_name(body.name):
            raise InputError(f"{body.name[:100]!r} cannot name a topic: use letters, digits, '.', '_' and '-'")
        made = await workers.run(log.create_topic, body.name, partitions=body.partitions, configs=body.configs)
        return json_response(topic_json(made), status=201)

    @router.declare(
        "DELETE", "/topics/{topic}", "Delete a topic and all its records", ADMIN_TOPIC, success("Deleted", "Object")
    )
    async def delete(topic: str, query: Annotated[ConfirmQuery, Query()]) -> Response:
        check_name(topic)
        require_confirmation(query.confirm, topic)
        await workers.run(log.delete_topic, topic)
        return json_response({"deleted": topic})

    _add_record_deletion(router, log, workers)
    return router


def _add_record_deletion(router: Routes, log: Log, workers: Workers) -> None:
    @router.declare(
        "DELETE",
        "/topics/{topic}/records",
        "Delete the oldest records of a topic, up to an offset, a position or a time",
        ADMIN_TOPIC,
        Answers((Success(200, "The deletions", "Deletions"),), (416,)),
    )
    async def delete_records(topic: str, query: Annotated[RecordDeletionQuery, Query()]) -> Response:
        check_name(topic)
        to, admin = moment(query.to, topic), log.cluster_admin
        if not query.dry_run:
            require_confirmation(query.confirm, topic, "the oldest records of ")
        work = admin.plan_record_deletion if query.dry_run else admin.delete_records
        deletions = await workers.run(work, topic, to)
        return json_response(
            {
                "topic": topic,
                "executed": not query.dry_run,
                "offsets": sum(each.offsets for each in deletions),
                "partitions": [deletion_json(each) for each in deletions],
            }
        )


def _add_configs_and_partitions(router: Routes, log: Log, workers: Workers) -> None:
    @router.declare(
        "PATCH",
        "/topics/{topic}/configs",
        "Set configs of a topic, or give them their defaults again",
        ADMIN_TOPIC,
        success("The changes", "Object"),
        body=ConfigsBody,
    )
    async def change(topic: str, http: Request, _: Annotated[NoQuery, Query()]) -> Response:
        check_name(topic)
        body = await read_json(http, ConfigsBody)
        if both := sorted({*body.set} & {*body.reset}):
            raise InputError(f"set and reset both name {both[0][:100]!r}: name it in one of them")
        if not body.set and not body.reset:
            raise InputError("nothing to change: give configs in set or reset")
        admin = log.cluster_admin
        changes = await workers.run(admin.change_topic_configs, topic, body.set, body.reset, validate_only=body.dry_run)
        shown = [{"name": each.name, "before": each.before, "after": each.after} for each in changes]
        return json_response({"topic": topic, "changes": shown, "executed": not body.dry_run})

    @router.declare(
        "POST",
        "/topics/{topic}/partitions",
        "Add partitions; keys may then belong to other partitions",
        ADMIN_TOPIC,
        success("How many there were and are", "Object"),
        body=PartitionsBody,
    )
    async def add_partitions(topic: str, http: Request, _: Annotated[NoQuery, Query()]) -> Response:
        check_name(topic)
        body = await read_json(http, PartitionsBody)
        add = log.cluster_admin.add_partitions
        had = await workers.run(add, topic, body.partitions, validate_only=body.dry_run)
        shown = {"topic": topic, "before": had, "partitions": body.partitions, "executed": not body.dry_run}
        return json_response(shown)
