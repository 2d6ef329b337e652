"""Blocking work off the event loop, in a bounded number of threads.

One ``Workers`` for each thing that can block on its own: a view that waits for a position must not keep an append from
its thread. Work that finds no free thread waits for its turn; ``RequestLimits`` bounds how much may wait.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from anyio import CapacityLimiter, to_thread

_Result = TypeVar("_Result")


class Workers:
    """A bounded set of threads; used from one event loop."""

    def __init__(self, threads_max: int) -> None:
        self._threads_max = threads_max
        self._limiter: CapacityLimiter | None = None

    async def run(self, work: Callable[..., _Result], *arguments: Any, **options: Any) -> _Result:
        """Run ``work`` in a thread. A caller who goes away abandons the thread, which ends by itself."""
        if self._limiter is None:  # it belongs to the running loop, which there is only now
            self._limiter = CapacityLimiter(self._threads_max)
        return await to_thread.run_sync(
            partial(work, *arguments, **options), limiter=self._limiter, abandon_on_cancel=True
        )
