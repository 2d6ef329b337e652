"""The recently requested past states of a view: each is built once for all its readers, and kept for a while.

    VERSION/past/000001/   the store as of one position

Each state is built in its own thread, one after the other. A reader waits for it up to its time-out, and may ask again:
the build goes on. At most ``STORES_MAX`` states are kept; the least recently read one is removed first, and one that is
being read or built stays. They are derived from the log, and do not survive a restart. A reader takes all states that
it needs at once: readers that each held one and waited for another would deadlock.

Thread-safe. ``stop`` ends all builds, and the readers that wait for them; call ``close`` when no reader is left.
"""

from __future__ import annotations

import itertools
import shutil
import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from mainstem.clock import Clock
from mainstem.errors import PositionTimeoutError, UnavailableError, ViewStoppedError
from mainstem.model import Position
from mainstem.views.stores.store import ViewStore

STORES_MAX = 4
Build: TypeAlias = Callable[[Path, Position, Callable[[Position], None]], ViewStore]


class _ForgottenError(Exception):
    """The state being built is out of date. Used in this module only."""


@dataclass(slots=True)
class _Past:
    """One past state. ``readers`` hold it, or wait for it; ``reached`` is how far it is built; ``used`` orders states.

    ``is_forgotten``: it is out of date, and is removed when its last reader and its build have ended.
    """

    position: Position
    path: Path
    built: Future[ViewStore] = field(default_factory=Future)
    reached: Position = field(default_factory=Position)
    readers: int = 0
    used: int = 0
    is_forgotten: bool = False


class HistoricalStores:
    """The past states of one version of a view."""

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
        self._forgotten: list[_Past] = []
        self._threads: set[threading.Thread] = set()
        self._numbers = itertools.count(1)

    @contextmanager
    def lease(self, positions: Collection[Position], timeout_s: float) -> Iterator[Mapping[Position, ViewStore]]:
        """The stores as of some positions, at most ``STORES_MAX``, open until the lease ends.

        Raises PositionTimeoutError when one is not built in time, UnavailableError when too many others are being read,
        ViewStoppedError when the view stops, and what the building raises.
        """
        deadline_s = self._clock.monotonic_s() + timeout_s
        taken: list[_Past] = []
        try:
            while True:
                taken = self._take(frozenset(positions), deadline_s)
                stores = self._built(taken, timeout_s, deadline_s)
                if stores is not None:
                    break
                self._release(taken)
            yield stores
        finally:
            self._release(taken)

    def forget(self) -> None:
        """Drop all states, because the data that they were built from is out of date.

        A state that is being read is removed when its readers return it. A state that is being built is built again
        for the readers that wait for it.
        """
        with self._changed:
            for past in self._kept.values():
                past.is_forgotten = True
            self._forgotten += self._kept.values()
            self._kept.clear()
        self._discard_forgotten()

    def stop(self) -> None:
        """End all builds and waits, and refuse new ones; returns when no thread builds any more. Idempotent."""
        with self._changed:
            self._is_stopping = True
            self._changed.notify_all()
            threads = tuple(self._threads)
        for thread in threads:
            thread.join()

    def close(self) -> None:
        """Delete every state, after ``stop``; no reader may hold one. Idempotent."""
        self.stop()
        for past in (*self._kept.values(), *self._forgotten):
            _discard(past)
        self._kept.clear()
        self._forgotten.clear()
        shutil.rmtree(self._directory, ignore_errors=True)

    def _built(self, taken: list[_Past], timeout_s: float, deadline_s: float) -> Mapping[Position, ViewStore] | None:
        """The stores, when they are built; None when they were forgotten meanwhile. Raises as ``lease`` does."""
        stores = {}
        for past in taken:
            try:
                stores[past.position] = past.built.result(max(0.0, deadline_s - self._clock.monotonic_s()))
            except _ForgottenError:
                return None
            except TimeoutError:
                raise PositionTimeoutError(
                    f"the state as of {past.position} was not built in {timeout_s:g} s, and goes on being built: ask "
                    "again",
                    wanted=past.position,
                    reached=past.reached,
                ) from None
        return None if any(past.is_forgotten for past in taken) else stores

    def _release(self, taken: list[_Past]) -> None:
        with self._changed:
            for past in taken:
                past.readers -= 1
            taken.clear()
            self._changed.notify_all()
        self._discard_forgotten()

    def _discard_forgotten(self) -> None:
        with self._changed:
            gone = [past for past in self._forgotten if not past.readers and past.built.done()]
            self._forgotten = [past for past in self._forgotten if past not in gone]
        for past in gone:
            _discard(past)

    def _take(self, positions: frozenset[Position], deadline_s: float) -> list[_Past]:
        """All of them or, while others are being read, none."""
        with self._changed:
            while True:
                if self._is_stopping:
                    raise ViewStoppedError("the view was closed")
                idle = [past for past in self._idle() if past.position not in positions]
                missing = [position for position in positions if position not in self._kept]
                if len(missing) <= self._stores_max - len(self._kept) + len(idle):
                    break
                if not self._changed.wait(max(0.0, deadline_s - self._clock.monotonic_s())):
                    raise UnavailableError(f"{self._stores_max} other past states are being read: try again")
            taken = [self._kept[position] for position in positions if position in self._kept]
            for past in taken:
                past.readers += 1
            taken += [self._begin(position) for position in missing]
            for past in taken:
                past.used = next(self._numbers)
            return taken

    def _idle(self) -> list[_Past]:
        return [past for past in self._kept.values() if not past.readers and past.built.done()]

    def _begin(self, position: Position) -> _Past:
        """Begin to build, for one reader, in the place of the state that was read longest ago."""
        gone = None
        if len(self._kept) >= self._stores_max:
            gone = self._kept.pop(min(self._idle(), key=lambda past: past.used).position)
        past = _Past(position, self._directory / f"{next(self._numbers):06d}", readers=1)
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
        except BaseException as error:  # noqa: BLE001 - raised to the readers that wait
            shutil.rmtree(past.path, ignore_errors=True)
            with self._changed:
                if self._kept.get(past.position) is past:
                    del self._kept[past.position]
            past.built.set_exception(error)
        else:
            past.built.set_result(store)
        with self._changed:
            self._threads.discard(threading.current_thread())
            self._changed.notify_all()
        self._discard_forgotten()

    def _go_on(self, past: _Past, reached: Position) -> None:
        if self._is_stopping:
            raise ViewStoppedError("the view was closed")
        if past.is_forgotten:
            raise _ForgottenError
        past.reached = reached


def _discard(past: _Past) -> None:
    if past.built.exception() is None:
        past.built.result().close()
    shutil.rmtree(past.path, ignore_errors=True)
