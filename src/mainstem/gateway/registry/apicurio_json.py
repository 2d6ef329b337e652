"""Requests and answers of Apicurio Registry's Core API, version 3, as its serializers send and read them.

An artifact is a subject, its group is always ``default``, and both of its ids are the schema's id: so a record has one
id, whichever API its writer and its readers use.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from mainstem.client.values import json_text
from mainstem.gateway.registry.registry_json import subject_of
from mainstem.registry.errors import RegistryError, invalid_schema
from mainstem.registry.requests import LATEST, SCHEMA_TYPES, SchemaRequest, read_schema_request, read_version
from mainstem.schemas_topic.records import Document, StoredSchema
from mainstem.schemas_topic.subjects import split_subject

JSON: Final = "application/json"
_PROTOBUF: Final = "application/x-protobuf"
_GROUP: Final = "default"
_NOT_KEPT: Final = ("name", "description", "labels", "branches", "isDraft")


def apicurio_answer(document: Any) -> Response:
    """``document`` as JSON. Clients ask for nothing else."""
    return Response(json_text(document).encode(errors="replace"), media_type=JSON)


def content_answer(stored: StoredSchema, text: str) -> Response:
    """The bare text of a schema."""
    media_type = _PROTOBUF if stored.content.schema_type == "PROTOBUF" else JSON
    return Response(text.encode(errors="replace"), media_type=media_type)


def artifact_subject(request: Request, group: str, artifact: str) -> str:
    """The subject of an artifact. Raises RegistryError 404 for another group than ``default``, 42208."""
    if group != _GROUP:
        raise RegistryError(
            404,
            f"group {group[:100]!r} does not exist: all artifacts are in the group {_GROUP}; "
            f"set apicurio.registry.artifact.group-id={_GROUP}",
        )
    return subject_of(request, artifact)


def read_version_expression(text: str) -> int:
    """A version in a path: its number, or ``branch=latest``. Raises RegistryError."""
    branch = text.removeprefix("branch=")
    if branch != text and branch != "latest":
        raise RegistryError(40402, f"branch {branch[:100]!r} does not exist: use branch=latest")
    return read_version(branch)


def read_content(text: Any, artifact_type: Any, context: str, **others: Any) -> SchemaRequest:
    """A schema that a client sends. Raises RegistryError."""
    if artifact_type not in SCHEMA_TYPES:
        raise invalid_schema(f"invalid artifactType {str(artifact_type)[:100]!r}: use AVRO, JSON or PROTOBUF")
    if not isinstance(text, str) or not text.strip():
        raise invalid_schema("the content is missing: send the schema's text")
    return read_schema_request({"schema": text, "schemaType": artifact_type, **others}, context)


def read_artifact(body: Mapping[str, Any], context: str) -> tuple[str, SchemaRequest]:
    """The id of an artifact to create, and its first version. Raises RegistryError."""
    artifact, version = body.get("artifactId"), _object(body, "firstVersion")
    content = _object(version, "content")
    if not isinstance(artifact, str) or not artifact:
        raise invalid_schema("the artifactId is missing: send the name of a subject")
    for field in _NOT_KEPT:
        if body.get(field) or version.get(field):
            raise RegistryError(501, f"{field} is not supported: leave it out")
    number = version.get("version")
    others = {
        "references": _references(content.get("references")),
        "version": None if number is None else read_version(str(number)),
    }
    return artifact, read_content(content.get("content"), body.get("artifactType"), context, **others)


def references_json(stored: StoredSchema, context: str) -> list[Document]:
    """The references of a version, as artifacts of ``context``."""
    return [
        {
            "groupId": _GROUP,
            "artifactId": _artifact(each.subject, context),
            "version": str(each.version),
            "name": each.name,
        }
        for each in stored.content.references
    ]


def version_json(stored: StoredSchema, context: str) -> Document:
    """A version with all that clients require of it."""
    return {
        **_artifact_json(stored, context),
        "version": str(stored.version),
        "globalId": stored.id,
        "contentId": stored.id,
        "state": "ENABLED",
    }


def created_json(stored: StoredSchema, context: str) -> Document:
    """An artifact that was created or found, and its version."""
    artifact = _artifact_json(stored, context)
    return {
        "artifact": {**artifact, "modifiedBy": "", "modifiedOn": artifact["createdOn"]},
        "version": version_json(stored, context),
    }


def _artifact_json(stored: StoredSchema, context: str) -> Document:
    created = datetime.fromtimestamp(stored.timestamp_ms / 1000, UTC)
    return {
        "groupId": _GROUP,
        "artifactId": _artifact(stored.subject, context),
        "artifactType": stored.content.schema_type,
        "owner": "",
        "createdOn": created.strftime("%Y-%m-%dT%H:%M:%SZ"),
    }


def _artifact(subject: str, context: str) -> str:
    of_context, name = split_subject(subject)
    return name if of_context == context else subject


def _object(body: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = body.get(name)
    if not isinstance(found, dict):
        raise invalid_schema(f"invalid {name}: send an object")
    return found


def _references(given: Any) -> Any:
    """References in the form that ``read_schema_request`` checks."""
    if not isinstance(given, list):
        return given
    references = []
    for each in given:
        if not isinstance(each, dict) or each.get("groupId") not in (None, _GROUP):
            raise invalid_schema(f"invalid references: each is an object with the groupId {_GROUP}")
        version = each.get("version")
        number = LATEST if version is None else read_version(str(version))
        references.append({"name": each.get("name"), "subject": each.get("artifactId"), "version": number})
    return references
