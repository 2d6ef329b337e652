"""The requests of one connection that were begun; their responses leave in the order of the requests. No I/O.

As in Kafka, a connection begins its next request when the one before is answered. Requests of a pipelined API (Produce)
are the exception: they begin as they arrive, so that they share one flush.

Concurrency: one event loop.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from mainstem.broker.api import Api
from mainstem.broker.quotas.charging import Charge
from mainstem.protocol.codec import Chunks

_PENDING_MAX: Final = 100


class PendingRequest:
    """A request that was begun, with its place in the order of the responses."""

    __slots__ = ("began_s", "charge", "chunks", "is_done", "is_large", "is_pipelined", "size_bytes")

    def __init__(self, size_bytes: int, is_pipelined: bool, began_s: float) -> None:
        self.size_bytes = size_bytes
        self.is_pipelined = is_pipelined
        self.began_s = began_s
        self.charge: Charge | None = None
        self.is_done = False
        self.is_large = False
        self.chunks: Chunks = []


class PendingRequests:
    """The begun requests of a connection, the oldest first."""

    __slots__ = ("_requests",)

    def __init__(self) -> None:
        self._requests: deque[PendingRequest] = deque()

    def __len__(self) -> int:
        return len(self._requests)

    def may_begin(self, api: Api) -> bool:
        """Whether a request of ``api`` may begin now."""
        if not self._requests:
            return True
        return api.pipelined and self._requests[-1].is_pipelined and len(self._requests) < _PENDING_MAX

    def begin(self, size_bytes: int, api: Api, now_s: float) -> PendingRequest:
        """Add a request of ``size_bytes``, which begins at ``now_s``."""
        pending = PendingRequest(size_bytes, api.pipelined, now_s)
        self._requests.append(pending)
        return pending

    def take_done(self) -> tuple[Chunks, int]:
        """Remove the oldest requests, up to the first that is not done: their responses, and the bytes they held."""
        chunks: Chunks = []
        freed_bytes = 0
        while self._requests and self._requests[0].is_done:
            pending = self._requests.popleft()
            chunks += pending.chunks
            freed_bytes += pending.size_bytes
        return chunks, freed_bytes

    def clear(self) -> None:
        """Forget all of them: the connection is lost."""
        self._requests.clear()
