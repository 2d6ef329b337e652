"""Bodies as the log stores them, and stored values as answers. Pure functions; JSON ones belong in a worker thread.

A JSON stream stores one array for each request: the body itself, or the one message in brackets, so the bytes of each
message are the sender's. Its length counts messages; the length of any other stream counts bytes.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, NoReturn

from mainstem.errors import InputError, UnsupportedFeatureError
from mainstem.json_depth import is_too_deep

DEFAULT_TYPE: Final = "application/octet-stream"
JSON_BYTES_MAX: Final = 1 << 20
_LINE: Final = re.compile(rb"\r\n|\r|\n")
_SPACE: Final = " \t\r\n"
_DECODER: Final = json.JSONDecoder()


@dataclass(frozen=True, slots=True)
class StoredBody:
    """A body as the log stores it, and by how much it makes the stream longer."""

    value: bytes
    count: int


def plain_type(content_type: str) -> str:
    """A content type without its parameters, for comparisons."""
    return content_type.partition(";")[0].strip().lower()


def is_json(content_type: str) -> bool:
    """Whether a stream of this type keeps messages apart."""
    return plain_type(content_type) == "application/json"


def is_text(content_type: str) -> bool:
    """Whether events carry the data as it is; any other data is sent in base64."""
    return is_json(content_type) or plain_type(content_type).startswith("text/")


def stored(content_type: str, body: bytes) -> StoredBody:
    """The stored form of a body. Raises InputError for a body that is not JSON, in a JSON stream."""
    if not is_json(content_type):
        return StoredBody(body, len(body))
    if len(body) > JSON_BYTES_MAX:
        raise InputError(f"a JSON body has at most {JSON_BYTES_MAX} bytes: send it in parts")
    text = _text(body)
    parsed = _parsed(text)
    if isinstance(parsed, list):
        return StoredBody(text.encode(), len(parsed))
    return StoredBody(f"[{text}]".encode(), 1)


def joined(content_type: str, values: Sequence[bytes]) -> bytes:
    """Stored values as one answer: an array of all messages, or all bytes."""
    if is_json(content_type):
        return b"[" + b",".join(value.strip()[1:-1] for value in values) + b"]"
    return b"".join(values)


def head_of(content_type: str, value: bytes, count: int) -> bytes:
    """The first ``count`` messages or bytes of a stored value, in stored form. Raises UnsupportedFeatureError."""
    if not is_json(content_type):
        return value[:count]
    try:
        return b"[" + ",".join(_elements(value.decode())[:count]).encode() + b"]"
    except (ValueError, IndexError, RecursionError) as error:
        raise UnsupportedFeatureError("a record of this stream is no JSON array: another writer appended it") from error


def event(name: str, lines: bytes) -> bytes:
    """One event; each line of the data gets a ``data:`` of its own, so that data cannot end the event."""
    return b"event: %b\n%b\n\n" % (name.encode(), b"\n".join(b"data:" + line for line in _LINE.split(lines)))


def data_event(content_type: str, values: Sequence[bytes]) -> bytes:
    """The event that carries stored values."""
    data = joined(content_type, values)
    return event("data", data if is_text(content_type) else base64.b64encode(data))


def _text(body: bytes) -> str:
    try:
        return body.decode().strip(_SPACE)
    except UnicodeDecodeError as error:
        raise InputError("the body is not UTF-8 text, and the stream takes JSON") from error


def _parsed(text: str) -> Any:
    if is_too_deep(text):
        raise InputError("the body nests too deeply")
    try:
        return json.loads(text, parse_constant=_refuse)
    except ValueError as error:
        raise InputError(f"the body is not JSON, and the stream takes JSON: {str(error)[:200]}") from error


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON value")


def _elements(array: str) -> list[str]:
    """The texts of the elements of an array that was checked when it was appended."""
    found, at = [], _skipped(array, array.index("[") + 1)
    while array[at] != "]":
        _, end = _DECODER.raw_decode(array, at)
        found.append(array[at:end])
        at = _skipped(array, end)
        if array[at] == ",":
            at = _skipped(array, at + 1)
    return found


def _skipped(text: str, at: int) -> int:
    while text[at] in _SPACE:
        at += 1
    return at
