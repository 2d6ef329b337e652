"""Connected things to be borrowed: each by one thread at a time, and kept for the next. Thread-safe.

A client that an interrupt (ctrl-C) leaves in the middle of a request is closed, and not lent again: the response may
still arrive.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Generic, Protocol, TypeVar

from mainstem.errors import LogUnavailableError


class Closable(Protocol):
    """An object that a pool lends."""

    def close(self) -> None: ...


C = TypeVar("C", bound=Closable)


class Pool(Generic[C]):
    """Holds as many objects as are in use at once. ``close`` closes all, also those in use: another thread calls it,
    and a thread that waits on one must not delay the end of the program.
    """

    def __init__(self, make: Callable[[], C]) -> None:
        self._make = make
        self._idle: list[C] = []
        self._lent: list[C] = []
        self._lock = threading.Lock()
        self._is_closed = False

    @contextmanager
    def borrow(self) -> Iterator[C]:
        """One for the block's time. Raises LogUnavailableError when the pool is closed."""
        with self._lock:
            if self._is_closed:
                raise LogUnavailableError("the client is closed")
            lent = self._idle.pop() if self._idle else None
        lent = lent or self._make()
        self._lend(lent)
        try:
            yield lent
        except Exception:
            self._give_back(lent)
            raise
        except BaseException:
            self._take_back(lent)
            lent.close()
            raise
        self._give_back(lent)

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
            known, self._idle = [*self._idle, *self._lent], []
        for lent in known:
            lent.close()

    def _lend(self, lent: C) -> None:
        with self._lock:
            self._lent.append(lent)
            if not self._is_closed:
                return
        lent.close()  # the pool was closed meanwhile, without this one

    def _take_back(self, lent: C) -> None:
        with self._lock:
            self._lent = [other for other in self._lent if other is not lent]

    def _give_back(self, lent: C) -> None:
        self._take_back(lent)
        with self._lock:
            if not self._is_closed:
                self._idle.append(lent)
                return
        lent.close()
