"""JSON bodies: read, parsed and checked in one step, so that every way to be wrong is one clear problem.

The parser is pydantic's: it refuses bytes that are not UTF-8, lone surrogates and nesting without end by itself. A body
must say ``application/json``; that is also what keeps other pages' simple requests out.

The parser holds the interpreter until it is through, and each value becomes an object of up to 230 bytes. So values are
counted before: at most ``VALUES_MAX``. What counts is separators outside of strings; a body that has so many in all is
walked in a thread.
"""

from __future__ import annotations

import asyncio
import re
from typing import Any, Final, TypeVar

from pydantic import BaseModel, ValidationError
from starlette.requests import Request

from mainstem.errors import InputError
from mainstem.gateway.problem_responses import HttpError, names_of, validation_text

VALUES_MAX: Final = 200_000
_SEPARATORS: Final = (b",", b"[", b"{")
_STRING: Final = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"?', re.DOTALL)
_Model = TypeVar("_Model", bound=BaseModel)


async def read_json(request: Request, model: type[_Model]) -> _Model:
    """The request's body as ``model``. Raises HttpError 415 or InputError."""
    content_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if content_type != "application/json":
        raise HttpError(415, f"send the body as application/json, not {content_type[:100] or 'without a type'}")
    body = await request.body()
    await _check_values(body)
    try:
        return model.model_validate_json(body)
    except ValidationError as error:
        raise InputError(validation_text(error, names_of(model))) from error


async def _check_values(body: bytes) -> None:
    """Raises HttpError 413 when a body has too many values."""
    if _separators(body, 0, len(body)) <= VALUES_MAX:  # so nearly always
        return
    if await asyncio.to_thread(_has_too_many, body):
        raise HttpError(413, f"the body has more than {VALUES_MAX} JSON values: send it in parts")


def _has_too_many(body: bytes) -> bool:
    values = at = 0
    for string in _STRING.finditer(body):
        values += _separators(body, at, string.start())
        at = string.end()
        if values > VALUES_MAX:
            return True
    return values + _separators(body, at, len(body)) > VALUES_MAX


def _separators(text: bytes, start: int, end: int) -> int:
    return sum(text.count(each, start, end) for each in _SEPARATORS)


def body_of(model: type[BaseModel]) -> dict[str, Any]:
    """What OpenAPI says of a route whose body is ``model``."""
    reference = {"schema": model.model_json_schema(ref_template="#/components/schemas/{model}")}
    return {"requestBody": {"required": True, "content": {"application/json": reference}}}
