"""The description of the API (OpenAPI), made complete: each answer of each route with status, media type and headers.

The framework knows the routes, their parameters and bodies. Each route declares what it answers (``access.routes``);
the problems that every route can have, and those that follow from what it takes, are added here. A test requires a
declaration of every route, and sends requests to find an answer that is not described. Pure functions.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from mainstem.gateway.http.answer_schemas import SCHEMAS
from mainstem.problems import CONTENT_TYPE

_WITHOUT_BODY: Final = (204, 304)
_PATH_PARAMETER: Final = re.compile(r"\{(\w+)\}")
_ALWAYS: Final = (400, 401, 403, 421, 500, 502, 503)
PROBLEM_TEXTS: Final = {
    400: "A parameter, a body, a position or a query is wrong",
    401: "No token, or one that is not known",
    403: "The token may not do this, or a page of another origin asks",
    404: "The topic, view, group, user, token or request does not exist",
    408: "The body arrived too slowly",
    409: "The topic or the view does not support this",
    410: "The requested data is too old: it was removed",
    412: "The condition does not hold; `actual` is the offset that does",
    413: "The body or a record is too large",
    415: "The body is not `application/json`",
    416: "The log does not have this offset",
    421: "This host name is not served here",
    422: "The topic does not take this record",
    500: "A defect, or this machine is in the way",
    501: "Something that this takes is not installed",
    502: "The log's answer, or a worker's, is an error",
    503: "Temporarily unavailable; `Retry-After` says when to try again",
    504: "The position was not reached in time (`wanted` and `reached`), or it is not known whether it was appended",
}
_HEADERS: Final = {
    "Mainstem-Position": "The position that the answer reflects, or the one just after the appended records",
    "Cache-Control": "How long the answer may be kept: a tile never changes",
    "ETag": "The key's last offset in quotation marks, for `If-Match`",
    "Location": "Where to look for the reply",
    "Stream-Next-Offset": "The offset to read on from, or where the stream ends",
    "Stream-Closed": "`true`: nothing follows",
    "Retry-After": "Seconds after which to try again",
    "Preference-Applied": "What of `Prefer` was followed (RFC 7240)",
    "WWW-Authenticate": "How to authenticate (RFC 6750)",
}
_REQUEST_HEADERS: Final = {
    "If-Match": "An entity tag, as a key's read gives it: append only if this is the key's last offset",
    "If-None-Match": "`*`: append only if the key has no record",
    "Mainstem-Expect-End": "An offset: append only if the partition ends there",
    "Idempotency-Key": "Append once, however often the request is sent",
    "Prefer": "`respond-async` or `wait=SECONDS` (RFC 7240)",
}
_PROBLEM_HEADERS: Final[Mapping[int, str]] = {
    401: "WWW-Authenticate",
    403: "WWW-Authenticate",
    503: "Retry-After",
    504: "Mainstem-Position",
}


@dataclass(frozen=True, slots=True)
class Success:
    """A successful answer. ``schema`` is a name of ``answer_schemas``, ``headers`` those that it may have."""

    status: int
    text: str
    schema: str
    headers: tuple[str, ...] = ()
    media_type: str = "application/json"

    def document(self) -> dict[str, Any]:
        """The answer in OpenAPI's words."""
        described = {"description": self.text, "headers": _headers(self.headers)}
        if self.status in _WITHOUT_BODY:
            return described
        return {**described, "content": {self.media_type: {"schema": _schema(self.schema)}}}


@dataclass(frozen=True, slots=True)
class ErrorForm:
    """The form of an API's errors. ``schema`` is a name of ``answer_schemas``; ``texts`` say what a status means."""

    schema: str
    media_type: str
    texts: Mapping[int, str]

    def documents(self) -> dict[str, Any]:
        """The error answers of all statuses in OpenAPI's words, by name."""
        return {f"{self.schema}{status}": self._document(status, text) for status, text in self.texts.items()}

    def _document(self, status: int, text: str) -> dict[str, Any]:
        header = _PROBLEM_HEADERS.get(status)
        return {
            "description": text,
            "headers": _headers(() if header is None else (header,)),
            "content": {self.media_type: {"schema": _schema(self.schema)}},
        }


PROBLEM_FORM: Final = ErrorForm("Problem", CONTENT_TYPE, PROBLEM_TEXTS)


@dataclass(frozen=True, slots=True)
class Answers:
    """The answers of a route; ``problems`` are those that do not follow from its parameters.

    ``takes``: the headers that it reads but does not declare to the framework.
    """

    successes: tuple[Success, ...]
    problems: tuple[int, ...] = ()
    takes: tuple[str, ...] = ()
    form: ErrorForm = PROBLEM_FORM


CONDITIONS: Final = ("If-Match", "If-None-Match", "Mainstem-Expect-End", "Idempotency-Key")
AT: Final = ("Mainstem-Position",)
OF_VIEW: Final = (409, 410, 416, 501)
"""The problems of every question to a view."""
ROWS: Final = Answers((Success(200, "The rows, and what they reflect", "Rows", AT),), OF_VIEW)
KEY_ROWS: Final = Answers((Success(200, "The rows, and what they reflect", "KeyRows", AT),), OF_VIEW)
OBJECT: Final = Answers((Success(200, "How it went", "Object"),), OF_VIEW)
EVENTS: Final = Answers((Success(200, "Events, without end", "Text", (), "text/event-stream"),), OF_VIEW)
BOUNDED_EVENTS: Final = Answers((Success(200, "Events up to `end`", "Object", (), "text/event-stream"),), OF_VIEW)
"""Each event is an object with `event`, `id` and `data`."""


def success(text: str, schema: str, headers: tuple[str, ...] = (), media_type: str = "application/json") -> Answers:
    """One answer with status 200, and no problems but those that every route can have."""
    return Answers((Success(200, text, schema, headers, media_type),))


def completed(document: dict[str, Any], answers_of: Mapping[tuple[str, str], Answers]) -> dict[str, Any]:
    """The framework's description with every answer of every route in it. Changes and returns ``document``."""
    schemas = document.setdefault("components", {}).setdefault("schemas", {})
    schemas.update(SCHEMAS)
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            _hoist_definitions(operation, schemas)
            answers = answers_of.get((method, path))
            operation["responses"] = _responses(operation, answers, path)
            parameters = operation.setdefault("parameters", [])
            parameters.extend(_undeclared_path_parameters(parameters, path))
            if answers is not None:
                parameters.extend(map(_request_header, answers.takes))
    document["components"]["headers"] = {
        name: {"description": text, "schema": {"type": "string"}} for name, text in _HEADERS.items()
    }
    forms = {each.form.schema: each.form for each in (*answers_of.values(), Answers(()))}
    document["components"]["responses"] = {
        name: response for form in forms.values() for name, response in form.documents().items()
    }
    document["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    document["security"] = [{"token": []}, {}]
    return document


def _responses(operation: Mapping[str, Any], answers: Answers | None, path: str) -> dict[str, Any]:
    """All answers of one operation, by status; one that has no line keeps what the framework says of its successes."""
    if answers is None:
        responses = {status: found for status, found in operation["responses"].items() if status.startswith("2")}
    else:
        responses = {str(success.status): success.document() for success in answers.successes}
    statuses = sorted({*_ALWAYS, *_following(operation, path), *(answers.problems if answers is not None else ())})
    form = PROBLEM_FORM if answers is None else answers.form
    return responses | {str(status): {"$ref": f"#/components/responses/{form.schema}{status}"} for status in statuses}


def _following(operation: Mapping[str, Any], path: str) -> Iterable[int]:
    """The problems that follow from what an operation takes."""
    if "{" in path:
        yield 404
    if "requestBody" in operation:
        yield from (408, 413, 415, 422)
    if any(parameter["name"] in ("at_least", "max_lag_ms") for parameter in operation.get("parameters", ())):
        yield 504


def _hoist_definitions(operation: Mapping[str, Any], schemas: dict[str, Any]) -> None:
    """Put the schemas that a body's schema contains where its references look for them."""
    for content in operation.get("requestBody", {}).get("content", {}).values():
        schemas.update(content["schema"].pop("$defs", {}))


def _undeclared_path_parameters(parameters: Iterable[Mapping[str, Any]], path: str) -> list[dict[str, Any]]:
    """The parts of a path that its function reads from the request, and not as arguments."""
    known = {each["name"] for each in parameters}
    names = [name for name in _PATH_PARAMETER.findall(path) if name not in known]
    return [{"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in names]


def _request_header(name: str) -> dict[str, Any]:
    return {"name": name, "in": "header", "description": _REQUEST_HEADERS[name], "schema": {"type": "string"}}


def _headers(names: Iterable[str]) -> dict[str, Any]:
    return {name: {"$ref": f"#/components/headers/{name}"} for name in names}


def _schema(name: str) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{name}"}
