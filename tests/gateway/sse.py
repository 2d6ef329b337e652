"""Reads server-sent events as a browser does: blocks between empty lines, an id without data moves the last id."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import httpx


@dataclass(frozen=True)
class Event:
    """One event, and the last id at it."""

    name: str
    id: str
    data: Any


class EventReader:
    """One stream; ``last_id`` is what would be sent back as Last-Event-ID."""

    def __init__(self, response: httpx.Response) -> None:
        self.response = response
        self.last_id = ""
        self.comments: list[str] = []
        self.retry_ms: int | None = None
        self._lines = response.iter_lines()

    def __iter__(self) -> Iterator[Event]:
        name, data = "message", None
        for line in self._lines:
            field, _, value = line.partition(": ")
            match field:
                case "":
                    if line:
                        self.comments.append(value)
                    elif data is not None:
                        yield Event(name, self.last_id, json.loads(data))
                    if not line:
                        name, data = "message", None
                case "id":
                    self.last_id = value
                case "event":
                    name = value
                case "data":
                    data = value
                case "retry":
                    self.retry_ms = int(value)
                case _:
                    raise AssertionError(f"no line of an event stream: {line!r}")

    def take(self, count: int) -> list[Event]:
        """The next events."""
        found = []
        for event in self:
            found.append(event)
            if len(found) == count:
                break
        return found

    def wait_for_id(self, last_id: str) -> None:
        """Read until a block that is no event says so."""
        for line in self._lines:
            if line == f"id: {last_id}":
                return
        raise AssertionError("the stream ended")

    def begun(self) -> str:
        """The id of the first block, which is no event."""
        for line in self._lines:
            field, _, value = line.partition(": ")
            if field == "id":
                self.last_id = value
            elif not line:
                return self.last_id
        raise AssertionError("the stream ended before it began")


@contextmanager
def reading(client: httpx.Client, path: str, last_id: str | None = None, **query: Any) -> Iterator[EventReader]:
    """A stream that has begun with success."""
    headers = {} if last_id is None else {"Last-Event-ID": last_id}
    with client.stream("GET", path, params={k.rstrip("_"): v for k, v in query.items()}, headers=headers) as response:
        if response.status_code != 200:
            response.read()
        assert response.status_code == 200, response.text
        assert response.headers["content-type"] == "text/event-stream"
        yield EventReader(response)
