"""Requests to the schema registry that several pages share, and the addresses of its pages. Pure functions."""

from __future__ import annotations

from typing import Final

from mainstem.console.requests import ConsoleRequest, path

SCHEMAS_PAGE: Final = "/console/schemas"
_SIDES: Final = ("key", "value")
_ALL_FIELDS: Final = {"Confluent-Accept-Unknown-Properties": "true"}
"""Without it the registry leaves out the type of Avro schemas, the GUID and the time."""


def subjects_of(topic: str) -> tuple[str, ...]:
    """The subjects of a topic, by the default naming of serializers."""
    return tuple(f"{topic}-{side}" for side in _SIDES)


def topic_of(subject: str) -> str | None:
    """The topic that a subject is named after. Subjects of a context of their own are named after none."""
    topic, dash, side = subject.rpartition("-")
    return topic if dash and side in _SIDES and topic and not subject.startswith(":") else None


def subject_address(subject: str, version: object = None) -> str:
    """The address of a subject's page, at a version."""
    return f"{SCHEMAS_PAGE}{path(subject)}" + ("" if version is None else f"?version={version}")


def subject_names(limit: int) -> ConsoleRequest:
    """The names of the subjects, at most ``limit``."""
    return ConsoleRequest("/registry/subjects", {"limit": limit})


def latest_versions(offset: int) -> ConsoleRequest:
    """The latest version of each subject, from one of them on."""
    return ConsoleRequest("/registry/schemas", {"latestOnly": "true", "offset": offset or None}, headers=_ALL_FIELDS)


def versions_of(subject: str) -> ConsoleRequest:
    """The numbers of a subject's versions."""
    return ConsoleRequest(path("registry", "subjects", subject, "versions"))


def version_of(subject: str, version: object) -> ConsoleRequest:
    """One version; ``latest`` is one, too."""
    return ConsoleRequest(path("registry", "subjects", subject, "versions", str(version)), headers=_ALL_FIELDS)


def referrers_of(subject: str, version: int) -> ConsoleRequest:
    """The ids of the schemas that refer to a version."""
    return ConsoleRequest(path("registry", "subjects", subject, "versions", str(version), "referencedby"))


def users_of(schema_id: int) -> ConsoleRequest:
    """The versions that have an id."""
    return ConsoleRequest(path("registry", "schemas", "ids", str(schema_id), "versions"))


def config_of(subject: str | None) -> ConsoleRequest:
    """The config of a subject, with what holds where it has none; of the whole registry for None."""
    if subject is None:
        return ConsoleRequest("/registry/config")
    return ConsoleRequest(path("registry", "config", subject), {"defaultToGlobal": "true"})
