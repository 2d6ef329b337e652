"""Successful answers: JSON with the position that they reflect in a header.

What a query can yield and JSON cannot say becomes null (NaN, the infinities) or text (times, decimals, bytes as
base64).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from starlette.responses import Response

from mainstem.client.values import json_text
from mainstem.errors import SchemaError
from mainstem.model import Position

POSITION_HEADER = "Mainstem-Position"


def json_response(document: Any, *, status: int = 200, position: Position | None = None) -> Response:
    """``document`` as JSON; ``position`` goes into the header as well."""
    headers = {POSITION_HEADER: str(position)} if position is not None else None
    return Response(json_bytes(document), status, headers, media_type="application/json")


def json_bytes(document: Any) -> bytes:
    """``document`` as one line of JSON in UTF-8."""
    try:
        text = json_text(document)
    except SchemaError:
        text = json_text(_without_nan(document))
    return text.encode(errors="replace")


def _without_nan(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): _without_nan(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_without_nan(entry) for entry in value]
    return value
