"""Associations: which subject the keys or values of a resource, mostly a topic, belong to.

Serializers ask for the association of their topic, and go by the topic's name where there is none. Steps over a state;
each returns the records to write and its result. The records' key type is ours: other registries leave them out.

Contract: a resource has one association of each type. One that is frozen stays as it is; it goes with the resource, by
a deletion that cascades. A deletion that cascades also soft-deletes the subjects of ``STRONG`` associations.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from mainstem.registry.deletion import delete_subject
from mainstem.registry.errors import RegistryError
from mainstem.registry.names import checked_subject
from mainstem.registry.requests import SchemaRequest, read_schema_request
from mainstem.registry.store import Records
from mainstem.schemas_topic.records import Document, association_key, json_text
from mainstem.schemas_topic.state import RegistryState
from mainstem.schemas_topic.subjects import split_subject

LIFECYCLES: Final = ("STRONG", "WEAK")
_TYPES: Final = ("key", "value")
_TOPIC: Final = "topic"
_ANY_NAMESPACE: Final = "-"
_NAME_CHARACTERS_MAX: Final = 1024


@dataclass(frozen=True, slots=True)
class Association:
    """One association of a request. ``lifecycle`` and ``frozen``: None for what it was, or the default."""

    subject: str
    type: str
    lifecycle: str | None
    frozen: bool | None
    schema: SchemaRequest | None
    normalize: bool


@dataclass(frozen=True, slots=True)
class AssociationRequest:
    """The associations that a request makes for one resource."""

    resource: Mapping[str, str]
    """``resourceName``, ``resourceNamespace``, ``resourceId`` and ``resourceType``."""
    associations: tuple[Association, ...]


@dataclass(frozen=True, slots=True)
class AssociationFilter:
    """Which associations are meant; an empty part leaves nothing out."""

    resource_type: str = ""
    types: tuple[str, ...] = ()
    lifecycle: str = ""

    def lets_through(self, association: Document) -> bool:
        """Whether an association is meant."""
        return (
            self.resource_type in ("", association.get("resourceType"))
            and (not self.types or association.get("associationType") in self.types)
            and self.lifecycle in ("", association.get("lifecycle"))
        )


def read_association_request(body: Document, context: str, resource_id: str = "") -> AssociationRequest:
    """The body of a request; its subjects belong to ``context``. Raises RegistryError 42212."""
    given = {"resourceType": _TOPIC, **{name: value for name, value in body.items() if value is not None}}
    if resource_id:
        given["resourceId"] = resource_id
    names = ("resourceName", "resourceNamespace", "resourceId", "resourceType")
    resource = {name: _text(given, name) for name in names}
    listed = given.get("associations")
    if not isinstance(listed, list) or not 1 <= len(listed) <= len(_TYPES):
        raise invalid_association(f"send from 1 to {len(_TYPES)} associations")
    associations = tuple(_read_association(each, context) for each in listed)
    if len({each.type for each in associations}) < len(associations):
        raise invalid_association("an associationType is in the request twice")
    return AssociationRequest(resource, associations)


def associate(state: RegistryState, request: AssociationRequest, *, replaces: bool) -> tuple[Records, list[Document]]:
    """Make associations; the result is what they are then. One that is there already is written only if it changes.

    Raises RegistryError: 40911 for a change unless ``replaces``, 409 for a change of a frozen one.
    """
    records: list[tuple[bytes, bytes | None]] = []
    results: list[Document] = []
    for wanted in request.associations:
        key = association_key(request.resource["resourceType"], request.resource["resourceId"], wanted.type)
        existing = state.associations.get(key)
        document = _document(request.resource, wanted, existing or {})
        if document != existing:
            if existing is not None and not replaces:
                raise RegistryError(40911, f"the association {_shown(existing)} exists already, and differs")
            if existing is not None and existing.get("frozen"):
                raise RegistryError(409, f"the association {_shown(existing)} is frozen")
            now_ms = int(time.time() * 1000)
            document = {"createTs": now_ms, **document, "updateTs": now_ms}
            records.append((key, json_text(document).encode()))
        results.append(document)
    return records, results


def delete_associations(
    state: RegistryState, resource_id: str, wanted: AssociationFilter, *, cascades: bool
) -> tuple[Records, None]:
    """Remove associations of a resource. Raises RegistryError: 404 when there is none, 409 for a frozen one."""
    found = [each for each in state.associations.items() if each[1].get("resourceId") == resource_id]
    found = [each for each in found if wanted.lets_through(each[1])]
    if not found:
        raise RegistryError(404, f"resource {resource_id[:100]!r} has no such association")
    records: list[tuple[bytes, bytes | None]] = []
    for key, association in found:
        if association.get("frozen") and not cascades:
            raise RegistryError(409, f"the association {_shown(association)} is frozen: send cascadeLifecycle=true")
        records.append((key, None))
    if cascades:
        owned = {str(each["subject"]) for _, each in found if each.get("lifecycle") == "STRONG"}
        for subject in sorted(owned):
            if state.versions(subject):
                records += delete_subject(state, subject, permanent=False)[0]
    return records, None


def of_resource(state: RegistryState, resource_id: str, wanted: AssociationFilter) -> list[Document]:
    """The associations of a resource by its id."""
    return [each for each in _all(state, wanted) if each.get("resourceId") == resource_id]


def of_name(state: RegistryState, namespace: str, name: str, wanted: AssociationFilter) -> list[Document]:
    """The associations of a resource by its name; the namespace ``-`` means any."""
    return [
        each
        for each in _all(state, wanted)
        if each.get("resourceName") == name and namespace in (_ANY_NAMESPACE, each.get("resourceNamespace"))
    ]


def of_subject(state: RegistryState, subject: str, wanted: AssociationFilter) -> list[Document]:
    """The associations with a subject."""
    return [each for each in _all(state, wanted) if each.get("subject") == subject]


def invalid_association(details: str) -> RegistryError:
    """A request that does not say which subject belongs to which resource."""
    return RegistryError(42212, f"invalid association: {details}")


def _all(state: RegistryState, wanted: AssociationFilter) -> Iterator[Document]:
    return (each for _, each in sorted(state.associations.items()) if wanted.lets_through(each))


def _document(resource: Mapping[str, str], wanted: Association, existing: Document) -> Document:
    lifecycle = wanted.lifecycle or existing.get("lifecycle") or "WEAK"
    frozen = bool(existing.get("frozen")) if wanted.frozen is None else wanted.frozen
    return {
        "guid": str(uuid.uuid4()),
        **existing,
        **resource,
        "subject": wanted.subject,
        "associationType": wanted.type,
        "lifecycle": lifecycle,
        "frozen": frozen,
    }


def _read_association(given: Any, context: str) -> Association:
    if not isinstance(given, dict):
        raise invalid_association("each association is a JSON object")
    association_type = given.get("associationType") or "value"
    if association_type not in _TYPES:
        raise invalid_association(f"associationType {str(association_type)[:100]!r}: use key or value")
    lifecycle, frozen, schema = given.get("lifecycle"), given.get("frozen"), given.get("schema")
    if lifecycle not in (None, *LIFECYCLES):
        raise invalid_association(f"lifecycle {str(lifecycle)[:100]!r}: use STRONG or WEAK")
    if frozen is not None and not isinstance(frozen, bool):
        raise invalid_association("frozen: use true or false")
    if schema is not None and not isinstance(schema, dict):
        raise invalid_association("schema: send a JSON object, as for a registration")
    subject = checked_subject(_text(given, "subject"), context)
    request = None if schema is None else read_schema_request(schema, split_subject(subject)[0])
    return Association(subject, association_type, lifecycle, frozen, request, given.get("normalize") is True)


def _text(given: Document, name: str) -> str:
    value = given.get(name)
    if not isinstance(value, str) or not 1 <= len(value) <= _NAME_CHARACTERS_MAX or not value.isprintable():
        raise invalid_association(f"{name} is missing, or is not a text of at most {_NAME_CHARACTERS_MAX} characters")
    return value


def _shown(association: Document) -> str:
    return f"{association.get('resourceName')!r} ({association.get('associationType')}) → {association.get('subject')}"
