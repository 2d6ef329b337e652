"""The registry's routes of configs and modes.

A config's level is sent as ``compatibility``, and read as ``compatibilityLevel``: the API has two words for it.
"""

from __future__ import annotations

from typing import Annotated

from fastapi import Query
from starlette.requests import Request
from starlette.responses import Response

from mainstem.gateway.access.access_rules import ADMIN_ALL, READ_ALL
from mainstem.gateway.access.routes import Routes
from mainstem.gateway.http.blocking import Workers
from mainstem.gateway.registry import registry_answers as answers
from mainstem.gateway.registry.registry_json import CONTEXT, answer, read_body, subject_of
from mainstem.gateway.registry.registry_paths import SUBJECT
from mainstem.gateway.registry.registry_query import DeleteQuery, SettingQuery
from mainstem.registry.registry import Registry
from mainstem.registry.requests import read_config, read_mode
from mainstem.schemas_topic.records import Document
from mainstem.schemas_topic.subjects import DEFAULT_CONTEXT, GLOBAL, context_subject


def add_setting_routes(router: Routes, prefix: str, registry: Registry, readers: Workers, writers: Workers) -> None:
    """``/config`` and ``/mode``, of the whole registry and of one subject or context."""
    for path in (f"{prefix}/config", f"{prefix}/config/{SUBJECT}"):
        _add_config(router, path, registry, readers, writers)
    for path in (f"{prefix}/mode", f"{prefix}/mode/{SUBJECT}"):
        _add_mode(router, path, registry, readers, writers)


def _add_config(router: Routes, path: str, registry: Registry, readers: Workers, writers: Workers) -> None:
    @router.declare("GET", path, "The config", READ_ALL, answers.CONFIG)
    async def read(request: Request, query: Annotated[SettingQuery, Query()]) -> Response:
        config = await readers.run(registry.settings.config, _scope(request), default_to_global=query.defaultToGlobal)
        return answer(request, config)

    @router.declare("PUT", path, "Set the config", ADMIN_ALL, answers.CONFIG, body=answers.CONFIG_BODY)
    async def change(request: Request, _: Annotated[SettingQuery, Query()]) -> Response:
        changes = read_config(await read_body(request))
        config = await writers.run(registry.settings.set_config, _scope(request), changes)
        return answer(request, _as_sent(config))

    @router.declare("DELETE", path, "Remove the config", ADMIN_ALL, answers.CONFIG)
    async def delete(request: Request, _: Annotated[SettingQuery, Query()]) -> Response:
        return answer(request, await writers.run(registry.settings.delete_config, _scope(request)))


def _add_mode(router: Routes, path: str, registry: Registry, readers: Workers, writers: Workers) -> None:
    @router.declare("GET", path, "The mode", READ_ALL, answers.MODE)
    async def read(request: Request, query: Annotated[SettingQuery, Query()]) -> Response:
        mode = await readers.run(registry.settings.mode, _scope(request), default_to_global=query.defaultToGlobal)
        return answer(request, {"mode": mode})

    @router.declare("PUT", path, "Set the mode", ADMIN_ALL, answers.MODE, body=answers.MODE_BODY)
    async def change(request: Request, query: Annotated[SettingQuery, Query()]) -> Response:
        mode = read_mode(await read_body(request))
        mode = await writers.run(registry.settings.set_mode, _scope(request), mode, force=query.force)
        return answer(request, {"mode": mode})

    @router.declare("DELETE", path, "Remove the mode", ADMIN_ALL, answers.MODE)
    async def delete(request: Request, query: Annotated[DeleteQuery, Query()]) -> Response:
        mode = await writers.run(registry.settings.delete_mode, _scope(request), recursive=query.recursive)
        return answer(request, {"mode": mode})


def _scope(request: Request) -> str:
    """The subject or context whose setting is meant; the empty subject is the whole registry."""
    subject = request.path_params.get("subject")
    if subject is not None:
        return subject_of(request, subject)
    context = request.scope.get(CONTEXT, DEFAULT_CONTEXT)
    return GLOBAL if context == DEFAULT_CONTEXT else context_subject(context)


def _as_sent(config: Document) -> Document:
    return {"compatibility" if name == "compatibilityLevel" else name: value for name, value in config.items()}
