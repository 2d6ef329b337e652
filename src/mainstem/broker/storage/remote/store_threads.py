"""``StoreThreads``: work for the disk and the store in daemon threads, which is given up when it does not go on.

A request to a store may hang for ever, and a thread cannot be ended. So its work is given up: the thread stays, and
what it does later counts for nothing. ``_HANGING_MAX`` such threads are allowed; then all work for the store is refused
until one of them ends.

Concurrency: on the event loop; ``WorkProgress`` is shared with one thread.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Final, TypeVar

from mainstem.errors import UnavailableError

_HANGING_MAX: Final = 16
_Found = TypeVar("_Found")


class WorkProgress:
    """When work has gone on last. It is given up after ``within_s`` without a step."""

    def __init__(self, within_s: float) -> None:
        self.within_s = within_s
        self._at_s = time.monotonic()

    def step(self) -> None:
        """The work goes on."""
        self._at_s = time.monotonic()

    @property
    def left_s(self) -> float:
        """The time until it is given up."""
        return self._at_s + self.within_s - time.monotonic()


class StoreThreads:
    """Of one node."""

    def __init__(self) -> None:
        self._hanging: set[threading.Thread] = set()

    async def run(self, work: Callable[[], _Found], progress: WorkProgress | None = None) -> _Found:
        """The result of ``work``; with a ``progress`` it is work for the store.

        Raises the error of the work, and UnavailableError when it does not go on.
        """
        self._hanging = {each for each in self._hanging if each.is_alive()}
        if progress is not None and len(self._hanging) >= _HANGING_MAX:
            raise UnavailableError(f"the store does not answer: {len(self._hanging)} requests hang")
        loop = asyncio.get_running_loop()
        done: asyncio.Future[_Found] = loop.create_future()

        def run() -> None:
            try:
                end = partial(_set_result, done, work())
            except BaseException as error:  # noqa: BLE001 - raised where it is awaited
                end = partial(_set_exception, done, error)
            with suppress(RuntimeError):  # the loop has ended meanwhile
                loop.call_soon_threadsafe(end)

        thread = threading.Thread(target=run, name="remote segments", daemon=True)
        thread.start()
        if progress is None:
            return await done
        while not done.done() and (left_s := progress.left_s) > 0:
            await asyncio.wait([done], timeout=left_s)
        if done.done():
            return done.result()
        done.cancel()
        self._hanging.add(thread)
        raise UnavailableError(f"the store has not gone on for {progress.within_s:g} s")


def _set_result(done: asyncio.Future[_Found], result: _Found) -> None:
    if not done.done():
        done.set_result(result)


def _set_exception(done: asyncio.Future[_Found], error: BaseException) -> None:
    if not done.done():
        done.set_exception(error)
