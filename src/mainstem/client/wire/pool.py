"""Wire clients to be borrowed: each by one thread at a time, and kept connected for the next. Thread-safe."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from mainstem.client.wire.cluster import WireClient
from mainstem.errors import LogUnavailableError


class ClientPool:
    """As many clients as are in use at once; ``close`` closes the idle ones now and the others when they come back."""

    def __init__(self, make: Callable[[], WireClient]) -> None:
        self._make = make
        self._idle: list[WireClient] = []
        self._lock = threading.Lock()
        self._is_closed = False

    @contextmanager
    def borrow(self) -> Iterator[WireClient]:
        """A client for the block's time. Raises LogUnavailableError when the pool is closed."""
        with self._lock:
            if self._is_closed:
                raise LogUnavailableError("the client is closed")
            client = self._idle.pop() if self._idle else None
        client = client or self._make()
        try:
            yield client
        finally:
            self._give_back(client)

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
            idle, self._idle = self._idle, []
        for client in idle:
            client.close()

    def _give_back(self, client: WireClient) -> None:
        with self._lock:
            if not self._is_closed:
                self._idle.append(client)
                return
        client.close()
