"""The past states of a view that were asked for lately: each built once, however many ask, and kept for a while.

    VERSION/past/000001/   the store as of one position

Each state is built in a thread of its own, one after the other. Who asks waits for it up to a time, and may ask again:
the building goes on. At most ``STORES_MAX`` states are kept; the one that was read longest ago goes first, and one that
is being read or built stays. They are derived from the log, so nothing of them survives a restart.

Thread-safe. ``stop`` ends what is being built, and who waits for it; ``close`` comes when nobody reads any more.
"""

from __future__ import annotations

import itertools
import shutil
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from mainstem.clock import Clock
from mainstem.errors import PositionTimeoutError, UnavailableError, ViewStoppedError
from mainstem.model import Position
from mainstem.views.store import ViewStore

STORES_MAX = 4
Build: TypeAlias = Callable[[Path, Position, Callable[[Position], None]], ViewStore]


@dataclass(slots=True)
class _Past:
    """One past state. ``readers`` hold it, or wait for it; ``reached`` is how far it is built; ``used`` orders them."""

    position: Position
    path: Path
    built: Future[ViewStore] = field(default_factory=Future)
    reached: Position = field(default_factory=Position)
    readers: int = 0
    used: int = 0


class PastStores:
    """See the module."""

    def __init__(self, directory: Path, build: Build, clock: Clock, stores_max: int = STORES_MAX) -> None:
        """Deletes what an earlier process left over."""
        shutil.rmtree(directory, ignore_errors=True)
        self._directory = directory
        self._build = build
        self._clock = clock
        self._stores_max = stores_max
        self._changed = threading.Condition()
        self._building = threading.Lock()
        self._is_stopping = False
        self._kept: dict[Position, _Past] = {}
        self._threads: set[threading.Thread] = set()
        self._numbers = itertools.count(1)

    @contextmanager
    def lease(self, position: Position, timeout_s: float) -> Iterator[ViewStore]:
        """The store as of ``position``, open until the lease ends.

        Raises PositionTimeoutError when it is not built in time, UnavailableError when too many others are being read,
        ViewStoppedError when the view stops, and what the building raises.
        """
        deadline_s = self._clock.monotonic_s() + timeout_s
        past = self._take(position, deadline_s)
        try:
            try:
                store = past.built.result(max(0.0, deadline_s - self._clock.monotonic_s()))
            except TimeoutError:
                raise PositionTimeoutError(
                    f"the state as of {position} was not built in {timeout_s:g} s, and goes on being built: ask again",
                    wanted=position,
                    reached=past.reached,
                ) from None
            yield store
        finally:
            with self._changed:
                past.readers -= 1
                self._changed.notify_all()

    def forget(self) -> None:
        """Let go of what nobody reads just now: it was built from something that counts no more."""
        with self._changed:
            idle = [past for past in self._kept.values() if not past.readers and past.built.done()]
            for past in idle:
                del self._kept[past.position]
        for past in idle:
            _discard(past)

    def stop(self) -> None:
        """Let no more be built or waited for; returns when no thread builds any more. Idempotent."""
        with self._changed:
            self._is_stopping = True
            self._changed.notify_all()
            threads = tuple(self._threads)
        for thread in threads:
            thread.join()

    def close(self) -> None:
        """Delete every state, after ``stop``; nobody may read one any more. Idempotent."""
        self.stop()
        for past in self._kept.values():
            _discard(past)
        self._kept.clear()
        shutil.rmtree(self._directory, ignore_errors=True)

    def _take(self, position: Position, deadline_s: float) -> _Past:
        with self._changed:
            while True:
                if self._is_stopping:
                    raise ViewStoppedError("the view was closed")
                past = self._kept.get(position)
                if past is None:
                    past = self._begin(position)
                if past is not None:
                    past.readers += 1
                    past.used = next(self._numbers)
                    return past
                if not self._changed.wait(max(0.0, deadline_s - self._clock.monotonic_s())):
                    raise UnavailableError(f"{self._stores_max} other past states are being read: try again")

    def _begin(self, position: Position) -> _Past | None:
        """Begin to build, in the place of the state that was read longest ago; None when all are being read."""
        gone = None
        if len(self._kept) >= self._stores_max:
            idle = [past for past in self._kept.values() if not past.readers and past.built.done()]
            if not idle:
                return None
            gone = self._kept.pop(min(idle, key=lambda past: past.used).position)
        past = _Past(position, self._directory / f"{next(self._numbers):06d}")
        self._kept[position] = past
        thread = threading.Thread(target=self._run, args=(past, gone), name="past-state", daemon=True)
        self._threads.add(thread)
        thread.start()
        return past

    def _run(self, past: _Past, gone: _Past | None) -> None:
        try:
            with self._building:
                if gone is not None:
                    _discard(gone)
                self._go_on(past, Position())
                store = self._build(past.path, past.position, lambda reached: self._go_on(past, reached))
        except BaseException as error:  # noqa: BLE001 - whoever waits is told
            shutil.rmtree(past.path, ignore_errors=True)
            with self._changed:
                self._kept.pop(past.position, None)
            past.built.set_exception(error)
        else:
            past.built.set_result(store)
        with self._changed:
            self._threads.discard(threading.current_thread())
            self._changed.notify_all()

    def _go_on(self, past: _Past, reached: Position) -> None:
        if self._is_stopping:
            raise ViewStoppedError("the view was closed")
        past.reached = reached


def _discard(past: _Past) -> None:
    if past.built.exception() is None:
        past.built.result().close()
    shutil.rmtree(past.path, ignore_errors=True)
