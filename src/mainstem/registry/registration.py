"""Registering, looking up and comparing schemas: steps over a state, which write nothing themselves.

A step that changes something returns the records to write, and its result.

Contract: one id for one content in a context, whatever the subject; an id is never used for another content. A schema
that a subject has already is not registered again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final

from mainstem.registry import errors
from mainstem.registry.data_contracts import with_contract
from mainstem.registry.formats.schema_format import Incompatibility, InvalidSchemaError, ParsedSchema
from mainstem.registry.parsing import (
    SPELLINGS_MAX,
    format_of,
    parse_content,
    parse_if_readable,
    parse_request,
    reference_texts,
    resolved_references,
)
from mainstem.registry.requests import LATEST, SchemaRequest
from mainstem.registry.store import Records
from mainstem.schemas_topic.records import Content, Document, StoredSchema, schema_record
from mainstem.schemas_topic.state import RegistryState
from mainstem.schemas_topic.subjects import split_subject

_BOTH_WAYS: Final = ("FULL", "FULL_TRANSITIVE")
_MESSAGES_MAX: Final = 100


def register(
    state: RegistryState, subject: str, request: SchemaRequest, *, normalize: bool
) -> tuple[Records, StoredSchema]:
    """Make a schema a version of a subject, unless it is one. Raises RegistryError."""
    require_writable(state, subject, is_import=request.id is not None)
    request = replace(request, references=resolved_references(state, request.references))
    parsed = parse_request(request, reference_texts(state, request.references))
    content = _content(state, subject, request, parsed, normalize=normalize or is_normalizing(state, subject))
    config = {} if request.id is not None else state.config(subject)
    existing = _find(state, _alike(state.versions(subject), request, config), content, parsed)
    if request.id is not None:
        return _import(state, subject, request, content, existing)
    if existing is not None and request.version in (None, existing.version):
        return [], existing
    every = state.versions(subject, deleted=True)
    version = every[-1].version + 1 if every else 1
    if request.version not in (None, version):
        raise errors.invalid_schema(f"version {request.version} is not the next one of '{subject}', which is {version}")
    problems = incompatibilities(state, subject, content, parsed, state.versions(subject))
    if problems:
        details = "; ".join(problems[:_MESSAGES_MAX])
        raise errors.incompatible(
            f'Schema being registered is incompatible with an earlier schema for subject "{subject}", '
            f"details: {details}"
        )
    context = split_subject(subject)[0]
    schema_id = state.id_of(context, content) or state.greatest_id(context) + 1
    schema = StoredSchema(subject, version, schema_id, content)
    return [schema_record(schema)], schema


def _import(
    state: RegistryState, subject: str, request: SchemaRequest, content: Content, existing: StoredSchema | None
) -> tuple[Records, StoredSchema]:
    """Take a schema with the id (and version) that another registry gave it."""
    assert request.id is not None
    if existing is not None and existing.id == request.id and request.version in (None, existing.version):
        return [], existing
    users = state.with_id(split_subject(subject)[0], request.id)
    if users and users[0].content != content:
        raise errors.not_permitted(f"Overwrite new schema with id {request.id} is not permitted.")
    every = state.versions(subject, deleted=True)
    version = request.version or (every[-1].version + 1 if every else 1)
    for each in every:
        if each.version == version and each.content != content:
            raise errors.not_permitted(f"Overwrite schema of subject '{subject}' version {version} is not permitted.")
        if each.version == version and each.id != request.id:  # data with the former id could not be read any more
            raise errors.RegistryError(42207, f"version {version} of subject '{subject}' has the id {each.id} already")
    schema = StoredSchema(subject, version, request.id, content)
    return [schema_record(schema)], schema


def look_up(
    state: RegistryState, subject: str, request: SchemaRequest, *, normalize: bool, deleted: bool
) -> StoredSchema:
    """The version of a subject that has this schema. Raises RegistryError: 40401, 40403, 42201."""
    versions = state.versions(subject, deleted=deleted)
    if not versions:
        raise errors.subject_not_found(subject)
    request = replace(request, references=resolved_references(state, request.references))
    parsed = parse_request(request, reference_texts(state, request.references))
    content = _content(state, subject, request, parsed, normalize=normalize or is_normalizing(state, subject))
    alike = [*_alike(versions, request, {}), *_alike(versions, request, state.config(subject))]
    found = _find(state, alike, content, parsed, normalize=normalize)
    if found is None:
        raise errors.schema_not_found()
    return found


def with_text(state: RegistryState, subject: str, request: SchemaRequest) -> StoredSchema | None:
    """The latest version with exactly this text and any references; None if the subject has none."""
    wanted = (request.schema_type, request.text)
    alike = (
        each for each in reversed(state.versions(subject)) if (each.content.schema_type, each.content.text) == wanted
    )
    return next(alike, None)


def compare(
    state: RegistryState, subject: str, request: SchemaRequest, version: int | None, *, normalize: bool
) -> list[str]:
    """Why a schema breaks the subject's level, beside one version or (None) all that the level looks at.

    Empty when it does not, or when the subject has no versions. Raises RegistryError: 40402, 42201.
    """
    versions = state.versions(subject)
    if version is not None and version != LATEST:
        versions = [each for each in versions if each.version == version]
        if not versions:
            raise errors.version_not_found(version)
    if version == LATEST:
        versions = versions[-1:]
    request = replace(request, references=resolved_references(state, request.references))
    parsed = parse_request(request, reference_texts(state, request.references))
    content = _content(state, subject, request, parsed, normalize=normalize)
    return incompatibilities(state, subject, content, parsed, versions, is_each=version is not None)


def incompatibilities(
    state: RegistryState,
    subject: str,
    content: Content,
    parsed: ParsedSchema,
    earlier: Sequence[StoredSchema],
    *,
    is_each: bool = False,
) -> list[str]:
    """Why a schema breaks the subject's compatibility level. ``is_each``: look at all of ``earlier`` in any case."""
    config = state.config(subject)
    level = str(config.get("compatibilityLevel"))
    if level == "NONE":
        return []
    group = config.get("compatibilityGroup")
    if group:
        earlier = [each for each in earlier if _group_of(each.content, group) == _group_of(content, group)]
    if not is_each and not level.endswith("_TRANSITIVE"):
        earlier = earlier[-1:]
    for other in reversed(earlier):
        found = _between(state, level, content, parsed, other)
        if found:
            return [*found, f"{{oldSchemaVersion: {other.version}}}", f"{{compatibility: '{level}'}}"]
    return []


def _between(
    state: RegistryState, level: str, content: Content, parsed: ParsedSchema, other: StoredSchema
) -> list[str]:
    if other.content.schema_type != content.schema_type:
        return [
            f"SCHEMA_TYPE_CHANGED at /: the new schema is {content.schema_type}, version {other.version} is "
            f"{other.content.schema_type}"
        ]
    schema_format = format_of(content.schema_type)
    old = parse_content(other.content, reference_texts(state, other.content.references))
    found: list[Incompatibility] = []
    try:
        if level.startswith("BACKWARD") or level in _BOTH_WAYS:
            found += schema_format.incompatibilities(parsed, old)
        if level.startswith("FORWARD") or level in _BOTH_WAYS:
            found += schema_format.incompatibilities(old, parsed)
    except InvalidSchemaError as error:
        raise errors.invalid_schema(f"the schema cannot be compared with version {other.version}: {error}") from error
    return [str(each) for each in found]


def is_normalizing(state: RegistryState, subject: str) -> bool:
    """Whether the subject's config asks for normalized schemas."""
    return state.config(subject).get("normalize") is True


def require_writable(state: RegistryState, subject: str, *, is_import: bool = False) -> None:
    """Raises RegistryError when the subject's mode does not let schemas in."""
    mode, (context, _) = state.mode(subject), split_subject(subject)
    if mode.startswith("READONLY"):
        raise errors.not_permitted(f"Subject {subject} in context {context} is in read-only mode")
    if is_import and mode != "IMPORT":
        raise errors.not_permitted(f"Subject {subject} in context {context} is not in import mode")
    if not is_import and mode == "IMPORT":
        raise errors.not_permitted(f"Subject {subject} in context {context} is in import mode: give the schema's id")


def _content(
    state: RegistryState, subject: str, request: SchemaRequest, parsed: ParsedSchema, *, normalize: bool
) -> Content:
    """The content that is stored for a request: metadata and rules that it lacks come from the latest version.

    The subject's config adds to both. A schema that is imported stays as it was sent.
    """
    text = parsed.normalized() if normalize else parsed.canonical
    if request.id is not None:
        return Content(request.schema_type, text, request.references, request.metadata, request.rule_set)
    versions = state.versions(subject)
    latest = versions[-1].content if versions else None
    metadata, rule_set = request.metadata, request.rule_set
    if latest is not None:
        metadata = latest.metadata if metadata is None else metadata
        rule_set = latest.rule_set if rule_set is None else rule_set
    metadata, rule_set = with_contract(state.config(subject), metadata, rule_set)
    return Content(request.schema_type, text, request.references, metadata, rule_set)


def _find(
    state: RegistryState,
    alike: Sequence[StoredSchema],
    content: Content,
    parsed: ParsedSchema,
    *,
    normalize: bool = False,
) -> StoredSchema | None:
    """The first of these versions with this schema. Another program may have stored it in another spelling."""
    for each in alike:
        if each.content.text == content.text:
            return each
    form: Callable[[ParsedSchema], Any] = (lambda one: one.normalized()) if normalize else (lambda one: one.canonical)
    for each in alike[:SPELLINGS_MAX]:
        stored = parse_if_readable(each.content, reference_texts(state, each.content.references))
        if stored is not None and form(stored) == form(parsed):
            return each
    return None


def _alike(versions: Sequence[StoredSchema], request: SchemaRequest, config: Document) -> list[StoredSchema]:
    """The versions that may be what a request means, the latest first: all but their text is compared.

    Metadata and rules count where the request gives them. What the config adds has to be there in any case.
    """
    metadata, rule_set = with_contract(config, request.metadata, request.rule_set)

    def is_alike(content: Content) -> bool:
        if (content.schema_type, content.references) != (request.schema_type, request.references):
            return False
        has = (content.metadata, content.rule_set)
        if (request.metadata is None or request.rule_set is None) and with_contract(config, *has) != has:
            return False
        return (request.metadata is None or metadata == has[0]) and (request.rule_set is None or rule_set == has[1])

    return [each for each in reversed(versions) if is_alike(each.content)]


def _group_of(content: Content, group: str) -> object:
    metadata: Document = json.loads(content.metadata or "{}")
    return (metadata.get("properties") or {}).get(group)
