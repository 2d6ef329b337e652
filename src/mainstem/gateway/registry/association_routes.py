"""The registry's routes of associations. Serializers ask for the subject of their topic here."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Annotated, Any

from fastapi import Query
from starlette.requests import Request
from starlette.responses import Response

from mainstem.gateway.access.access_rules import ADMIN_ALL, READ_ALL, WRITE_ALL
from mainstem.gateway.access.routes import Routes
from mainstem.gateway.http.blocking import Workers
from mainstem.gateway.registry import registry_answers as answers
from mainstem.gateway.registry.registry_json import accepts_unknown, answer, answer_of, content_json, read_body
from mainstem.gateway.registry.registry_json import subject_of as checked
from mainstem.gateway.registry.registry_paths import SUBJECT
from mainstem.gateway.registry.registry_query import (
    SUBJECTS_MAX,
    AssociateQuery,
    AssociationsQuery,
    DeleteAssociationsQuery,
)
from mainstem.registry.associations import of_name, of_resource, of_subject, read_association_request
from mainstem.registry.names import checked_context
from mainstem.registry.registry import Registry
from mainstem.schemas_topic.records import Document
from mainstem.schemas_topic.state import RegistryState
from mainstem.schemas_topic.subjects import DEFAULT_CONTEXT

_SHARED = ("resourceName", "resourceNamespace", "resourceId", "resourceType")
_OWN = ("subject", "associationType", "lifecycle", "frozen")
_TIMES = ("createTs", "updateTs")


def add_association_routes(router: Routes, prefix: str, registry: Registry, readers: Workers, writers: Workers) -> None:
    """``/associations``."""
    _add_lists(router, prefix, registry, readers)
    _add_changes(router, prefix, registry, writers)


def _add_lists(router: Routes, prefix: str, registry: Registry, readers: Workers) -> None:
    async def listed(
        request: Request, query: AssociationsQuery, find: Callable[[RegistryState], list[Document]]
    ) -> Response:
        fields = ("guid", *_SHARED, *_OWN, *(_TIMES if accepts_unknown(request) else ()))

        def read() -> list[Document]:
            found = query.page(registry.associations.find(find), SUBJECTS_MAX)
            return [{name: each[name] for name in fields if name in each} for each in found]

        return await answer_of(readers, request, read)

    path = f"{prefix}/associations"

    @router.declare(
        "GET", f"{path}/resources/{{resource_id}}", "The associations of a resource", READ_ALL, answers.ASSOCIATIONS
    )
    async def by_id(request: Request, resource_id: str, query: Annotated[AssociationsQuery, Query()]) -> Response:
        return await listed(request, query, partial(of_resource, resource_id=resource_id, wanted=query.filter()))

    @router.declare(
        "GET",
        f"{path}/resources/{{namespace}}/{{name}}",
        "The associations of a resource by its name",
        READ_ALL,
        answers.ASSOCIATIONS,
    )
    async def by_name(
        request: Request, namespace: str, name: str, query: Annotated[AssociationsQuery, Query()]
    ) -> Response:
        return await listed(request, query, partial(of_name, namespace=namespace, name=name, wanted=query.filter()))

    @router.declare(
        "GET", f"{path}/subjects/{SUBJECT}", "The associations of a subject", READ_ALL, answers.ASSOCIATIONS
    )
    async def by_subject(request: Request, subject: str, query: Annotated[AssociationsQuery, Query()]) -> Response:
        find = partial(of_subject, subject=checked(request, subject), wanted=query.filter())
        return await listed(request, query, find)


def _add_changes(router: Routes, prefix: str, registry: Registry, writers: Workers) -> None:
    path = f"{prefix}/associations"

    async def associated(request: Request, query: AssociateQuery, resource_id: str, *, replaces: bool) -> Response:
        context = checked_context(query.context) if query.context else DEFAULT_CONTEXT
        wanted = read_association_request(await read_body(request), context, resource_id)
        made = await writers.run(registry.associations.associate, wanted, replaces=replaces, dry_run=query.dryRun)
        listed: list[dict[str, Any]] = []
        for document, schema in made:
            with_schema = {} if schema is None else {"schema": content_json(request, schema)}
            listed.append({name: document[name] for name in _OWN} | with_schema)
        return answer(request, {**wanted.resource, "associations": listed})

    @router.declare("POST", path, "Make associations", WRITE_ALL, answers.ASSOCIATED, body=answers.ASSOCIATION_BODY)
    async def create(request: Request, query: Annotated[AssociateQuery, Query()]) -> Response:
        return await associated(request, query, "", replaces=False)

    @router.declare(
        "PUT",
        f"{path}/resources/{{resource_id}}",
        "Make or change associations",
        WRITE_ALL,
        answers.ASSOCIATED,
        body=answers.ASSOCIATION_BODY,
    )
    async def change(request: Request, resource_id: str, query: Annotated[AssociateQuery, Query()]) -> Response:
        return await associated(request, query, resource_id, replaces=True)

    @router.declare(
        "DELETE", f"{path}/resources/{{resource_id}}", "Delete associations", ADMIN_ALL, answers.ASSOCIATIONS_DELETED
    )
    async def delete(resource_id: str, query: Annotated[DeleteAssociationsQuery, Query()]) -> Response:
        await writers.run(
            registry.associations.delete,
            resource_id,
            query.filter(),
            cascades=query.cascadeLifecycle,
            dry_run=query.dryRun,
        )
        return Response(status_code=204)
