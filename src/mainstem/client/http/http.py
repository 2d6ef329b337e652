"""JSON over HTTP with the standard library: one kept connection for each thread, problems raised as errors.

Thread-safe. A request over a kept connection that the server has closed meanwhile is sent once more, unless it must not
be repeated: that one goes over a connection of its own.
"""

from __future__ import annotations

import http.client
import json
import os
import re
import threading
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlencode, urlsplit

from mainstem.client.values import json_text
from mainstem.errors import ConfigError, FrameError, LogUnavailableError, QueryError
from mainstem.problems import error_from_problem
from mainstem.tracing.spans import request_headers

TOKEN_VARIABLE: Final = "MAINSTEM_TOKEN"
_TIMEOUT_S: Final = 30.0
_TOKEN = re.compile(r"[\x21-\x7e]{1,500}")


class JsonHttp:
    """A server of JSON at one address."""

    def __init__(self, url: str, *, token: str | None = None, answer_bytes_max: int | None = None) -> None:
        """``url`` is ``http://host:port`` or ``host:port``; ``token`` is what the environment says unless given.
        ``answer_bytes_max``: a longer answer is a QueryError.

        Raises ConfigError.
        """
        token = os.environ.get(TOKEN_VARIABLE) if token is None else token
        if token and _TOKEN.fullmatch(token) is None:
            raise ConfigError("a token has no spaces, and no characters but ASCII's: see that it was copied whole")
        self._authorization = {"Authorization": f"Bearer {token}"} if token else {}
        text = url if "://" in url else f"http://{url}"
        parts = urlsplit(text)
        try:
            port = parts.port
        except ValueError:
            port = -1
        if parts.scheme not in ("http", "https") or not parts.hostname or port == -1 or parts.query or parts.fragment:
            raise ConfigError(f"invalid gateway address {url!r}: give it as http://HOST:PORT")
        self._answer_bytes_max = answer_bytes_max
        self.url = text.rstrip("/")
        self._prefix = parts.path.rstrip("/")
        self._is_secure = parts.scheme == "https"
        self._host, self._port = parts.hostname, port
        self._local = threading.local()

    def call(
        self,
        method: str,
        path: str,
        query: Mapping[str, Any] | None = None,
        body: Any = None,
        timeout_s: float = _TIMEOUT_S,
        *,
        headers: Mapping[str, str] | None = None,
        repeats: bool = True,
    ) -> dict[str, Any]:
        """The JSON object that the server answers; parameters that are None are left out, lists are repeated.

        ``repeats``: whether the request may be sent twice.

        Raises the error of a problem document, and LogUnavailableError when there is no answer.
        """
        parameters = {name: value for name, value in (query or {}).items() if value is not None}
        target = self._prefix + path + (f"?{urlencode(parameters, doseq=True)}" if parameters else "")
        if not repeats:
            self.close()  # over a new connection it is never sent again
        status, data = self._exchange(method, target, body, timeout_s, headers or {})
        document = self._document(status, data)
        if status >= 400:
            raise error_from_problem({"status": status, **document})
        return document

    def close(self) -> None:
        """Close this thread's connection."""
        connection: http.client.HTTPConnection | None = getattr(self._local, "connection", None)
        if connection is not None:
            connection.close()
            del self._local.connection

    def _exchange(
        self, method: str, target: str, body: Any, timeout_s: float, more: Mapping[str, str]
    ) -> tuple[int, bytes]:
        data = None if body is None else json_text(body).encode()
        headers = {"Accept": "application/json", **request_headers(), **self._authorization, **more}
        if data is not None:
            headers["Content-Type"] = "application/json"
        is_kept = getattr(self._local, "connection", None) is not None
        try:
            try:
                return self._send(method, target, data, headers, timeout_s)
            except (http.client.RemoteDisconnected, ConnectionError):
                self.close()
                if not is_kept:
                    raise
                return self._send(method, target, data, headers, timeout_s)
        except TimeoutError as error:
            self.close()
            raise LogUnavailableError(f"{self.url} did not answer within {timeout_s:g} s") from error
        except (OSError, http.client.HTTPException) as error:
            self.close()
            reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
            raise LogUnavailableError(f"{self.url} cannot be reached: {reason}; is the gateway running?") from error

    def _send(
        self, method: str, target: str, data: bytes | None, headers: dict[str, str], timeout_s: float
    ) -> tuple[int, bytes]:
        connection = self._connection(timeout_s)
        connection.request(method, target, data, headers)
        response = connection.getresponse()
        bound = self._answer_bytes_max
        answer = response.read(None if bound is None else bound + 1)
        if bound is not None and len(answer) > bound:
            self.close()
            raise QueryError(f"the answer of {self.url} has over {bound} bytes: ask for less")
        if response.will_close:
            self.close()
        return response.status, answer

    def _connection(self, timeout_s: float) -> http.client.HTTPConnection:
        connection: http.client.HTTPConnection | None = getattr(self._local, "connection", None)
        if connection is None:
            kind = http.client.HTTPSConnection if self._is_secure else http.client.HTTPConnection
            connection = self._local.connection = kind(self._host, self._port, timeout=timeout_s)
        connection.timeout = timeout_s
        if connection.sock is not None:
            connection.sock.settimeout(timeout_s)
        return connection

    def _document(self, status: int, data: bytes) -> dict[str, Any]:
        try:
            document = json.loads(data)
        except ValueError:
            document = None
        if isinstance(document, dict):
            return document
        if status >= 400:
            return {"detail": f"{self.url} answered with HTTP status {status}"}
        raise FrameError(f"{self.url} did not answer with a JSON object; is it a Mainstem gateway?")
