"""The bodies of the registry's errors: in Confluent's form, and below ``/apis`` in Apicurio's.

Confluent's is ``{"error_code": …, "message": …}``, with nothing else: Java's client refuses any other field.
"""

from __future__ import annotations

import re
from http import HTTPStatus
from typing import Final

from mainstem.client.values import json_text
from mainstem.gateway.registry.registry_json import MEDIA_TYPE
from mainstem.schemas_topic.records import Document

APICURIO: Final = "/apis/registry/v3"
_PATH: Final = re.compile(r"(?:/contexts/[^/]+)?/apis(?:/.*)?", re.DOTALL)
_NAMES: Final = {
    401: "UnauthorizedException",
    403: "ForbiddenException",
    404: "NotFoundException",
    409: "ArtifactAlreadyExistsException",
    422: "UnprocessableEntityException",
    40401: "ArtifactNotFoundException",
    40402: "VersionNotFoundException",
    40403: "ContentNotFoundException",
    40901: "RuleViolationException",
}
"""Apicurio's names of errors, by the registry's codes; others have the name of their status."""


def is_apicurio(path: str) -> bool:
    """Whether a path, without the registry's prefix, is one of Apicurio's API."""
    return _PATH.fullmatch(path) is not None


def error_body(path: str, status: int, code: int, message: str) -> tuple[bytes, str]:
    """The body of an error answer to a request of this path, and its media type."""
    if is_apicurio(path):
        return json_text(_apicurio_error(status, code, message)).encode(errors="replace"), "application/json"
    return json_text({"error_code": code, "message": message}).encode(errors="replace"), MEDIA_TYPE


def _apicurio_error(status: int, code: int, message: str) -> Document:
    """An error in the form of version 3; ``message`` and ``error_code`` are what clients of version 2 read."""
    name = _NAMES.get(code) or _NAMES.get(status) or HTTPStatus(status).phrase.title().replace(" ", "") + "Exception"
    document: Document = {"title": message, "detail": f"{name}: {message}", "status": status, "name": name}
    if code == 40901:
        document["causes"] = [{"description": message, "context": ""}]
    return {**document, "error_code": status, "message": message}
