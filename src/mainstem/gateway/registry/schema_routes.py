"""The registry's routes of schemas by id, of contexts, and of the server itself."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Query
from starlette.requests import Request
from starlette.responses import Response

import mainstem
from mainstem.client.log import Log
from mainstem.gateway.access.access_rules import ADMIN_ALL, READ_ALL
from mainstem.gateway.access.routes import Routes
from mainstem.gateway.http.blocking import Workers
from mainstem.gateway.registry import registry_answers as answers
from mainstem.gateway.registry.registry_json import (
    answer,
    answer_of,
    content_json,
    context_of,
    of_bounded_length,
    schema_id_of,
    schema_text,
    text_answer_of,
    version_json,
)
from mainstem.gateway.registry.registry_query import (
    SCHEMAS_MAX,
    SUBJECTS_MAX,
    PageQuery,
    RegistryQuery,
    SchemaQuery,
    SchemasQuery,
    UsesQuery,
    subjects_asked_for,
)
from mainstem.registry.errors import schema_not_found
from mainstem.registry.names import checked_context
from mainstem.registry.registry import Registry
from mainstem.registry.requests import SCHEMA_TYPES
from mainstem.schemas_topic.records import StoredSchema
from mainstem.schemas_topic.subjects import split_subject


def add_schema_routes(router: Routes, prefix: str, registry: Registry, log: Log, workers: Workers) -> None:
    """``/schemas``, ``/contexts``, ``/v1/metadata`` and the root."""
    _add_ids(router, prefix, registry, workers)
    _add_users(router, prefix, registry, workers)
    _add_lists(router, prefix, registry, workers)
    _add_server(router, prefix, log, workers)


def _add_ids(router: Routes, prefix: str, registry: Registry, workers: Workers) -> None:
    @router.declare("GET", f"{prefix}/schemas/ids/{{schema_id}}", "A schema by its id", READ_ALL, answers.SCHEMA)
    async def read_schema(request: Request, schema_id: str, query: Annotated[SchemaQuery, Query()]) -> Response:
        number, context = schema_id_of(schema_id), context_of(request, query.subject)

        def read() -> dict[str, Any]:
            stored = registry.with_id(context, number)[0]
            document = content_json(request, stored, schema_text(registry, stored, query.format))
            return {**document, "maxId": registry.settings.greatest_id(context)} if query.fetchMaxId else document

        return await answer_of(workers, request, read)

    @router.declare(
        "GET",
        f"{prefix}/schemas/ids/{{schema_id}}/schema",
        "The text of a schema by its id",
        READ_ALL,
        answers.SCHEMA_TEXT,
    )
    async def read_text(request: Request, schema_id: str, query: Annotated[SchemaQuery, Query()]) -> Response:
        number, context = schema_id_of(schema_id), context_of(request, query.subject)

        def read() -> str:
            return schema_text(registry, registry.with_id(context, number)[0], query.format)

        return await text_answer_of(workers, request, read)

    @router.declare("GET", f"{prefix}/schemas/guids/{{guid}}", "A schema by its global id", READ_ALL, answers.SCHEMA)
    async def read_by_guid(request: Request, guid: str, query: Annotated[SchemaQuery, Query()]) -> Response:
        def read() -> dict[str, Any]:
            stored = registry.with_guid(guid.lower())[0]
            return content_json(request, stored, schema_text(registry, stored, query.format))

        return await answer_of(workers, request, read)

    @router.declare(
        "GET",
        f"{prefix}/schemas/guids/{{guid}}/ids",
        "The ids of a schema by its global id",
        READ_ALL,
        answers.CONTEXT_IDS,
    )
    async def read_ids(request: Request, guid: str, _: Annotated[RegistryQuery, Query()]) -> Response:
        def read() -> list[dict[str, Any]]:
            found = registry.with_guid(guid.lower())
            ids = sorted({(split_subject(each.subject)[0], each.id) for each in found})
            return [{"context": context, "id": number} for context, number in ids]

        return await answer_of(workers, request, read)


def _add_users(router: Routes, prefix: str, registry: Registry, workers: Workers) -> None:
    def users(request: Request, schema_id: str, query: UsesQuery) -> list[StoredSchema]:
        found = registry.users_of(context_of(request, query.subject), schema_id_of(schema_id))
        users = [each for each in found if query.deleted or not each.is_deleted]
        if not users:
            raise schema_not_found(schema_id)
        name = split_subject(query.subject)[1]
        return [each for each in users if not name or split_subject(each.subject)[1] == name]

    @router.declare(
        "GET",
        f"{prefix}/schemas/ids/{{schema_id}}/subjects",
        "The subjects that use a schema",
        READ_ALL,
        answers.SUBJECTS,
    )
    async def read_subjects(request: Request, schema_id: str, query: Annotated[UsesQuery, Query()]) -> Response:
        def read() -> list[str]:
            found = dict.fromkeys(each.subject for each in users(request, schema_id, query))
            return query.page(list(found), SUBJECTS_MAX)

        return await answer_of(workers, request, read)

    @router.declare(
        "GET", f"{prefix}/schemas/ids/{{schema_id}}/versions", "The versions that use a schema", READ_ALL, answers.USES
    )
    async def read_versions(request: Request, schema_id: str, query: Annotated[UsesQuery, Query()]) -> Response:
        def read() -> list[dict[str, Any]]:
            found = query.page(users(request, schema_id, query), SUBJECTS_MAX)
            return [{"subject": each.subject, "version": each.version} for each in found]

        return await answer_of(workers, request, read)


def _add_lists(router: Routes, prefix: str, registry: Registry, workers: Workers) -> None:
    @router.declare("GET", f"{prefix}/schemas", "Schemas of subjects", READ_ALL, answers.SCHEMAS)
    async def list_schemas(request: Request, query: Annotated[SchemasQuery, Query()]) -> Response:
        context, name = subjects_asked_for(query, request)

        def read() -> list[dict[str, Any]]:
            found = registry.schemas(
                context,
                name,
                deleted=query.deleted,
                deleted_only=query.deletedOnly,
                latest_only=query.latestOnly,
            )
            return [version_json(request, each) for each in of_bounded_length(query.page(found, SCHEMAS_MAX))]

        return await answer_of(workers, request, read)

    @router.declare("GET", f"{prefix}/schemas/types", "The types of schemas", READ_ALL, answers.TYPES)
    async def list_types(request: Request, _: Annotated[RegistryQuery, Query()]) -> Response:
        return answer(request, SCHEMA_TYPES)

    @router.declare("GET", f"{prefix}/contexts", "The contexts", READ_ALL, answers.CONTEXTS)
    async def list_contexts(request: Request, query: Annotated[PageQuery, Query()]) -> Response:
        return await answer_of(workers, request, lambda: query.page(registry.settings.contexts(), SUBJECTS_MAX))

    @router.declare("DELETE", f"{prefix}/contexts/{{context}}", "Delete a context", ADMIN_ALL, answers.NOTHING)
    async def delete_context(context: str, _: Annotated[RegistryQuery, Query()]) -> Response:
        await workers.run(registry.settings.delete_context, checked_context(context))
        return Response(status_code=204)


def _add_server(router: Routes, prefix: str, log: Log, workers: Workers) -> None:
    @router.declare("GET", f"{prefix}/v1/metadata/id", "The ids of the log and the registry", READ_ALL, answers.SERVER)
    async def read_cluster_id(request: Request, _: Annotated[RegistryQuery, Query()]) -> Response:
        cluster = await workers.run(log.cluster_admin.cluster_id)
        clusters = {"kafka-cluster": cluster, "schema-registry-cluster": "schema-registry"}
        return answer(request, {"scope": {"path": [], "clusters": clusters}, "id": ""})

    @router.declare("GET", f"{prefix}/v1/metadata/version", "The version of the registry", READ_ALL, answers.SERVER)
    async def read_server_version(request: Request, _: Annotated[RegistryQuery, Query()]) -> Response:
        return answer(request, {"version": mainstem.__version__, "commitId": f"mainstem-{mainstem.__version__}"})

    @router.declare("GET", prefix or "/", "Whether the registry answers", READ_ALL, answers.SERVER)
    async def read_root(request: Request, _: Annotated[RegistryQuery, Query()]) -> Response:
        return answer(request, {})
