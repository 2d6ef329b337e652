"""The registry's routes of subjects: versions, registration, look-up, deletion, and compatibility.

The paths and answers are those of Confluent's Schema Registry, version 1 of its REST API.
"""

from __future__ import annotations

from functools import partial
from typing import Annotated

from fastapi import Query
from starlette.requests import Request
from starlette.responses import Response

from mainstem.gateway.access.access_rules import ADMIN_ALL, READ_ALL, WRITE_ALL
from mainstem.gateway.access.routes import Routes
from mainstem.gateway.http.blocking import Workers
from mainstem.gateway.registry import registry_answers as answers
from mainstem.gateway.registry.registry_json import (
    accepts_unknown,
    answer,
    answer_of,
    context_of,
    read_body,
    schema_text,
    stored_json,
    subject_of,
    text_answer_of,
)
from mainstem.gateway.registry.registry_paths import SUBJECT
from mainstem.gateway.registry.registry_query import (
    SUBJECTS_MAX,
    DeletedQuery,
    DeleteQuery,
    MetadataQuery,
    RegisterQuery,
    SchemaQuery,
    SubjectsQuery,
)
from mainstem.gateway.registry.registry_query import subjects_asked_for as asked_for
from mainstem.registry.registry import Registry
from mainstem.registry.requests import read_schema_request, read_version
from mainstem.schemas_topic.subjects import split_subject


def add_subject_routes(router: Routes, prefix: str, registry: Registry, readers: Workers, writers: Workers) -> None:
    """``/subjects`` and ``/compatibility``."""
    _add_lists(router, prefix, registry, readers)
    _add_versions(router, prefix, registry, readers)
    _add_registration(router, prefix, registry, writers)
    _add_deletion(router, prefix, registry, writers)
    _add_compatibility(router, prefix, registry, writers)


def _add_lists(router: Routes, prefix: str, registry: Registry, workers: Workers) -> None:
    @router.declare("GET", f"{prefix}/subjects", "The subjects", READ_ALL, answers.SUBJECTS)
    async def list_subjects(request: Request, query: Annotated[SubjectsQuery, Query()]) -> Response:
        context, name = asked_for(query, request)

        def read() -> list[str]:
            found = registry.subjects(context, name, deleted=query.deleted, deleted_only=query.deletedOnly)
            return query.page(found, SUBJECTS_MAX)

        return await answer_of(workers, request, read)

    @router.declare(
        "GET", f"{prefix}/subjects/{SUBJECT}/versions", "The versions of a subject", READ_ALL, answers.VERSIONS
    )
    async def list_versions(request: Request, subject: str, query: Annotated[DeletedQuery, Query()]) -> Response:
        name = subject_of(request, subject)

        def read() -> list[int]:
            found = registry.versions(name, deleted=query.deleted, deleted_only=query.deletedOnly)
            return query.page(found, SUBJECTS_MAX)

        return await answer_of(workers, request, read)

    @router.declare(
        "GET",
        f"{prefix}/subjects/{SUBJECT}/versions/{{version}}/referencedby",
        "The ids of schemas that refer to a version",
        READ_ALL,
        answers.IDS,
    )
    async def list_referrers(
        request: Request, subject: str, version: str, query: Annotated[DeletedQuery, Query()]
    ) -> Response:
        name, number = subject_of(request, subject), read_version(version)

        def read() -> list[int]:
            found = registry.referrers(name, number, deleted=query.deleted)
            return query.page(sorted({each.id for each in found}), SUBJECTS_MAX)

        return await answer_of(workers, request, read)


def _add_versions(router: Routes, prefix: str, registry: Registry, workers: Workers) -> None:
    @router.declare(
        "GET",
        f"{prefix}/subjects/{SUBJECT}/versions/{{version}}/schema",
        "The text of a version",
        READ_ALL,
        answers.SCHEMA_TEXT,
    )
    async def read_schema(
        request: Request, subject: str, version: str, query: Annotated[SchemaQuery, Query()]
    ) -> Response:
        name, number = subject_of(request, subject), read_version(version)

        def read() -> str:
            return schema_text(registry, registry.version(name, number, deleted=query.deleted), query.format)

        return await text_answer_of(workers, request, read)

    @router.declare(
        "GET",
        f"{prefix}/subjects/{SUBJECT}/versions/{{version}}",
        "One version of a subject",
        READ_ALL,
        answers.VERSION,
    )
    async def read_one(
        request: Request, subject: str, version: str, query: Annotated[SchemaQuery, Query()]
    ) -> Response:
        name, number = subject_of(request, subject), read_version(version)

        find = partial(registry.version, name, number, deleted=query.deleted)
        return await answer_of(workers, request, partial(stored_json, request, registry, find, query.format))

    @router.declare(
        "GET",
        f"{prefix}/subjects/{SUBJECT}/metadata",
        "The latest version with these metadata",
        READ_ALL,
        answers.VERSION,
    )
    async def read_by_metadata(request: Request, subject: str, query: Annotated[MetadataQuery, Query()]) -> Response:
        wanted = dict(zip(query.key, query.value, strict=False))
        name = subject_of(request, subject)

        find = partial(registry.latest_with, name, wanted, deleted=query.deleted)
        return await answer_of(workers, request, partial(stored_json, request, registry, find, query.format))


def _add_registration(router: Routes, prefix: str, registry: Registry, workers: Workers) -> None:
    @router.declare(
        "POST",
        f"{prefix}/subjects/{SUBJECT}/versions",
        "Register a schema",
        WRITE_ALL,
        answers.REGISTERED,
        body=answers.SCHEMA_BODY,
    )
    async def register(request: Request, subject: str, query: Annotated[RegisterQuery, Query()]) -> Response:
        name = subject_of(request, subject)
        wanted = read_schema_request(await read_body(request), split_subject(name)[0])
        stored = await workers.run(registry.register, name, wanted, normalize=query.normalize)
        if not accepts_unknown(request):
            return answer(request, {"id": stored.id})
        # without the text: clients keep the one that they sent, in its own form
        return answer(request, {"id": stored.id, "version": stored.version, "guid": stored.content.guid})

    @router.declare(
        "POST",
        f"{prefix}/subjects/{SUBJECT}",
        "Look up a schema in a subject",
        READ_ALL,
        answers.VERSION,
        body=answers.SCHEMA_BODY,
    )
    async def look_up(request: Request, subject: str, query: Annotated[RegisterQuery, Query()]) -> Response:
        name = subject_of(request, subject)
        wanted = read_schema_request(await read_body(request), split_subject(name)[0])

        find = partial(registry.look_up, name, wanted, normalize=query.normalize, deleted=query.deleted)
        return await answer_of(workers, request, partial(stored_json, request, registry, find, query.format))


def _add_deletion(router: Routes, prefix: str, registry: Registry, workers: Workers) -> None:
    @router.declare(
        "DELETE",
        f"{prefix}/subjects/{SUBJECT}/versions/{{version}}",
        "Delete a version",
        ADMIN_ALL,
        answers.DELETED_VERSION,
    )
    async def delete_version(
        request: Request, subject: str, version: str, query: Annotated[DeleteQuery, Query()]
    ) -> Response:
        name, number = subject_of(request, subject), read_version(version)
        return answer(request, await workers.run(registry.delete_version, name, number, permanent=query.permanent))

    @router.declare("DELETE", f"{prefix}/subjects/{SUBJECT}", "Delete a subject", ADMIN_ALL, answers.VERSIONS)
    async def delete_subject(request: Request, subject: str, query: Annotated[DeleteQuery, Query()]) -> Response:
        name = subject_of(request, subject)
        return answer(request, await workers.run(registry.delete_subject, name, permanent=query.permanent))


def _add_compatibility(router: Routes, prefix: str, registry: Registry, workers: Workers) -> None:
    async def compared(request: Request, subject: str, version: int | None, query: RegisterQuery) -> Response:
        context = context_of(request, subject)
        name = subject_of(request, subject)
        wanted = read_schema_request(await read_body(request), context)
        found = await workers.run(registry.compare, name, wanted, version, normalize=query.normalize)
        document = {"is_compatible": not found}
        return answer(request, {**document, "messages": found} if query.verbose else document)

    @router.declare(
        "POST",
        f"{prefix}/compatibility/subjects/{SUBJECT}/versions/{{version}}",
        "Compare a schema with a version",
        READ_ALL,
        answers.COMPATIBILITY,
        body=answers.SCHEMA_BODY,
    )
    async def compare_with_one(
        request: Request, subject: str, version: str, query: Annotated[RegisterQuery, Query()]
    ) -> Response:
        return await compared(request, subject, read_version(version), query)

    @router.declare(
        "POST",
        f"{prefix}/compatibility/subjects/{SUBJECT}/versions",
        "Compare a schema with the versions that the level names",
        READ_ALL,
        answers.COMPATIBILITY,
        body=answers.SCHEMA_BODY,
    )
    async def compare_with_all(request: Request, subject: str, query: Annotated[RegisterQuery, Query()]) -> Response:
        return await compared(request, subject, None, query)
