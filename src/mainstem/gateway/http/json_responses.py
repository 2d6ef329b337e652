"""Successful answers: JSON with the position that they reflect in a header.

Values that JSON does not have become null (NaN, the infinities) or text (times, decimals, bytes as base64).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
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


def records_response(document: Mapping[str, Any], records: Iterable[Any], position: Position) -> Response:
    """``document`` with ``records`` and ``position``. For a thread: each record is written by itself.

    One call of the encoder holds the interpreter until it is through, and the event loop with it.
    """
    parts = b",".join(json_bytes(record) for record in records)
    named = json_bytes({**document, "position": str(position)})
    headers = {POSITION_HEADER: str(position)}
    return Response(b'%b,"records":[%b]}' % (named[:-1], parts), 200, headers, media_type="application/json")


def _without_nan(document: Any) -> Any:
    """A copy with null for NaN and infinity. Not recursive, because documents of any depth must be accepted."""
    root: list[Any] = [document]
    unread: list[Any] = [root]
    while unread:
        copy = unread.pop()
        for place, entry in enumerate(copy) if isinstance(copy, list) else copy.items():
            if isinstance(entry, float):
                copy[place] = entry if math.isfinite(entry) else None
            elif isinstance(entry, Mapping | list | tuple):
                copy[place] = _copied(entry)
                unread.append(copy[place])
    return root[0]


def _copied(container: Any) -> Any:
    if isinstance(container, Mapping):
        return {str(key): entry for key, entry in container.items()}
    return list(container)
