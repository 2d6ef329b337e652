"""One timer for each group; it fires at the group's next deadline. Concurrency: the event loop only."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable
from typing import Final, NamedTuple

from mainstem.clock import Clock
from mainstem.errors import MainstemError


class Timer(NamedTuple):
    """A scheduled call, and its time by the event loop's clock. A handle of uvloop has no ``when`` for a call that is
    due within the same millisecond.
    """

    due_s: float
    handle: asyncio.Handle

    @classmethod
    def after(cls, delay_s: float, call: Callable[..., None], *arguments: object) -> Timer:
        """A call in ``delay_s`` seconds from now."""
        loop = asyncio.get_running_loop()
        return cls(loop.time() + delay_s, loop.call_later(delay_s, call, *arguments))

    def is_due_by(self, delay_s: float) -> bool:
        """Whether it is due within ``delay_s`` seconds from now."""
        return self.due_s <= asyncio.get_running_loop().time() + delay_s

    def cancel(self) -> None:
        """Cancel it."""
        self.handle.cancel()


_LOG: Final = logging.getLogger("mainstem.broker.coordinator")
NEVER: Final = math.inf
"""The deadline of what does not end by itself."""
_RETRY_S: Final = 1.0
"""After this time a step that the clock asked for, and whose records the disk refused, is tried again."""


class GroupTimers:
    """Calls ``expire`` with a group's id when its time has come; deadlines are seconds of the monotonic clock."""

    def __init__(self, clock: Clock, expire: Callable[[str], None]) -> None:
        self._clock = clock
        self._expire = expire
        self._timers: dict[str, Timer] = {}

    def watch(self, group_id: str, deadline_s: float) -> None:
        """See that the group is looked at by ``deadline_s``: a timer that is earlier is left as it is."""
        if deadline_s == NEVER:
            self.forget(group_id)
            return
        delay_s = max(0.0, deadline_s - self._clock.monotonic_s())
        timer = self._timers.get(group_id)
        if timer is not None:
            if timer.is_due_by(delay_s):
                return
            timer.cancel()
        self._timers[group_id] = Timer.after(delay_s, self._due, group_id)

    def forget(self, group_id: str) -> None:
        """The group has no deadline any more."""
        timer = self._timers.pop(group_id, None)
        if timer is not None:
            timer.cancel()

    def stop(self) -> None:
        """Forget all of them."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    def _due(self, group_id: str) -> None:
        self._timers.pop(group_id, None)
        try:
            self._expire(group_id)
        except MainstemError as error:
            _LOG.error("group %r: a time-out could not be written, and is tried again: %s", group_id, error)
            self.watch(group_id, self._clock.monotonic_s() + _RETRY_S)
