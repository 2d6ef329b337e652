"""The answers and bodies of the registry's routes, for the description of the API. Data."""

from __future__ import annotations

from typing import Any, Final

from mainstem.gateway.http.bodies import BodySchema
from mainstem.gateway.http.description import PROBLEM_TEXTS, Answers, ErrorForm, Success
from mainstem.gateway.registry.registry_json import MEDIA_TYPE
from mainstem.registry.associations import LIFECYCLES
from mainstem.registry.requests import LEVELS, MODES, SCHEMA_TYPES

_ERRORS: Final = ErrorForm(
    "RegistryError",
    MEDIA_TYPE,
    PROBLEM_TEXTS
    | {
        404: "The subject, version, schema, config, mode or context is not there, or is soft-deleted",
        406: "`Accept` has no media type that is served",
        409: "The schema breaks the subject's compatibility level; or the association exists already, or is frozen",
        415: "The body has another media type",
        422: "The schema or another value is wrong, or the mode does not allow this; `error_code` says which",
        504: "The log did not answer in time",
    },
)
_PROBLEMS: Final = (404, 406, 422, 504)


def _answers(text: str, schema: str, *more: int) -> Answers:
    success = Success(200, text, schema, media_type=MEDIA_TYPE)
    return Answers((success,), (*_PROBLEMS, *more), form=_ERRORS)


SUBJECTS: Final = _answers("The names of subjects", "Texts")
VERSIONS: Final = _answers("Numbers of versions", "Numbers")
VERSION: Final = _answers("A version of a subject", "SchemaVersion")
REGISTERED: Final = _answers("The id of the schema", "RegisteredId", 409)
SCHEMA: Final = _answers("A schema", "StoredSchema")
SCHEMAS: Final = _answers("Versions of subjects", "SchemaVersions")
SCHEMA_TEXT: Final = _answers("The text of a schema", "Any")
IDS: Final = _answers("Ids of schemas", "Numbers")
CONTEXT_IDS: Final = _answers("The ids of a schema, each in its context", "SchemaIds")
USES: Final = _answers("Versions of subjects", "SubjectVersions")
TYPES: Final = _answers("The types of schemas", "Texts")
CONTEXTS: Final = _answers("The names of contexts", "Texts")
DELETED_VERSION: Final = _answers("The number of the version", "Number")
COMPATIBILITY: Final = _answers("Whether the schema is compatible", "Compatibility")
CONFIG: Final = _answers("A config", "Object")
MODE: Final = _answers("A mode", "RegistryMode")
SERVER: Final = _answers("About this server", "Object")
ASSOCIATIONS: Final = _answers("Associations", "Associations")
ASSOCIATED: Final = _answers("The associations of the resource", "Associated", 409)
ASSOCIATIONS_DELETED: Final = Answers((Success(204, "They are deleted", ""),), (*_PROBLEMS, 409), form=_ERRORS)
NOTHING: Final = Answers((Success(204, "It is deleted", ""),), _PROBLEMS, form=_ERRORS)

_APICURIO_ERRORS: Final = ErrorForm(
    "ApicurioError",
    "application/json",
    PROBLEM_TEXTS
    | {
        404: "The artifact, version, schema or group is not there",
        409: "The artifact exists already, or the schema breaks its compatibility level",
        415: "The body has another media type",
        422: "The schema or another value is wrong, or the mode does not allow this",
        501: "This part of Apicurio's API is not supported",
        504: "The log did not answer in time",
    },
)


def _apicurio(text: str, schema: str, *more: int, media_type: str = "application/json") -> Answers:
    return Answers((Success(200, text, schema, media_type=media_type),), (504, *more), form=_APICURIO_ERRORS)


APICURIO_INFO: Final = _apicurio("The server's name and version", "Object")
APICURIO_CONTENT: Final = _apicurio("The text of a schema", "Any", 422, 501, media_type="*/*")
APICURIO_REFERENCES: Final = _apicurio("The references of a schema", "ArtifactReferences", 422)
APICURIO_VERSION: Final = _apicurio("A version of an artifact", "ArtifactVersion", 422)
APICURIO_VERSIONS: Final = _apicurio("Versions of an artifact", "ArtifactVersions", 404, 422)
APICURIO_CREATED: Final = _apicurio("The artifact and its version", "CreatedArtifact", 409, 501)


def _body(*required: str, **properties: dict[str, Any]) -> BodySchema:
    return BodySchema(MEDIA_TYPE, {"type": "object", "required": list(required), "properties": properties})


_TEXT: Final = {"type": "string"}
_REFERENCE: Final = {
    "type": "object",
    "required": ["name", "subject", "version"],
    "properties": {"name": _TEXT, "subject": _TEXT, "version": {"type": "integer"}},
}
SCHEMA_BODY: Final = _body(
    "schema",
    schema={"type": "string", "description": "the schema's text"},
    schemaType={"enum": list(SCHEMA_TYPES), "default": "AVRO"},
    references={"type": "array", "items": _REFERENCE},
    metadata={"type": "object"},
    ruleSet={"type": "object"},
    id={"type": "integer", "description": "in the mode `IMPORT`: the id that the schema has"},
    version={"type": "integer", "description": "the version that it has or should become"},
)
ARTIFACT_BODY: Final = BodySchema(
    "application/json",
    {
        "type": "object",
        "required": ["artifactId", "artifactType", "firstVersion"],
        "properties": {
            "artifactId": {"type": "string", "description": "the name of the subject"},
            "artifactType": {"enum": list(SCHEMA_TYPES)},
            "firstVersion": {
                "type": "object",
                "required": ["content"],
                "properties": {
                    "version": {"type": ["string", "null"]},
                    "content": {
                        "type": "object",
                        "required": ["content"],
                        "properties": {"content": _TEXT, "contentType": _TEXT, "references": {"type": "array"}},
                    },
                },
            },
        },
    },
)
CONTENT_BODY: Final = BodySchema("*/*", {"type": "string", "description": "the schema's text"})
ASSOCIATION_BODY: Final = _body(
    "resourceName",
    "resourceNamespace",
    "associations",
    resourceName=_TEXT,
    resourceNamespace=_TEXT,
    resourceId=_TEXT,
    resourceType={"type": "string", "default": "topic"},
    associations={
        "type": "array",
        "items": {
            "type": "object",
            "required": ["subject"],
            "properties": {
                "subject": _TEXT,
                "associationType": {"enum": ["key", "value"], "default": "value"},
                "lifecycle": {"enum": list(LIFECYCLES), "default": "WEAK"},
                "frozen": {"type": "boolean"},
                "schema": {"type": "object", "description": "a schema to register under the subject"},
                "normalize": {"type": "boolean"},
            },
        },
    },
)
CONFIG_BODY: Final = _body(
    compatibility={"enum": list(LEVELS)},
    compatibilityGroup=_TEXT,
    alias=_TEXT,
    normalize={"type": "boolean"},
    defaultMetadata={"type": "object"},
    overrideMetadata={"type": "object"},
    defaultRuleSet={"type": "object"},
    overrideRuleSet={"type": "object"},
)
MODE_BODY: Final = _body("mode", mode={"enum": list(MODES)})
