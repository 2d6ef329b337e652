"""The requests of Apicurio Registry's Core API that its serializers send, over the same schemas and ids.

Only these are served: any other request is refused with a sentence (``registry_paths``).
"""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Query
from starlette.requests import Request
from starlette.responses import Response

import mainstem
from mainstem.gateway.access.access_rules import READ_ALL, WRITE_ALL
from mainstem.gateway.access.routes import Routes
from mainstem.gateway.http.blocking import Workers
from mainstem.gateway.registry import registry_answers as answers
from mainstem.gateway.registry.apicurio_json import (
    apicurio_answer,
    artifact_subject,
    content_answer,
    created_json,
    read_artifact,
    read_content,
    read_version_expression,
    references_json,
    version_json,
)
from mainstem.gateway.registry.registry_errors import APICURIO
from mainstem.gateway.registry.registry_json import context_of, read_body, schema_id_of, schema_text
from mainstem.gateway.registry.registry_query import ContentSearchQuery, CreateArtifactQuery, DereferenceQuery
from mainstem.registry.errors import RegistryError, invalid_schema
from mainstem.registry.registry import Registry
from mainstem.schemas_topic.records import StoredSchema

_ARTIFACT = "/groups/{group}/artifacts/{artifact:subject}"


def add_apicurio_routes(router: Routes, prefix: str, registry: Registry, readers: Workers, writers: Workers) -> None:
    """``/apis/registry/v3``."""
    base = prefix + APICURIO
    _add_server(router, base)
    for kind in ("contentIds", "globalIds"):
        _add_ids(router, f"{base}/ids/{kind}", registry, readers)
    _add_versions(router, base + _ARTIFACT, registry, readers)
    _add_registration(router, base, registry, writers)


def _add_server(router: Routes, base: str) -> None:
    @router.declare("GET", f"{base}/system/info", "The server, for Apicurio's clients", READ_ALL, answers.APICURIO_INFO)
    async def read_info() -> Response:
        return apicurio_answer({"name": "Mainstem", "version": mainstem.__version__})


def _add_ids(router: Routes, path: str, registry: Registry, workers: Workers) -> None:
    def found(request: Request, schema_id: str) -> StoredSchema:
        return registry.with_id(context_of(request), schema_id_of(schema_id))[0]

    @router.declare(
        "GET", f"{path}/{{schema_id}}", "The text of a schema by its id", READ_ALL, answers.APICURIO_CONTENT
    )
    async def read_text(request: Request, schema_id: str, query: Annotated[DereferenceQuery, Query()]) -> Response:
        return await workers.run(lambda: _content(registry, found(request, schema_id), query))

    @router.declare(
        "GET",
        f"{path}/{{schema_id}}/references",
        "The references of a schema by its id",
        READ_ALL,
        answers.APICURIO_REFERENCES,
    )
    async def read_references(request: Request, schema_id: str) -> Response:
        return await workers.run(
            lambda: apicurio_answer(references_json(found(request, schema_id), context_of(request)))
        )


def _add_versions(router: Routes, path: str, registry: Registry, workers: Workers) -> None:
    def found(request: Request, group: str, artifact: str, version: str) -> StoredSchema:
        return registry.version(artifact_subject(request, group, artifact), read_version_expression(version))

    path = f"{path}/versions/{{version}}"

    @router.declare("GET", f"{path}/content", "The text of a version", READ_ALL, answers.APICURIO_CONTENT)
    async def read_text(
        request: Request, group: str, artifact: str, version: str, query: Annotated[DereferenceQuery, Query()]
    ) -> Response:
        return await workers.run(lambda: _content(registry, found(request, group, artifact, version), query))

    @router.declare("GET", f"{path}/references", "The references of a version", READ_ALL, answers.APICURIO_REFERENCES)
    async def read_references(request: Request, group: str, artifact: str, version: str) -> Response:
        def read() -> list[dict[str, Any]]:
            return references_json(found(request, group, artifact, version), context_of(request))

        return await workers.run(lambda: apicurio_answer(read()))

    @router.declare("GET", path, "One version of an artifact", READ_ALL, answers.APICURIO_VERSION)
    async def read_one(request: Request, group: str, artifact: str, version: str) -> Response:
        def read() -> dict[str, Any]:
            return version_json(found(request, group, artifact, version), context_of(request))

        return await workers.run(lambda: apicurio_answer(read()))


def _add_registration(router: Routes, base: str, registry: Registry, workers: Workers) -> None:
    @router.declare(
        "POST",
        f"{base}/groups/{{group}}/artifacts",
        "Register a schema as a version of an artifact",
        WRITE_ALL,
        answers.APICURIO_CREATED,
        body=answers.ARTIFACT_BODY,
    )
    async def create(request: Request, group: str, query: Annotated[CreateArtifactQuery, Query()]) -> Response:
        context = context_of(request)
        artifact, wanted = read_artifact(await read_body(request), context)
        subject = artifact_subject(request, group, artifact)
        if query.ifExists == "CREATE_VERSION" or query.dryRun:
            raise RegistryError(
                501, "ifExists=CREATE_VERSION and dryRun are not supported: use ifExists=FIND_OR_CREATE_VERSION"
            )

        def register() -> dict[str, Any]:
            made = registry.register(subject, wanted, normalize=query.canonical, must_be_new=query.ifExists == "FAIL")
            return created_json(registry.version(made.subject, made.version), context)

        return await workers.run(lambda: apicurio_answer(register()))

    @router.declare(
        "POST",
        f"{base}/search/versions",
        "The versions of an artifact with this content",
        READ_ALL,
        answers.APICURIO_VERSIONS,
        body=answers.CONTENT_BODY,
    )
    async def search(request: Request, query: Annotated[ContentSearchQuery, Query()]) -> Response:
        subject = artifact_subject(request, query.groupId, query.artifactId)
        body = await request.body()

        def find() -> dict[str, Any]:
            found = _with_content(registry, subject, body, query, context_of(request))
            return {"count": len(found), "versions": [version_json(each, context_of(request)) for each in found]}

        return await workers.run(lambda: apicurio_answer(find()))


def _content(registry: Registry, stored: StoredSchema, query: DereferenceQuery) -> Response:
    if query.references == "REWRITE":
        raise RegistryError(501, "references=REWRITE is not supported: use PRESERVE or DEREFERENCE")
    wanted = "resolved" if query.references == "DEREFERENCE" else ""
    return content_answer(stored, schema_text(registry, stored, wanted))


def _with_content(
    registry: Registry, subject: str, body: bytes, query: ContentSearchQuery, context: str
) -> list[StoredSchema]:
    """The version with a text. A client sends no references with it, so a stored text with references may match."""
    try:
        text = body.decode()
    except UnicodeDecodeError as error:
        raise invalid_schema(f"the content is not UTF-8: {error}") from error
    wanted = read_content(text, query.artifactType, context)
    try:
        return [registry.look_up(subject, wanted, normalize=query.canonical, any_references=True)]
    except RegistryError as error:
        if error.status == 404:
            return []
        raise
