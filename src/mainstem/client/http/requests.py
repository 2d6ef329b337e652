"""Ask by request and reply over HTTP: ``requests("localhost:8080")["quotes"].ask({"from": "EWR"}).value``.

A request is a record of its topic, and stays in the log until a worker answers it: what is not answered in time is not
lost, ``look`` finds its reply later, also through another gateway. An error behind the gateway is raised here as the
same class (``mainstem.problems``): RequestFailedError with what the worker says, UnknownTopicError, RequestExpiredError
…; a gateway that cannot be reached is a LogUnavailableError. After that, and after an OutcomeUnknownError, the request
may have been made; with an idempotency key it can be repeated.

Thread-safe: each thread keeps a connection of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

from mainstem.client.http.http import JsonHttp
from mainstem.client.http.request_reply import RequestId
from mainstem.errors import UnavailableError
from mainstem.model import Position

_MORE_S: Final = 30.0
"""So much longer than the gateway's own wait a connection is given."""


@dataclass(frozen=True, slots=True)
class Reply:
    """A worker's answer; ``position`` is just after it, in the topic of the replies."""

    value: Any
    headers: dict[str, str | None]
    position: Position


@dataclass(frozen=True, slots=True)
class Asked:
    """A request that is in the log; ``reply`` is None while no worker has answered it.

    ``id`` is the argument of ``look``; everyone who knows it can read the reply. ``position`` is just after the
    request.
    """

    id: str
    position: Position
    reply: Reply | None

    @property
    def value(self) -> Any:
        """The reply's value. Raises UnavailableError while there is none."""
        if self.reply is None:
            raise UnavailableError(f"not answered yet; look again: requests(url).look({self.id!r}, timeout=30)")
        return self.reply.value


class TopicRequests:
    """The requests of one topic."""

    def __init__(self, http: JsonHttp, topic: str) -> None:
        self.topic = topic
        self._http = http
        self._path = f"/topics/{quote(topic, safe='')}/requests"

    def ask(
        self,
        value: Any,
        *,
        key: str | None = None,
        headers: Mapping[str, str | None] | None = None,
        timeout: float = 30.0,
        idempotency_key: str | None = None,
    ) -> Asked:
        """Append a request and wait for its reply.

        Args:
            value: What the worker gets, as JSON.
            key: The record's key, which decides on its partition.
            headers: The record's headers.
            timeout: How many seconds to wait, at most 300; 0 waits for none.
            idempotency_key: With it the request is appended once, however often it is asked, where the topic's
                ``mainstem.idempotency.window.ms`` allows it.

        Returns:
            The request, with its reply if one came in time.

        Raises:
            RequestFailedError: The worker's function raised an error.
            UnknownTopicError: There is no such topic.
            LogUnavailableError: The gateway or the log cannot be reached.

        Examples:
            >>> asked = requests["orders"].ask({"id": 1}, timeout=0)
            >>> asked.reply is None
            True
        """
        body = {"value": value, "headers": dict(headers or {}), "timeout_s": timeout}
        if key is not None:
            body["key"] = key
        more = {} if idempotency_key is None else {"Idempotency-Key": idempotency_key}
        return _asked(
            self._http.call(
                "POST",
                self._path,
                body=body,
                timeout_s=timeout + _MORE_S,
                headers=more,
                repeats=idempotency_key is not None,
            )
        )


class RequestClient:
    """Request and reply through one gateway; ``client["quotes"]`` are the requests of a topic."""

    def __init__(self, url: str, *, token: str | None = None) -> None:
        """Connect to nothing yet.

        Args:
            url: The gateway; ``host:port`` is enough.
            token: The bearer token, where the gateway asks for one; the variable ``MAINSTEM_TOKEN`` unless given.

        Raises:
            ConfigError: The URL is no HTTP address, or the token is none.
        """
        self._http = JsonHttp(url, token=token)

    def __getitem__(self, topic: str) -> TopicRequests:
        return TopicRequests(self._http, topic)

    def look(self, request_id: str, *, timeout: float = 0.0) -> Asked:
        """The state of a request.

        Args:
            request_id: The ``id`` of what ``ask`` returned.
            timeout: How many seconds to wait for its reply, at most 300.

        Returns:
            The request, with its reply if there is one.

        Raises:
            UnknownRequestError: There is no such request.
            RequestExpiredError: The log has removed the request or its reply.
            RequestFailedError: The worker's function raised an error.

        Examples:
            >>> asked = requests["orders"].ask({"id": 2}, timeout=0)
            >>> requests.look(asked.id).position == asked.position
            True
        """
        path = f"/requests/{RequestId.parse(request_id)}"
        return _asked(self._http.call("GET", path, {"timeout": timeout}, timeout_s=timeout + _MORE_S))

    def close(self) -> None:
        """Close this thread's connection."""
        self._http.close()


def requests(url: str = "http://127.0.0.1:8080", *, token: str | None = None) -> RequestClient:
    """Request and reply through the gateway at ``url``; ``host:port`` is enough. Connects to nothing yet.

    ``token`` is the bearer token, where the gateway asks for one; the variable ``MAINSTEM_TOKEN`` unless given.
    """
    return RequestClient(url, token=token)


def _asked(document: Mapping[str, Any]) -> Asked:
    found = document.get("reply")
    reply = None
    if found is not None:
        headers = {header["name"]: header.get("value") for header in found["headers"]}
        reply = Reply(found["value"], headers, Position.parse(found["position"]))
    return Asked(document["id"], Position.parse(document["position"]), reply)
