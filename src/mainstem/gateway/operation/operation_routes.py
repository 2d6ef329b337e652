"""The routes of operation: health, pipelines with their plans, logs and commands, and consumer groups."""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import Annotated, Any

from fastapi import Query
from starlette.responses import Response

import mainstem
from mainstem.client.log import Log
from mainstem.errors import LogUnavailableError
from mainstem.gateway.access.access_rules import ADMIN_ALL, OPEN, READ_ALL
from mainstem.gateway.access.routes import Routes
from mainstem.gateway.http.blocking import Workers
from mainstem.gateway.http.description import Answers, Success, success
from mainstem.gateway.http.json_responses import json_response
from mainstem.gateway.http.queries import NoQuery
from mainstem.gateway.topics.topic_json import group_json
from mainstem.pipelines.control.commands import Action, ask
from mainstem.pipelines.control.run_log import RunLogs, log_json, plan_json
from mainstem.pipelines.overview import Overview

_THREADS_MAX = 4
_LOG_THREADS_MAX = 2
_COMMAND_THREADS_MAX = 4  # threads of their own: a restart may wait for seconds, and ``/healthz`` must not
_HEALTH_S = 2.0


def operation_router(log: Log) -> Routes:
    """``/healthz``, ``/pipelines`` with its commands, and ``/groups``."""
    router = Routes("operation")
    workers, pipelines = Workers(_THREADS_MAX), Overview(log)
    commanding = Workers(_COMMAND_THREADS_MAX)

    @router.declare("GET", "/healthz", "Whether the log answers", OPEN, success("The log answers", "Object"))
    async def health(_: Annotated[NoQuery, Query()]) -> Response:
        try:
            await asyncio.wait_for(workers.run(log.topics), _HEALTH_S)
        except TimeoutError:
            raise LogUnavailableError(f"the log did not answer within {_HEALTH_S:g} s") from None
        return json_response({"status": "ok", "version": mainstem.__version__})

    @router.declare(
        "GET",
        "/pipelines",
        "Every pipeline: how it is, how far, how fast, and what went wrong last",
        READ_ALL,
        success("The pipelines", "Object"),
    )
    async def list_pipelines(_: Annotated[NoQuery, Query()]) -> Response:
        return json_response({"pipelines": await workers.run(pipelines.latest)})

    _declare_log_and_plan(router, Workers(_LOG_THREADS_MAX), pipelines, RunLogs(log))

    @router.declare(
        "POST",
        "/pipelines/{pipeline}/{action}",
        "Pause, resume or restart a pipeline; its state says when its App has done it",
        ADMIN_ALL,
        Answers((Success(202, "The command is in the log", "Object"),), (404, 409)),
    )
    async def command(pipeline: str, action: Action, _: Annotated[NoQuery, Query()]) -> Response:
        asked = await commanding.run(ask, log, pipeline, action)
        document = {"pipeline": asked.pipeline, "action": asked.action, "command": asked.offset}
        return json_response(document, status=HTTPStatus.ACCEPTED)

    @router.declare("GET", "/groups", "Consumer groups", READ_ALL, success("The groups", "Object"))
    async def list_groups(_: Annotated[NoQuery, Query()]) -> Response:
        groups = await workers.run(log.groups)
        return json_response({"groups": [group_json(group) for group in groups.values()]})

    return router


def _declare_log_and_plan(router: Routes, workers: Workers, pipelines: Overview, run_logs: RunLogs) -> None:
    @router.declare(
        "GET",
        "/pipelines/{pipeline}/plan",
        "Spark's plan of a pipeline's latest run; null before the first micro-batch",
        READ_ALL,
        Answers((Success(200, "The plan", "Object"),), (404,)),
    )
    async def show_plan(pipeline: str, _: Annotated[NoQuery, Query()]) -> Response:
        return json_response(await workers.run(_plan, pipelines, run_logs, pipeline))

    @router.declare(
        "GET",
        "/pipelines/{pipeline}/log",
        "The last events of a pipeline, newest first: starts, failures, pauses, changes",
        READ_ALL,
        Answers((Success(200, "The entries", "Object"),), (404,)),
    )
    async def show_log(pipeline: str, _: Annotated[NoQuery, Query()]) -> Response:
        return json_response(await workers.run(_log, pipelines, run_logs, pipeline))


def _plan(pipelines: Overview, run_logs: RunLogs, pipeline: str) -> dict[str, Any]:
    pipelines.require(pipeline)
    return plan_json(pipeline, run_logs.plan(pipeline))


def _log(pipelines: Overview, run_logs: RunLogs, pipeline: str) -> dict[str, Any]:
    pipelines.require(pipeline)
    return log_json(pipeline, run_logs.entries(pipeline))
