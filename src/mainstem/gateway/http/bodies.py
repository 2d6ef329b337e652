"""JSON bodies: read, parsed and checked in one step, so that every way to be wrong is one clear problem.

The parser is pydantic's: it refuses bytes that are not UTF-8, lone surrogates and nesting without end by itself. A body
must say ``application/json``; that is also what keeps other pages' simple requests out.

The parser holds the interpreter until it is through, and each value becomes an object of up to 230 bytes. So values are
counted before: a body has at most ``VALUES_MAX``, one record ``RECORD_VALUES_MAX``. Separators outside of strings are
counted. A body with few separators and few escapes in all is parsed on the event loop, if it is small or has no
fractions; any other is counted, cut into records and parsed record by record in a thread (``body_slices``).
"""

from __future__ import annotations

import asyncio
import json
import math
import re
import secrets
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeVar

from pydantic import BaseModel, ValidationError
from starlette.requests import Request

from mainstem.client.values import json_text
from mainstem.errors import InputError
from mainstem.gateway.http.body_slices import record_slices
from mainstem.gateway.http.problem_responses import HttpError, names_of, validation_text
from mainstem.gateway.http.record_bodies import RECORDS_MAX, AppendBody, NewRecordBody, RequestBody

VALUES_MAX: Final = 200_000
RECORD_VALUES_MAX: Final = 20_000
_FEW_VALUES: Final = 5_000
_FEW_ESCAPES: Final = 20_000
_FEW_BYTES: Final = 64 << 10
_SEPARATORS: Final = (b",", b"[", b"{")
_STRING: Final = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"?', re.DOTALL)
_SHAPE: Final = bytes.maketrans(b"123456789E", b"000000000e")
_Model = TypeVar("_Model", bound=BaseModel)


class BodySchema(NamedTuple):
    """A body that a route reads by itself, for the description of the API."""

    media_type: str
    schema: Mapping[str, Any]


async def read_json(request: Request, model: type[_Model]) -> _Model:
    """The request's body as ``model``. Raises HttpError 413 or 415, or InputError."""
    content_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if content_type != "application/json":
        raise HttpError(415, f"send the body as application/json, not {content_type[:100] or 'without a type'}")
    body = await request.body()
    if _is_quick(body):
        return _parsed(body, model)
    return await asyncio.to_thread(_parsed_in_parts, body, model)


def _is_quick(body: bytes) -> bool:
    """Whether it is parsed in a few milliseconds. Numbers with a fraction are read a second time."""
    if _separators(body, 0, len(body)) > _FEW_VALUES or body.count(b"\\") > _FEW_ESCAPES:
        return False
    return len(body) <= _FEW_BYTES or not _may_have_fractions(body)


def _parsed(body: bytes, model: type[_Model], place: str = "") -> _Model:
    try:
        parsed = model.model_validate_json(body)
    except ValidationError as error:
        raise InputError(place + validation_text(error, names_of(model))) from error
    if isinstance(parsed, AppendBody | NewRecordBody | RequestBody) and _may_have_fractions(body):
        _keep_numbers(parsed, body)
    return parsed


def _may_have_fractions(body: bytes) -> bool:
    shape = body.translate(_SHAPE)
    return b"0." in shape or b"0e" in shape


def _keep_numbers(parsed: AppendBody | NewRecordBody | RequestBody, body: bytes) -> None:
    """Make values their JSON text if a double would write a number of theirs otherwise: ``1.50``, or many digits."""
    mark, is_altered = secrets.token_hex(16), False

    def marked(text: str) -> str | float:
        nonlocal is_altered
        number = float(text)
        is_altered = is_altered or repr(number) != text
        return mark + text if math.isfinite(number) else number

    document = json.loads(body, parse_float=marked)
    if not is_altered:
        return
    several = isinstance(parsed, AppendBody)
    records: Sequence[NewRecordBody | RequestBody] = parsed.records if isinstance(parsed, AppendBody) else [parsed]
    for record, written in zip(records, document["records"] if several else [document], strict=True):
        value = written["value"]
        if isinstance(value, dict | list) or (isinstance(value, str) and value.startswith(mark)):
            record.value = re.sub(f'"{mark}([^"]*)"', r"\1", json_text(value))


def _parsed_in_parts(body: bytes, model: type[_Model]) -> _Model:
    """The same for a body with many separators. Raises HttpError 413 and InputError."""
    if issubclass(model, AppendBody):
        return model.model_construct(records=_records(body))
    if _has_too_many(body):
        raise HttpError(413, f"the body has more than {RECORD_VALUES_MAX} JSON values: send fewer")
    return _parsed(body, model)


def _records(body: bytes) -> list[NewRecordBody]:
    records: list[NewRecordBody] = []
    total = 0
    try:
        for text, values in record_slices(body, RECORD_VALUES_MAX):
            total += values
            if values > RECORD_VALUES_MAX:
                raise HttpError(413, f"records.{len(records)} has more than {RECORD_VALUES_MAX} JSON values: split it")
            if total > VALUES_MAX:
                raise HttpError(413, f"the body has more than {VALUES_MAX} JSON values: send it in parts")
            if len(records) == RECORDS_MAX:
                raise InputError(f"records: one request takes at most {RECORDS_MAX}; send the others in another one")
            records.append(_parsed(text, NewRecordBody, f"records.{len(records)}: "))
    except ValueError as error:
        raise InputError(f'send {{"records": [...]}} and nothing else: {error}') from error
    if not records:
        raise InputError("records: give at least one")
    return records


def _has_too_many(body: bytes) -> bool:
    """Whether there are more than ``RECORD_VALUES_MAX`` separators outside of strings."""
    values = at = 0
    for string in _STRING.finditer(body):
        values += _separators(body, at, string.start())
        at = string.end()
        if values > RECORD_VALUES_MAX:
            return True
    return values + _separators(body, at, len(body)) > RECORD_VALUES_MAX


def _separators(text: bytes, start: int, end: int) -> int:
    return sum(text.count(each, start, end) for each in _SEPARATORS)


def body_of(body: type[BaseModel] | BodySchema) -> dict[str, Any]:
    """The OpenAPI description of a route that takes this body."""
    if isinstance(body, BodySchema):
        media_type, schema = body.media_type, dict(body.schema)
    else:
        media_type, schema = "application/json", body.model_json_schema(ref_template="#/components/schemas/{model}")
    return {"requestBody": {"required": True, "content": {media_type: {"schema": schema}}}}
