"""A limit on open files and loaded indexes of segments: the least recently used one is released first.

20,000 partitions must not hold 20,000 file descriptors. Each use of a resource is reported here; over the limit, the
least recently used one that is not pinned is asked to release it. Owned by one thread.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final, Protocol

_ASKED_AT_ONCE: Final = 4


class Holder(Protocol):
    """Something that holds a resource and can get it again."""

    def is_pinned(self) -> bool:
        """Whether it must not let go now."""
        ...

    def release(self) -> None:
        """Let go."""
        ...


class LeastRecentlyUsed:
    """Holders in the order of their last use."""

    __slots__ = ("_holders", "limit")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._holders: OrderedDict[Holder, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._holders)

    def is_over(self) -> bool:
        """Whether more is held than the limit: all the rest is pinned."""
        return len(self._holders) > self.limit

    def use(self, holder: Holder) -> None:
        """Note a use of ``holder``, which may make others let go."""
        holders = self._holders
        if holder in holders:
            holders.move_to_end(holder)
        else:
            holders[holder] = None
        if len(holders) > self.limit:
            self._shrink()

    def _shrink(self) -> None:
        """Let the oldest go, down to the limit; those that must stay are asked again in a while.

        Looks at a few only: with more pinned than the limit allows, the limit gives way.
        """
        for _ in range(min(_ASKED_AT_ONCE, len(self._holders) - 1)):
            holder = next(iter(self._holders))
            if holder.is_pinned():
                self._holders.move_to_end(holder)
                continue
            del self._holders[holder]
            holder.release()
            if len(self._holders) <= self.limit:
                return

    def forget(self, holder: Holder) -> None:
        """``holder`` has released it by itself."""
        self._holders.pop(holder, None)
