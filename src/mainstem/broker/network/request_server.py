"""Serves the requests of one connection, each in three steps (the numbers are in the code):

1. *Parse* the body. One with many elements is parsed in a thread.
2. *Handle* it: the quotas charge it, and the handler of its API serves it, behind the guard. A long request is served
   in slices, so that other connections are served in between.
3. *Encode* the answer; that of a long request in a thread.

The connection then sends it. A request that cannot be served closes the connection.

Concurrency: one event loop; a handler's future may be completed from it only.
"""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, Protocol, TypeAlias, cast

from mainstem.broker.api import Api
from mainstem.broker.apis import APIS
from mainstem.broker.call import Answer, Call
from mainstem.broker.dispatch import Dispatcher
from mainstem.broker.handlers.api_versions import UNSUPPORTED as UNSUPPORTED_API_VERSIONS
from mainstem.broker.handlers.sasl_authenticate import BARE_TOKEN
from mainstem.broker.later import Later
from mainstem.broker.network.pending_requests import PendingRequest
from mainstem.broker.node import Node
from mainstem.broker.quotas.charging import Charge
from mainstem.broker.security.session import NO_SESSION
from mainstem.broker.slices import serve_in_slices
from mainstem.errors import FrameError
from mainstem.logs import fields
from mainstem.protocol.apis import ApiKey
from mainstem.protocol.codec import Chunks, RequestHeader, decode_request, encode_response
from mainstem.protocol.compiler import LargeFrameError
from mainstem.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from mainstem.protocol.schema import Buffer, Message

_LOG: Final = logging.getLogger("mainstem.broker")
_AT_ONCE_ELEMENTS: Final = 2_000  # a request with more is parsed in a thread
Served: TypeAlias = asyncio.Future[Any] | Later[Any]
_UNEXPECTED: Final = "a request failed in a way that was not expected"


class Owner(Protocol):
    """The connection, as its requests use it."""

    @property
    def is_open(self) -> bool:
        """Whether responses can still be sent."""

    def answered(self, pending: PendingRequest, call: Call, answer: Answer) -> None:
        """Take the response of a request, in ``pending.chunks``."""

    def advance(self) -> None:
        """Begin the requests that may begin now."""

    def close(self, reason: str = "") -> None:
        """Close at once; ``reason`` goes to the log."""


class RequestServer:
    """Serves the requests of ``owner``, whose client has the address ``peer``; ``session`` is set once it is known."""

    def __init__(self, node: Node, dispatcher: Dispatcher, owner: Owner, peer: tuple[str, int]) -> None:
        self.session = NO_SESSION
        self._node = node
        self._dispatcher = dispatcher
        self._owner = owner
        self._peer = f"{peer[0]}:{peer[1]}"
        self._client_host = f"/{peer[0]}"
        self._tasks: set[Served] = set()
        self._logs_requests = _LOG.isEnabledFor(logging.INFO)
        self._now_s = asyncio.get_running_loop().time

    def begin(self, pending: PendingRequest, api: Api, header: RequestHeader, frame: Buffer) -> None:
        """Begin to serve a request; the owner gets its answer, at once or later. Raises FrameError."""
        if api is BARE_TOKEN:
            body = SaslAuthenticateRequest(auth_bytes=bytes(frame))
            self._handle(pending, api, Call(*header[:4], self._client_host, body, self.session))
        elif api is UNSUPPORTED_API_VERSIONS:
            # The body of an unknown version cannot be read.
            call = Call(*header[:4], self._client_host, None)
            self._answered(pending, call, cast("Message", api.handle(self._node, call)), version=0)
        else:
            self._parse(pending, api, header, frame)

    def cancel(self) -> None:
        """Cancel all that is served: the connection is lost."""
        for task in list(self._tasks):  # a callback may run at once, and takes its task out
            task.cancel()

    # ---- 1: parse

    def _parse(self, pending: PendingRequest, api: Api, header: RequestHeader, frame: Buffer) -> None:
        try:
            body = decode_request(frame, header, _AT_ONCE_ELEMENTS).body
        except LargeFrameError:
            pending.is_pipelined = False  # later requests wait until this one is parsed
            self._follow(self._parse_large(pending, api, header, frame), self._large_begun)
            return
        self._handle(pending, api, self._call(pending, header, body))

    async def _parse_large(self, pending: PendingRequest, api: Api, header: RequestHeader, frame: Buffer) -> None:
        """Parse a request with many elements while others are served; only a few are parsed at a time."""
        async with self._node.long_requests:
            request = await asyncio.to_thread(decode_request, frame, header, api.elements_max)
        if not self._owner.is_open:
            return
        pending.is_pipelined = api.pipelined
        pending.is_large = True
        self._handle(pending, api, self._call(pending, header, request.body))

    def _large_begun(self, task: Served) -> None:
        if self._has_succeeded(task):
            self._owner.advance()

    def _call(self, pending: PendingRequest, header: RequestHeader, body: Message) -> Call:
        hold = functools.partial(self._hold, pending)
        return Call(*header[:4], self._client_host, body, self.session, hold)

    def _hold(self, pending: PendingRequest) -> Callable[[], None]:
        """Begin no other request until the returned function is called, although this request is pipelined."""
        pending.is_pipelined = False

        def release() -> None:
            pending.is_pipelined = True
            self._owner.advance()

        return release

    # ---- 2: handle

    def _handle(self, pending: PendingRequest, api: Api, call: Call) -> None:
        if self._node.quotas.is_active:
            pending.charge = Charge(self._node.quotas, self._node.topics, api, call, pending.size_bytes)
            answer = pending.charge.serve(lambda: self._handled(pending, api, call))
        else:
            answer = self._handled(pending, api, call)
        if (pending.is_large or api.has_long_answer) and answer is not None:
            answer = self._encoded_in_thread(pending, call, answer)
        if answer is None or isinstance(answer, Message):
            self._answered(pending, call, answer)
            return
        self._follow(answer, lambda done: self._handled_later(pending, call, done))

    def _handled(self, pending: PendingRequest, api: Api, call: Call) -> Answer | Awaitable[Answer]:
        slices = api.slices
        if slices is not None and (asked := getattr(call.body, slices.asked)):
            items = slices.items(call.body)
            if slices.is_long(items):
                return self._in_slices(pending, api, call, items)
            if len(items) != len(asked):
                setattr(call.body, slices.asked, items)
        return self._dispatcher.serve(api, call)

    async def _in_slices(self, pending: PendingRequest, api: Api, call: Call, items: Sequence[Any]) -> Answer:
        """Serve a long request in slices; its response is encoded here, while others are served."""
        assert api.slices is not None

        def serve(part: Call) -> Answer | Awaitable[Answer]:
            return self._dispatcher.serve(api, part)

        async with self._node.long_requests:
            answer, pending.chunks = await serve_in_slices(
                call, api.slices, items, serve, self._node.settings.response_bytes_max
            )
        return answer

    def _handled_later(self, pending: PendingRequest, call: Call, task: Served) -> None:
        if self._has_succeeded(task, call):
            self._answered(pending, call, task.result())
            self._owner.advance()

    # ---- 3: encode

    @staticmethod
    async def _encoded_in_thread(pending: PendingRequest, call: Call, served: Message | Awaitable[Answer]) -> Answer:
        """The answer to a large request is large: others are served while it is encoded."""
        answer = served if isinstance(served, Message) else await served
        if answer is not None and not pending.chunks:
            pending.chunks = await asyncio.to_thread(encode_response, call, answer)
        return answer

    def _answered(self, pending: PendingRequest, call: Call, answer: Answer, version: int | None = None) -> None:
        pending.is_done = True
        seconds = self._now_s() - pending.began_s
        self._node.meters.answered(call.api_key, seconds)
        if self._logs_requests:
            level = logging.INFO if APIS[call.api_key].changes_state else logging.DEBUG
            _LOG.log(level, "request answered", extra=self._about(call, ms=round(seconds * 1000, 3)))
        if not self._owner.is_open:
            return
        if call.api_version < 0:
            pending.chunks = _bare_answer(answer)
        elif answer is not None and not pending.chunks:
            pending.chunks = encode_response(call, answer, version)
        self._owner.answered(pending, call, answer)

    # ---- what is served later

    def _follow(self, answer: Awaitable[Any], done: Callable[[Served], None]) -> None:
        """Call ``done`` when ``answer`` completes; it is cancelled when the connection is lost."""
        task = answer if isinstance(answer, Later | asyncio.Future) else asyncio.ensure_future(answer)
        self._tasks.add(task)
        task.add_done_callback(done)

    def _has_succeeded(self, task: Served, call: Call | None = None) -> bool:
        """Whether ``task`` has a result; an error in it closes the connection."""
        self._tasks.discard(task)
        if task.cancelled():
            return False
        error = task.exception()
        if isinstance(error, FrameError):
            self._owner.close(str(error))
        elif error is not None:
            about = fields(connection=self._peer) if call is None else self._about(call)
            _LOG.error("a request failed", exc_info=error, extra=about)
            self._owner.close(_UNEXPECTED)
        return error is None

    def _about(self, call: Call, **more: object) -> dict[str, Any]:
        """Return the fields of a log event: the client and the request, without the request's body."""
        return fields(
            connection=self._peer,
            api=ApiKey(call.api_key).name,
            version=call.api_version,
            client_id=call.client_id,
            principal=str(call.principal),
            **more,
        )


def _bare_answer(answer: Any) -> Chunks:
    """Return the frame that answers a bare token; empty for a refusal, which ends the connection."""
    if answer.error_code:
        return []
    token = bytes(answer.auth_bytes)
    return [len(token).to_bytes(4, "big") + token]
