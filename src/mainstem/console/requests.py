"""Requests to the gateway as values, and the ``curl`` line that repeats one. Pure functions."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlencode


@dataclass(frozen=True)
class ConsoleRequest:
    """One request: what it asks is all in here, so it can be sent and shown.

    ``query`` leaves out what is None, and repeats a name for each entry of a list.
    """

    path: str
    query: Mapping[str, Any] = field(default_factory=dict)
    method: str = "GET"
    body: Any = None

    @property
    def target(self) -> str:
        """Path and query as they stand in the request line."""
        given = {name: value for name, value in self.query.items() if value is not None}
        return self.path + (f"?{urlencode(given, doseq=True, safe='/:,', quote_via=quote)}" if given else "")


def path(*segments: str) -> str:
    """A path of segments, each escaped whole."""
    return "".join("/" + quote(segment, safe="") for segment in segments)


def row_of(view: str, key: str) -> ConsoleRequest:
    """The request for a key-value view's row.

    The keys ``.`` and ``..`` cannot be segments of a path: clients and proxies resolve them as directories.
    """
    if key in (".", ".."):
        return ConsoleRequest(path("views", view, "keys"), {"start": key, "end": key + "\0", "limit": 1})
    return ConsoleRequest(path("views", view, "keys", key))


def curl_line(asked: ConsoleRequest, base_url: str, *, with_token: bool = False) -> str:
    """The line for a shell. A token is not written out: it is taken from the variable ``TOKEN``."""
    words = ["curl", "-s"]
    if asked.method != "GET":
        words += ["-X", asked.method]
    line = shlex.join(words) + " " + shlex.quote(base_url.rstrip("/") + asked.target)
    if with_token:
        line += ' -H "Authorization: Bearer $TOKEN"'
    if asked.body is not None:
        text = json.dumps(asked.body, ensure_ascii=False)
        line += " -H 'Content-Type: application/json' -d " + shlex.quote(text)
    return line
