"""Records in JSON, in both directions.

Towards the log: an object or array is kept as its JSON text, a string as its UTF-8 text, a number or boolean as its
JSON text, null is a tombstone. From the log: a value that is a JSON object or array of at most 400 levels comes
as such, other text as a string, and other bytes as ``value_base64``. Keys and headers' values
likewise, except that they are never parsed.
"""

from __future__ import annotations

import base64
import json
from typing import Any

from mainstem.json_depth import is_too_deep
from mainstem.model import Record


def record_json(record: Record) -> dict[str, Any]:
    """One record as the API shows it."""
    document: dict[str, Any] = {
        "partition": record.partition,
        "offset": record.offset,
        "timestamp_ms": record.timestamp_ms,
    }
    _put(document, "key", record.key)
    _put(document, "value", record.value, parse=True)
    document["headers"] = [_header(name, value) for name, value in record.headers]
    return document


def _header(name: str, value: bytes | None) -> dict[str, Any]:
    document: dict[str, Any] = {"name": name}
    _put(document, "value", value)
    return document


def _put(document: dict[str, Any], name: str, data: bytes | None, *, parse: bool = False) -> None:
    if data is None:
        document[name] = None
        return
    try:
        text = data.decode()
    except UnicodeDecodeError:
        document[name + "_base64"] = base64.b64encode(data).decode()
        return
    document[name] = _parsed(text) if parse and text[:1] in ("{", "[") else text


def _parsed(text: str) -> Any:
    if is_too_deep(text):
        return text
    try:
        return json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return text


def _refuse(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")
