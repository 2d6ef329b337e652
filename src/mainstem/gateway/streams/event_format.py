"""The bytes of server-sent events (``text/event-stream``, as the HTML standard says). Pure functions.

An event's ``id`` is a position in its text form. A block with an ``id`` and without ``data`` is not an event: it only
sets the ``Last-Event-ID`` that the client sends back. So a reader's position advances while its filter passes nothing.
"""

from __future__ import annotations

import random
from typing import Any, Final

from mainstem.errors import MainstemError
from mainstem.gateway.http.json_responses import json_bytes
from mainstem.problems import problem_of

CONTENT_TYPE: Final = "text/event-stream"
_RETRY_MS: Final = (500, 2_500)


def opening(position: str | None) -> bytes:
    """The first block: the time to wait before a reconnect (spread over clients), and the position."""
    return f"retry: {random.randint(*_RETRY_MS)}\n".encode() + beat(position)


def beat(position: str | None) -> bytes:
    """A heartbeat (a comment, not an event), with the reader's position if it is known."""
    return b": beat\n\n" if position is None else f": beat\nid: {position}\n\n".encode()


def event(document: Any, *, name: str | None = None, position: str | None = None) -> bytes:
    """One event; without a ``name`` it is a ``message``. Its data is one line of JSON."""
    return frame(json_bytes(document), name=name, position=position)


def frame(data: bytes, *, name: str | None = None, position: str | None = None) -> bytes:
    """One event whose data is JSON already."""
    kind = b"" if name is None else f"event: {name}\n".encode()
    number = b"" if position is None else f"id: {position}\n".encode()
    return b"%b%bdata: %b\n\n" % (kind, number, data)


def problem(error: MainstemError) -> bytes:
    """The last event of a stream that cannot go on: the problem document of ``error``."""
    return event(problem_of(error), name="problem")
