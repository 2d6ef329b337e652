"""Every answer that is no success is a problem document (RFC 9457), whoever raised it and wherever.

Errors of our own tree go by the table in ``mainstem.problems``. What only HTTP knows (no such path, a method that a
path does not take, a body of the wrong type) has a slug of its own here. An exception that is none of these is a
defect: it answers 500 without its text, which goes to the process's log. Stateless.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import ValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from mainstem.errors import InputError, MainstemError, PositionTimeoutError, UnavailableError
from mainstem.problems import CONTENT_TYPE, TYPE_PREFIX, problem_of

_LOGGER = logging.getLogger(__name__)
_RETRY_AFTER_S = "1"
_HTTP_PROBLEMS = {
    400: ("input", "The request is wrong"),
    403: ("forbidden", "Not allowed"),
    404: ("not-found", "No such path"),
    405: ("method-not-allowed", "The path does not take this method"),
    408: ("request-timeout", "The request came too slowly"),
    413: ("body-too-large", "The body is too large"),
    415: ("media-type", "The body's type is not known here"),
    421: ("misdirected-request", "This host name is not served here"),
    431: ("headers-too-large", "The request's line or headers are too large"),
    503: ("unavailable", "Not now"),
}


class HttpError(Exception):
    """What only HTTP can say: a status with a problem's detail."""

    def __init__(self, status: int, detail: str) -> None:
        super().__init__(detail)
        self.status = status


def problem_response(document: Mapping[str, Any], headers: Mapping[str, str] | None = None) -> Response:
    """A problem document as a response; 503 says when to try again."""
    status = int(document["status"])
    extra = dict(headers or {})
    if status == 503:
        extra.setdefault("Retry-After", _RETRY_AFTER_S)
    content = json.dumps(document, ensure_ascii=False).encode(errors="replace")
    return Response(content, status_code=status, headers=extra, media_type=CONTENT_TYPE)


def error_response(error: MainstemError) -> Response:
    """The response to an error of our own tree."""
    headers = {"Mainstem-Position": str(error.reached)} if isinstance(error, PositionTimeoutError) else None
    return problem_response(problem_of(error), headers)


def http_problem(status: int, detail: str, headers: Mapping[str, str] | None = None) -> Response:
    """The response to what only HTTP knows."""
    slug, title = _HTTP_PROBLEMS.get(status, ("http", "The request was refused"))
    document = {"type": TYPE_PREFIX + slug, "title": title, "status": status, "detail": detail}
    return problem_response(document, headers)


def validation_text(error: RequestValidationError | ValidationError) -> str:
    """What is wrong with which parameter or field, in one line."""
    parts = []
    for entry in error.errors()[:5]:
        place = ".".join(str(step) for step in entry["loc"] if step not in ("query", "path", "body"))
        message = str(entry["msg"]).removeprefix("Value error, ")
        parts.append(f"{place}: {message}" if place else message)
    return "; ".join(parts)


def install(app: FastAPI) -> None:
    """Make every error of ``app`` a problem document."""
    app.add_exception_handler(MainstemError, _on_error)
    app.add_exception_handler(HttpError, _on_http_error)
    app.add_exception_handler(RequestValidationError, _on_validation)
    app.add_exception_handler(HTTPException, _on_http_exception)
    app.add_exception_handler(Exception, _on_defect)


async def _on_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, MainstemError)
    if not isinstance(error, InputError | UnavailableError):
        _LOGGER.warning("%s: %s", type(error).__name__, error)
    return error_response(error)


async def _on_http_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, HttpError)
    return http_problem(error.status, str(error))


async def _on_validation(_: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    return error_response(InputError(validation_text(error)))


async def _on_http_exception(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    path = request.url.path[:200]
    detail = {
        404: f"there is nothing at {path}; /openapi.json lists what is served",
        405: f"{path} does not take {request.method}",
    }.get(error.status_code, str(error.detail))
    return http_problem(error.status_code, detail, error.headers)


async def _on_defect(request: Request, error: Exception) -> Response:
    _LOGGER.error("%s %s failed", request.method, request.url.path, exc_info=error)
    document = {
        "type": TYPE_PREFIX + "internal",
        "title": "A defect in Mainstem",
        "status": 500,
        "detail": "the request met a defect; the process's log has the details",
    }
    return problem_response(document)
