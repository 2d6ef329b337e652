"""JSON bodies: read, parsed and checked in one step, so that every way to be wrong is one clear problem.

The parser is pydantic's: it refuses bytes that are not UTF-8, lone surrogates and nesting without end by itself. A body
must say ``application/json``; that is also what keeps other pages' simple requests out.
"""

from __future__ import annotations

from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from starlette.requests import Request

from mainstem.errors import InputError
from mainstem.gateway.problem_responses import HttpError, validation_text

_Model = TypeVar("_Model", bound=BaseModel)


async def read_json(request: Request, model: type[_Model]) -> _Model:
    """The request's body as ``model``. Raises HttpError 415 or InputError."""
    content_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if content_type != "application/json":
        raise HttpError(415, f"send the body as application/json, not {content_type[:100] or 'without a type'}")
    try:
        return model.model_validate_json(await request.body())
    except ValidationError as error:
        raise InputError(validation_text(error)) from error


def body_of(model: type[BaseModel]) -> dict[str, Any]:
    """What OpenAPI says of a route whose body is ``model``."""
    reference = {"schema": model.model_json_schema(ref_template="#/components/schemas/{model}")}
    return {"requestBody": {"required": True, "content": {"application/json": reference}}}
