"""Makes every error answer a problem document (RFC 9457), wherever the error was raised.

Errors of our own tree go by the table in ``mainstem.problems``. Errors that only HTTP has (no such path, a method that
a path does not take, a body of the wrong type) have their own slugs here. Any other exception is a defect: the answer
is 500 without its text, which goes to the process's log. Stateless.
"""

from __future__ import annotations

import difflib
import json
import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, get_args

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from mainstem.errors import InputError, MainstemError, PositionTimeoutError, UnavailableError, in_plain_words
from mainstem.problems import CONTENT_TYPE, TYPE_PREFIX, problem_of

_LOG = logging.getLogger(__name__)
_RETRY_AFTER_S = "1"
HTTP_PROBLEMS = {  # by status: slug and title
    400: ("input", "Invalid request"),
    403: ("forbidden", "Not allowed"),
    404: ("not-found", "No such path"),
    405: ("method-not-allowed", "Method not allowed"),
    406: ("not-acceptable", "Not acceptable"),
    408: ("request-timeout", "Request timeout"),
    413: ("body-too-large", "The body is too large"),
    415: ("media-type", "Unsupported media type"),
    421: ("misdirected-request", "Unknown host name"),
    431: ("headers-too-large", "The request's line or headers are too large"),
    503: ("unavailable", "Temporarily unavailable"),
}


class HttpError(Exception):
    """An error that only HTTP has: a status with a problem's detail."""

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
    slug, title = HTTP_PROBLEMS.get(status, ("http", "The request was refused"))
    document = {"type": TYPE_PREFIX + slug, "title": title, "status": status, "detail": detail}
    return problem_response(document, headers)


def validation_text(error: RequestValidationError | ValidationError, names: Iterable[str] = ()) -> str:
    """The wrong parameters or fields and their errors, in one line. ``names``: the valid names."""
    parts = []
    for entry in error.errors()[:5]:
        place = ".".join(str(step) for step in entry["loc"] if step not in ("query", "path", "body"))
        message = in_plain_words(str(entry["msg"]))
        if entry["type"] == "extra_forbidden":
            message = _unknown_name(str(entry["loc"][-1]), sorted(set(names)))
        parts.append(f"{place[:200]}: {message}" if place else message)
    return "; ".join(parts)


def names_of(model: type[BaseModel]) -> set[str]:
    """The names of a model's fields, as a request writes them, and of the models in it."""
    names = set()
    for name, field in model.model_fields.items():
        names.add(field.alias or name)
        for inner in (field.annotation, *get_args(field.annotation)):
            if isinstance(inner, type) and issubclass(inner, BaseModel):
                names |= names_of(inner)
    return names


def _unknown_name(name: str, names: Sequence[str]) -> str:
    close = difflib.get_close_matches(name[:100], names, 1)
    if close:
        return f"unknown name: did you mean {close[0]}?"
    return f"unknown name: use {', '.join(names)}" if names else "unknown name: this request takes no parameters"


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
        _LOG.warning("%s: %s", type(error).__name__, error)
    return error_response(error)


async def _on_http_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, HttpError)
    return http_problem(error.status, str(error))


async def _on_validation(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    names: set[str] = set()
    for parameter in request.scope["route"].dependant.query_params:
        model = parameter.field_info.annotation
        if isinstance(model, type) and issubclass(model, BaseModel):
            names |= names_of(model)
    return error_response(InputError(validation_text(error, names)))


async def _on_http_exception(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    path = request.url.path[:200]
    detail = {
        404: f"there is nothing at {path}; /openapi.json lists what is served",
        405: f"{path} does not take {request.method}",
    }.get(error.status_code, str(error.detail))
    return http_problem(error.status_code, detail, error.headers)


async def _on_defect(request: Request, error: Exception) -> Response:
    _LOG.error("%s %s failed", request.method, request.url.path, exc_info=error)
    document = {
        "type": TYPE_PREFIX + "internal",
        "title": "Internal error",
        "status": 500,
        "detail": "the request met a defect; the process's log has the details",
    }
    return problem_response(document)
