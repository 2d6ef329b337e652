"""The routes of operation: health, pipelines and consumer groups."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Query
from starlette.responses import Response

import mainstem
from mainstem.errors import LogUnavailableError, UnknownTopicError
from mainstem.gateway.blocking import Workers
from mainstem.gateway.json_responses import json_response
from mainstem.gateway.queries import NoQuery
from mainstem.gateway.topic_json import group_json
from mainstem.model import Position
from mainstem.pipelines.progress import PROGRESS_TOPIC, Progress

if TYPE_CHECKING:
    from mainstem.client.log import Log

_THREADS_MAX = 4
_HEALTH_S = 2.0


def operation_router(log: Log) -> APIRouter:
    """``/healthz``, ``/pipelines`` and ``/groups``."""
    router = APIRouter(tags=["operation"])
    workers, pipelines = Workers(_THREADS_MAX), PipelineProgress(log)

    @router.get("/healthz", summary="Whether the log answers")
    async def health(_: Annotated[NoQuery, Query()]) -> Response:
        try:
            await asyncio.wait_for(workers.run(log.topics), _HEALTH_S)
        except TimeoutError:
            raise LogUnavailableError(f"the log did not answer within {_HEALTH_S:g} s") from None
        return json_response({"status": "ok", "version": mainstem.__version__})

    @router.get("/pipelines", summary="How far each pipeline is")
    async def list_pipelines(_: Annotated[NoQuery, Query()]) -> Response:
        return json_response({"pipelines": await workers.run(pipelines.latest)})

    @router.get("/groups", summary="Consumer groups")
    async def list_groups(_: Annotated[NoQuery, Query()]) -> Response:
        groups = await workers.run(log.groups)
        return json_response({"groups": [group_json(group) for group in groups.values()]})

    return router


class PipelineProgress:
    """The latest progress record of each pipeline; reads on from where the last request stopped. Thread-safe."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._lock = threading.Lock()
        self._read_up_to: Position | None = None
        self._latest: dict[str, Progress] = {}

    def latest(self) -> list[dict[str, Any]]:
        """One document for each pipeline, by name; none when no pipeline ever ran."""
        with self._lock:
            try:
                self._catch_up()
            except UnknownTopicError:
                self._latest.clear()
            return [_document(progress) for _, progress in sorted(self._latest.items())]

    def _catch_up(self) -> None:
        reader = self._log.read(PROGRESS_TOPIC, start=self._read_up_to or "earliest")
        for record in reader:
            progress = Progress.from_record(record)
            if progress is None:
                self._latest.pop((record.key or b"").decode(), None)
            else:
                self._latest[progress.pipeline] = progress
        self._read_up_to = reader.position


def _document(progress: Progress) -> dict[str, Any]:
    return {
        "name": progress.pipeline,
        "inputs": list(progress.inputs),
        "outputs": list(progress.outputs),
        "batch_id": progress.batch_id,
        "source": str(progress.source),
        "sink": str(progress.sink),
        "tables": str(progress.tables),
    }
