"""The first check of every request, before it is parsed: limits, and protection from other web pages.

* At most ``requests_max`` requests are served at once, and their bodies together hold at most ``bodies_bytes_max``;
  others get 503. One body holds at most ``body_bytes_max`` (413), by its Content-Length or as counted while it
  arrives, and must not pause for longer than ``body_pause_s`` (408).
* Unsent answers hold at most ``answers_bytes_max`` together (503). An answer goes out in pieces of ``PIECE_BYTES``, so
  that a client that does not read is noticed (``request_heads`` closes such connections).
* Requests that only read (GET, HEAD) must not have a body (400): they may wait or stream for long, and would hold the
  memory of their body meanwhile.
* Event streams and long polls are counted separately, because they last: at most ``streams_max`` are served (503).
* A browser lets any page send simple requests to loopback. So a request must name one of the served host names (421:
  DNS rebinding), and a request that changes something must not come from another page (403: its Origin is another
  host, and not one of ``origins``). A websocket must come from one of our own pages, and is refused before it is
  accepted; at most ``websockets_max`` are open at once (503).
* A request that is cancelled because the process stops and its grace period is over gets 503. An append gets 504: its
  outcome is unknown, because its record may be in the log.

Plain ASGI, one instance for each app, used by one event loop: its counters need no lock.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final
from urllib.parse import unquote_to_bytes, urlsplit

from mainstem.errors import OutcomeUnknownError, UnavailableError
from mainstem.gateway.access.limits import GatewayLimits
from mainstem.gateway.http.problem_responses import HttpError, error_response, http_problem

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
AsgiApp = Callable[[Scope, Receive, Send], Awaitable[None]]

PIECE_BYTES: Final = 256 << 10
_STREAM = re.compile(r"/(?:topics|views)/[^/]+/stream")
_LIVE = re.compile(rb"(?:.*&)?live=")
_DATA = re.compile(
    r"/(?:topics|views|streams|requests|pipelines|groups|metrics|clients|config|registry|subjects|schemas|mode|contexts|apis|"
    r"users|acls|tokens|whoami|history|health|dead-letters)(?:/.*)?",
    re.DOTALL,
)
_OTHER_SITES = frozenset({"cross-site", "same-site"})  # same-site: another port of this host
_ONCE = (b"host", b"origin", b"sec-fetch-site")
_APPEND = re.compile(r"/topics/[^/]+/(?:records|requests)|/streams/[^/]+/.*", re.DOTALL)
_SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
_UPGRADE = "websocket"  # treated like an unsafe method


class RequestLimits:
    """ASGI middleware that keeps ``GatewayLimits``."""

    def __init__(self, app: AsgiApp, limits: GatewayLimits) -> None:
        self._app = app
        self._limits = limits
        self._requests = 0
        self._streams = 0
        self._stream_files = 0
        self._websockets = 0
        self._bodies_bytes = 0
        self._answers_bytes = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await self._websocket(scope, receive, send)
            return
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = _headers(scope)
        files = _files_of_stream(scope)
        refusal = _ambiguous(scope) or self._refusal(scope, headers) or self._full(files) or _unreadable(scope)
        if refusal is not None:
            await http_problem(refusal.status, str(refusal))(scope, receive, send)
            return
        body = _CountedBody(self, receive)
        answer = _CountedAnswer(self, scope, receive, send)
        self._count(files, 1)
        try:
            await _answered_when_cancelled(self._app, scope, body.receive, send if files else answer.send)
        finally:
            self._count(files, -1)
            self._bodies_bytes -= body.size_bytes

    async def _websocket(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Accept a websocket only from our own pages, because a page that opens one can also send on it."""
        refusal = _ambiguous(scope) or self._wrong_origin(_UPGRADE, _headers(scope)) or _unreadable(scope)
        if refusal is None and self._websockets >= self._limits.websockets_max:
            refusal = HttpError(
                503, f"{self._websockets} websockets are open already; close a page, or try again later"
            )
        if refusal is not None:
            await receive()  # the request to connect, which is answered instead of accepted
            await http_problem(refusal.status, str(refusal))(scope, receive, send)
            return
        self._websockets += 1
        try:
            await self._app(scope, receive, send)
        finally:
            self._websockets -= 1

    def _refusal(self, scope: Scope, headers: dict[str, str]) -> HttpError | None:
        """Why this request is not even looked at; None when it may pass."""
        limits, method = self._limits, scope["method"]
        refusal = self._wrong_origin(method, headers) or self._cross_site_read(scope["path"], headers)
        if refusal is not None:
            return refusal
        length = headers.get("content-length", "0")
        if method in _SAFE_METHODS and (length.strip("0") or "transfer-encoding" in headers):
            return HttpError(400, f"{method} takes no body; the path and the query say what you ask for")
        if length.isdecimal() and int(length[:20]) > limits.body_bytes_max:
            return self.too_large()
        return None

    def _full(self, files: int) -> HttpError | None:
        """Why a request, or a stream of so many files, is one too many."""
        limits = self._limits
        if files and (self._streams >= limits.streams_max or self._stream_files + files > limits.stream_files_max):
            return HttpError(503, f"the limit of streams is reached: {self._streams} are open; try again later")
        if not files and self._requests >= limits.requests_max:
            return HttpError(503, f"{limits.requests_max} requests are being served already; try again in a moment")
        return None

    def _count(self, files: int, change: int) -> None:
        if files:
            self._streams += change
            self._stream_files += files * change
        else:
            self._requests += change

    def _wrong_origin(self, method: str, headers: dict[str, str]) -> HttpError | None:
        """Why a request under another name, or out of another page, is refused."""
        host = _host_name(headers.get("host", ""))
        if self._limits.host_names is not None and host not in self._limits.host_names:
            return HttpError(
                421,
                f"the host name {host[:100]!r} is not served here; use localhost or 127.0.0.1, or start it with "
                "--http-name for the name of a proxy",
            )
        origin = headers.get("origin")
        if origin is None or method in _SAFE_METHODS or not _is_foreign(origin, headers):
            return None
        if method == _UPGRADE or not self._limits.allows_origin(origin):
            return HttpError(403, f"a page of {origin[:100]!r} may not change anything here")
        return None

    def _cross_site_read(self, path: str, headers: dict[str, str]) -> HttpError | None:
        """Why data is refused to a page of another site, as its browser says."""
        origin = headers.get("origin")
        if headers.get("sec-fetch-site") not in _OTHER_SITES or _DATA.fullmatch(path) is None:
            return None
        if origin is not None and self._limits.allows_origin(origin):
            return None
        return HttpError(403, "a page of another site may not ask for data here; name its origin with --cors-origin")

    def too_large(self) -> HttpError:
        """The refusal of a body that is over the limit."""
        return HttpError(413, f"the body is larger than {self._limits.body_bytes_max} bytes; send it in parts")

    def admit(self, body_bytes: int, more_bytes: int) -> None:
        """Take ``more_bytes`` of one body, which then holds ``body_bytes``. Raises HttpError over a limit."""
        if body_bytes > self._limits.body_bytes_max:
            raise self.too_large()
        if self._bodies_bytes + more_bytes > self._limits.bodies_bytes_max:
            raise HttpError(503, "too many large bodies are being received; try again in a moment")
        self._bodies_bytes += more_bytes

    def hold(self, answer_bytes: int) -> bool:
        """Take room for a part of an answer; False when there is none."""
        if self._answers_bytes + answer_bytes > self._limits.answers_bytes_max:
            return False
        self._answers_bytes += answer_bytes
        return True

    def release(self, answer_bytes: int) -> None:
        """Give the room of a part of an answer back."""
        self._answers_bytes -= answer_bytes

    @property
    def body_pause_s(self) -> float:
        """How long a body may pause."""
        return self._limits.body_pause_s


class _CountedBody:
    """One request's body on its way in."""

    def __init__(self, limits: RequestLimits, receive: Receive) -> None:
        self._limits = limits
        self._receive = receive
        self._complete = False
        self.size_bytes = 0

    async def receive(self) -> Message:
        if self._complete:
            return await self._receive()  # from now on only a disconnect can come
        try:
            message = await asyncio.wait_for(self._receive(), self._limits.body_pause_s)
        except TimeoutError:
            raise HttpError(408, f"nothing of the body arrived for {self._limits.body_pause_s:g} s") from None
        more_bytes = len(message.get("body", b""))
        self._limits.admit(self.size_bytes + more_bytes, more_bytes)
        self.size_bytes += more_bytes
        self._complete = not message.get("more_body", False)
        return message


class _CountedAnswer:
    """One request's answer on its way out. Its head waits for the first part of its body, which may be refused."""

    def __init__(self, limits: RequestLimits, scope: Scope, receive: Receive, send: Send) -> None:
        self._limits = limits
        self._scope = scope
        self._receive = receive
        self._send = send
        self._head: Message | None = None
        self._is_refused = False

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._head = message
            return
        content = message.get("body", b"")
        if message["type"] != "http.response.body" or self._is_refused:
            if not self._is_refused:
                await self._send(message)
        elif self._limits.hold(len(content)):
            try:
                await self._send_in_pieces(content, more=message.get("more_body", False))
            finally:
                self._limits.release(len(content))
        else:
            await self._refuse()

    async def _send_in_pieces(self, content: bytes, *, more: bool) -> None:
        await self._send_head()
        for start in range(0, max(1, len(content)), PIECE_BYTES):
            piece = content[start : start + PIECE_BYTES]
            is_last = start + PIECE_BYTES >= len(content)
            await self._send({"type": "http.response.body", "body": piece, "more_body": more or not is_last})

    async def _send_head(self) -> None:
        head, self._head = self._head, None
        if head is not None:
            await self._send(head)

    async def _refuse(self) -> None:
        if self._head is None:  # it has begun: a client sees that its end is missing
            raise UnavailableError("too many large answers are being sent; try again in a moment")
        self._is_refused = True
        refusal = http_problem(503, "too many large answers are being sent; try again in a moment")
        await refusal(self._scope, self._receive, self._send)


async def _answered_when_cancelled(app: AsgiApp, scope: Scope, receive: Receive, send: Send) -> None:
    """Serve a request; one that the server cancels gets an answer as long as it has none."""
    has_begun = False

    async def watched(message: Message) -> None:
        nonlocal has_begun
        has_begun = True
        await send(message)

    try:
        await app(scope, receive, watched)
    except asyncio.CancelledError:
        if has_begun:
            raise
        await error_response(_stopping(scope))(scope, receive, send)


def _stopping(scope: Scope) -> UnavailableError:
    if scope["method"] == "POST" and _APPEND.fullmatch(scope["path"]):
        return OutcomeUnknownError("the gateway stops before the log has answered: the record may be appended, or not")
    return UnavailableError("the server stops; ask again in a moment")


def _is_foreign(origin: str, headers: dict[str, str]) -> bool:
    try:
        return urlsplit(origin).netloc != headers.get("host")
    except ValueError:
        return True


def _files_of_stream(scope: Scope) -> int:
    """How many open files an event stream, or a live read of a durable stream, takes; 0: the request ends soon."""
    path = scope["path"]
    if scope["method"] != "GET":
        return 0
    if path.startswith("/streams/"):
        return int(_LIVE.match(scope["query_string"]) is not None)
    if _STREAM.fullmatch(path) is None:
        return 0
    return 2 if path.startswith("/views/") else 1  # a view's stream comes from its host, by a connection of its own


def _headers(scope: Scope) -> dict[str, str]:
    return {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}


def _ambiguous(scope: Scope) -> HttpError | None:
    """A header that access depends on must occur once; else a proxy and this process could read different ones."""
    names = [name.lower() for name, _ in scope["headers"]]
    for name in _ONCE:
        if names.count(name) > 1:
            return HttpError(400, f"the request has {names.count(name)} {name.decode().title()} headers: send one")
    if b"host" not in names and scope.get("http_version") == "1.1":
        return HttpError(400, "the request has no Host header: send one")
    return None


def _unreadable(scope: Scope) -> HttpError | None:
    """The framework reads what is not UTF-8 as replacement characters: it would look for another key than was asked."""
    for part in (scope.get("raw_path") or b"", scope["query_string"]):
        try:
            unquote_to_bytes(part).decode()
        except UnicodeDecodeError:
            return HttpError(400, "the path or the query is not UTF-8 text after percent-decoding")
    return None


def _host_name(host: str) -> str:
    """The name in a Host header, without its port and brackets."""
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0].lower()
