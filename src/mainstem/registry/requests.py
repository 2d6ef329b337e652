"""Requests of clients: a schema to register, look up or compare; a config; a mode.

Contract: each length and type is checked here, so that what follows can rely on them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from mainstem.json_depth import is_too_deep
from mainstem.registry.errors import RegistryError, invalid_schema, invalid_version
from mainstem.registry.names import checked_subject
from mainstem.schemas_topic.records import AVRO, Document, Reference, read_references, sorted_json

LATEST: Final = -1
SCHEMA_TYPES: Final = ("JSON", "PROTOBUF", AVRO)
LEVELS: Final = (
    "NONE",
    "BACKWARD",
    "BACKWARD_TRANSITIVE",
    "FORWARD",
    "FORWARD_TRANSITIVE",
    "FULL",
    "FULL_TRANSITIVE",
)
MODES: Final = ("READWRITE", "READONLY", "READONLY_OVERRIDE", "IMPORT")
SCHEMA_BYTES_MAX: Final = 900_000
"""Of a schema's text: with its record it fits into ``max.message.bytes`` of a topic with Kafka's defaults."""
_REFERENCES_MAX: Final = 1_000
_EXTRAS_BYTES_MAX: Final = 100_000
_NUMBER_MAX: Final = (1 << 31) - 1
_TAG_FIELDS: Final = ("schemaTagsToAdd", "schemaTagsToRemove", "propagateSchemaTags")
_CONFIG_FIELDS: Final[Mapping[str, type]] = {
    "alias": str,
    "aliasForDeks": str,
    "normalize": bool,
    "validateFields": bool,
    "validateNewSchemas": bool,
    "validateRules": bool,
    "compatibilityPolicy": str,
    "compatibilityGroup": str,
    "defaultMetadata": dict,
    "overrideMetadata": dict,
    "defaultRuleSet": dict,
    "overrideRuleSet": dict,
}


@dataclass(frozen=True, slots=True)
class SchemaRequest:
    """A schema that a client sends. ``id`` and ``version`` are given on import; None where the registry chooses."""

    schema_type: str
    text: str
    references: tuple[Reference, ...] = ()
    metadata: str | None = None
    rule_set: str | None = None
    id: int | None = None
    version: int | None = None


def read_schema_request(body: Mapping[str, Any], context: str) -> SchemaRequest:
    """The body of a request with a schema; subjects of its references belong to ``context``. Raises RegistryError."""
    text = body.get("schema")
    schema_type = body.get("schemaType") or AVRO
    if not isinstance(text, str) or not text.strip():
        raise invalid_schema('the schema is missing: send {"schema": "…"} with its text')
    for name in _TAG_FIELDS:
        if body.get(name):
            raise invalid_schema(f"{name} is not supported: write tags into the schema's text or its metadata")
    if schema_type not in SCHEMA_TYPES:
        raise invalid_schema(f"invalid schema type {str(schema_type)[:100]!r}: use AVRO, JSON or PROTOBUF")
    if len(text.encode(errors="replace")) > SCHEMA_BYTES_MAX:
        raise RegistryError(42209, f"the schema is too large: it has more than {SCHEMA_BYTES_MAX} bytes of text")
    return SchemaRequest(
        schema_type,
        text,
        _references(body.get("references"), context),
        _extra(body, "metadata"),
        _extra(body, "ruleSet"),
        _number(body, "id"),
        _number(body, "version"),
    )


def read_version(text: str) -> int:
    """A version in a path: a number from 1, or ``latest`` (also ``-1``), which is ``LATEST``. Raises RegistryError."""
    if text in ("latest", "-1"):
        return LATEST
    if not text.isascii() or not text.isdecimal() or len(text) > 10 or not 1 <= int(text) <= _NUMBER_MAX:
        raise invalid_version(text[:100])
    return int(text)


def read_config(body: Mapping[str, Any]) -> Document:
    """The changes that a request makes to a config. Its ``compatibility`` is ``compatibilityLevel`` elsewhere.

    Raises RegistryError.
    """
    changes: Document = {}
    if "compatibility" in body:
        level = body["compatibility"]
        if level is not None and (not isinstance(level, str) or level.upper() not in LEVELS):
            raise RegistryError(
                42203, f"invalid compatibility level {str(level)[:100]!r}: use one of {', '.join(LEVELS)}"
            )
        changes["compatibilityLevel"] = level and level.upper()
    for name, kind in _CONFIG_FIELDS.items():
        if name in body:
            if body[name] is not None and not isinstance(body[name], kind):
                raise RegistryError(42203, f"invalid {name}: send a JSON value of type {kind.__name__}")
            check_extra(name, body[name])
            changes[name] = body[name]
    return changes


def read_mode(body: Mapping[str, Any]) -> str:
    """The mode that a request sets. Raises RegistryError."""
    mode = body.get("mode")
    if not isinstance(mode, str) or mode.upper() not in MODES:
        raise RegistryError(42204, f"invalid mode {str(mode)[:100]!r}: use one of {', '.join(MODES)}")
    return mode.upper()


def _references(given: Any, context: str) -> tuple[Reference, ...]:
    if given is None:
        return ()
    if not isinstance(given, list) or len(given) > _REFERENCES_MAX:
        raise invalid_schema(f"invalid references: send a list of at most {_REFERENCES_MAX}")
    try:
        references = read_references(given)
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise invalid_schema("invalid references: each has a name, a subject and a version") from error
    return tuple(Reference(each.name, checked_subject(each.subject, context), each.version) for each in references)


def _extra(body: Mapping[str, Any], name: str) -> str | None:
    given = body.get(name)
    if given is not None and not isinstance(given, dict):
        raise invalid_schema(f"invalid {name}: send a JSON object")
    check_extra(name, given)
    return sorted_json(given)


def check_extra(name: str, given: Any) -> None:
    """Raises RegistryError 42201 for metadata or rules that are too large."""
    text = sorted_json(given) or ""
    if len(text) > _EXTRAS_BYTES_MAX or is_too_deep(text):
        raise invalid_schema(f"{name} is too large, or nested too deeply")


def _number(body: Mapping[str, Any], name: str) -> int | None:
    given = body.get(name)
    if given is None or given in (-1, 0):
        return None
    if not isinstance(given, int) or isinstance(given, bool) or not 1 <= given <= _NUMBER_MAX:
        raise invalid_schema(f"invalid {name} {str(given)[:100]!r}: use a number from 1 to {_NUMBER_MAX}")
    return given
