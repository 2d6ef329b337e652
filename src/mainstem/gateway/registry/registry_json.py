"""Bodies and answers of the registry: the media types that its clients send and accept, and schemas as JSON.

An answer has only the fields that clients of old know: Java's refuse others. A client that takes more says so with the
header ``Confluent-Accept-Unknown-Properties: true``.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from mainstem.client.values import json_text
from mainstem.gateway.http.blocking import Workers
from mainstem.gateway.http.problem_responses import HttpError
from mainstem.json_depth import is_too_deep
from mainstem.registry.errors import RegistryError, schema_not_found
from mainstem.registry.names import checked_context, checked_subject
from mainstem.registry.registry import Registry
from mainstem.schemas_topic.records import AVRO, Document, StoredSchema
from mainstem.schemas_topic.subjects import DEFAULT_CONTEXT, context_subject, split_subject

MEDIA_TYPE: Final = "application/vnd.schemaregistry.v1+json"
CONTEXT: Final = "mainstem.registry.context"
"""Where ``registry_paths`` keeps the context that a request's path names."""
_MEDIA_TYPES: Final = (
    MEDIA_TYPE,
    "application/vnd.schemaregistry+json",
    "application/json",
    "application/octet-stream",
)
_ANY_TYPE: Final = ("*/*", "application/*")
_DIGITS_MAX: Final = 10
_QUICK_BYTES: Final = 64 << 10
LIST_CHARACTERS_MAX: Final = 16 << 20


def answer(request: Request, document: Any, *, status: int = 200) -> Response:
    """``document`` as JSON of the media type that the request accepts. Raises HttpError 406."""
    return Response(json_text(document).encode(errors="replace"), status, media_type=_accepted(request))


async def answer_of(workers: Workers, request: Request, read: Callable[[], Any]) -> Response:
    """The answer with what ``read`` returns. Both are made in a thread: a list may have many megabytes."""
    return await workers.run(lambda: answer(request, read()))


async def text_answer_of(workers: Workers, request: Request, read: Callable[[], str]) -> Response:
    """The answer with a schema's bare text, which ``read`` returns."""
    return await workers.run(lambda: Response(read().encode(errors="replace"), media_type=_accepted(request)))


def of_bounded_length(schemas: Iterable[StoredSchema]) -> Iterator[StoredSchema]:
    """The first of the schemas, and those behind it while the texts have at most LIST_CHARACTERS_MAX characters."""
    size = 0
    for number, each in enumerate(schemas):
        size += len(each.content.text)
        if number and size > LIST_CHARACTERS_MAX:
            return
        yield each


def _accepted(request: Request) -> str:
    given = request.headers.get("accept", "*/*")
    types = [each.partition(";")[0].strip().lower() for each in given[:1000].split(",")]
    for each in types:
        if each in _ANY_TYPE or not each:
            return MEDIA_TYPE
        if each in _MEDIA_TYPES:
            return each
    raise HttpError(406, f"none of the media types in Accept is served; accept {MEDIA_TYPE}")


async def read_body(request: Request) -> Document:
    """The JSON object that a request sends. Raises HttpError 415, RegistryError 422."""
    content_type = request.headers.get("content-type", MEDIA_TYPE).partition(";")[0].strip().lower()
    if content_type not in _MEDIA_TYPES:
        raise HttpError(415, f"send the body as {MEDIA_TYPE}, not {content_type[:100]}")
    body = await request.body()
    return _parsed(body) if len(body) < _QUICK_BYTES else await asyncio.to_thread(_parsed, body)


def _parsed(body: bytes) -> Document:
    try:
        text = body.decode()
        document = None if is_too_deep(text) else json.loads(text)
        json_text(document).encode()  # half of a surrogate pair cannot be stored
    except ValueError as error:
        raise RegistryError(422, f"the body is not JSON: {error}") from error
    if not isinstance(document, dict):
        raise RegistryError(422, "the body is not a JSON object, or is nested too deeply")
    return document


def subject_of(request: Request, subject: str) -> str:
    """The subject that a path names, in the context that the path names. Raises RegistryError 42208."""
    context = request.scope.get(CONTEXT, DEFAULT_CONTEXT)
    if subject == context_subject(context) or (subject.startswith(":.") and not split_subject(subject)[1]):
        return context_subject(split_subject(subject)[0])
    return checked_subject(subject, context)


def context_of(request: Request, subject: str = "") -> str:
    """The context of a request: of its path, else of the subject that its query names."""
    if CONTEXT in request.scope:
        return str(request.scope[CONTEXT])
    return checked_context(split_subject(subject)[0])


def schema_id_of(text: str) -> int:
    """A schema's id in a path. An impossible id is "not found", as in the Schema Registry. Raises RegistryError."""
    if not text.isascii() or not text.isdecimal() or len(text) > _DIGITS_MAX:
        raise schema_not_found(text[:100])
    return int(text)


def accepts_unknown(request: Request) -> bool:
    """Whether the client takes fields that it may not know."""
    return request.headers.get("confluent-accept-unknown-properties", "").lower() == "true"


def schema_text(registry: Registry, stored: StoredSchema, wanted: str) -> str:
    """A schema's text in the form that ``format`` asks for; any other word is the stored text."""
    if wanted == "serialized":
        return registry.parsed(stored.content).serialized()
    if wanted == "resolved":
        return registry.parsed(stored.content).resolved()
    return stored.content.text


def stored_json(request: Request, registry: Registry, find: Callable[[], StoredSchema], wanted: str) -> Document:
    """The version that ``find`` returns, with its text in the form ``wanted``."""
    stored = find()
    return version_json(request, stored, schema_text(registry, stored, wanted))


def version_json(request: Request, stored: StoredSchema, text: str | None = None) -> Document:
    """A version with all that it is."""
    return {
        "subject": stored.subject,
        "version": stored.version,
        "id": stored.id,
        **content_json(request, stored, text),
    }


def content_json(request: Request, stored: StoredSchema, text: str | None = None) -> Document:
    """The content of a version, without its subject and number."""
    document = stored.content.to_json()
    if text is not None:
        document["schema"] = text
    if accepts_unknown(request):
        document["schemaType"] = stored.content.schema_type or AVRO
        document["guid"] = stored.content.guid
        document["ts"] = stored.timestamp_ms
        document["deleted"] = stored.is_deleted
    return document
