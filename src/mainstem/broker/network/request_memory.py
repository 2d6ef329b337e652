"""The memory of requests: how much each principal and each connection may hold, and which of them wait for memory.

Two amounts have separate bounds, so that neither can block the other forever. ``used_bytes`` counts whole requests,
from admission to response. ``coming_bytes`` counts the buffers of requests that have not fully arrived; it counts the
real size of the buffers, never the announced length.

A ``Share`` is what one principal holds (one address, before login). A share takes at most half of the memory, and a
connection at most half of its share, so that no client can block all others. Within these bounds a request is admitted
while any memory is left, whatever its size. Among the connections of a share that wait for room to receive the rest of
a request, one at a time is ``favoured``: it always gets the room. So requests that are each larger than the free
memory arrive one after another, and a share full of partial requests makes progress. ``Connection`` closes a
connection whose request arrives too slowly.

Concurrency: the event loop only.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable


class RequestMemory:
    """The memory of all connections of one kind: ``limit_bytes`` for whole requests, half as much for coming ones."""

    def __init__(self, limit_bytes: int, share_bytes: int = 0, connection_bytes: int = 0) -> None:
        self.limit_bytes = limit_bytes
        self.share_bytes = min(limit_bytes, share_bytes or limit_bytes)
        self.connection_bytes = min(self.share_bytes, connection_bytes or limit_bytes)
        self.used_bytes = self.coming_bytes = 0
        self._shares: dict[str, Share] = {}
        self._blocked: dict[Share, None] = {}
        self._is_waking = self._has_more_room = False

    def hold(self, owner: str, wake: Callable[[], None]) -> HeldMemory:
        """Return the memory of one connection of ``owner``; ``wake`` is called when it waits and may go on."""
        return HeldMemory(self.join(owner), wake)

    def join(self, owner: str) -> Share:
        """Return the share of an owner, with one more connection."""
        share = self._shares.get(owner)
        if share is None:
            share = self._shares[owner] = Share(self, owner)
        share.connections += 1
        return share

    def leave(self, share: Share) -> None:
        """Remove a connection; a share without connections is forgotten."""
        share.connections -= 1
        if not share.connections:
            self._shares.pop(share.owner, None)
            self._blocked.pop(share, None)

    def block(self, share: Share) -> None:
        """Note that a connection of this share waits."""
        self._blocked[share] = None

    def wake(self) -> None:
        """Wake waiting connections while there is room, share by share."""
        self._has_more_room = True
        if self._is_waking:
            return  # a woken connection has released memory: the round that woke it continues
        self._is_waking = True
        try:
            while self._has_more_room and self._blocked:
                self._has_more_room = False
                for share in list(self._blocked):
                    self._blocked.pop(share, None)
                    if share.wake():
                        self._blocked[share] = None  # at the end: the others come first the next time
        finally:
            self._is_waking = False


class Share:
    """The memory that all connections of one owner hold together."""

    __slots__ = ("coming_bytes", "coming_waits", "connections", "favoured", "memory", "owner", "used_bytes", "waits")

    def __init__(self, memory: RequestMemory, owner: str) -> None:
        self.memory = memory
        self.owner = owner
        self.used_bytes = self.coming_bytes = 0
        self.connections = 0
        self.favoured: HeldMemory | None = None
        self.waits: deque[HeldMemory] = deque()
        self.coming_waits: deque[HeldMemory] = deque()

    @property
    def has_room(self) -> bool:
        """Whether one more whole request may be taken."""
        return self.memory.used_bytes < self.memory.limit_bytes and self.used_bytes < self.memory.share_bytes

    @property
    def has_coming_room(self) -> bool:
        """Whether the buffer of a coming request may grow."""
        memory = self.memory
        return 2 * memory.coming_bytes < memory.limit_bytes and 2 * self.coming_bytes < memory.share_bytes

    @property
    def is_short_of_coming_room(self) -> bool:
        """Whether connections of this share wait for room to receive: then those that have room must use it quickly."""
        return bool(self.coming_waits)

    def wake(self) -> bool:
        """Wake waiting connections in order while there is room; return whether some still wait."""
        for _ in range(len(self.waits)):
            if not self.has_room:
                break
            self._wake_first(self.waits)
        for _ in range(len(self.coming_waits)):
            if not self.has_coming_room and self.favoured is not None:
                break
            self._wake_first(self.coming_waits)
        return bool(self.waits or self.coming_waits)

    @staticmethod
    def _wake_first(waits: deque[HeldMemory]) -> None:
        held = waits.popleft()
        held.is_waiting = False
        held.wake()


class HeldMemory:
    """The memory that one connection holds: ``used_bytes`` in whole requests, ``coming_bytes`` in an arriving one."""

    __slots__ = ("coming_bytes", "is_waiting", "share", "used_bytes", "wake")

    def __init__(self, share: Share, wake: Callable[[], None]) -> None:
        self.share = share
        self.wake = wake
        self.used_bytes = self.coming_bytes = 0
        self.is_waiting = False

    def move(self, memory: RequestMemory, owner: str) -> None:
        """Move all held memory to the share of ``owner``, and stop waiting in the old share."""
        used, coming = self.used_bytes, self.coming_bytes
        self._leave()
        self.share = memory.join(owner)
        self._add(used, coming)

    def try_take(self, size_bytes: int) -> bool:
        """Try to admit a whole request of that size; if it is not admitted, it waits and is woken to try again.

        A connection that itself holds too much does not wait here: it goes on when one of its requests is answered.
        """
        share = self.share
        memory = share.memory
        if self.used_bytes >= memory.connection_bytes:
            return False
        if memory.used_bytes >= memory.limit_bytes or share.used_bytes >= memory.share_bytes:
            self._wait(share.waits)
            return False
        self.used_bytes += size_bytes
        share.used_bytes += size_bytes
        memory.used_bytes += size_bytes
        return True

    def give_back(self, size_bytes: int) -> None:
        """Release the memory of an answered request; wake waiting connections if there is room."""
        share = self.share
        memory = share.memory
        self.used_bytes -= size_bytes
        share.used_bytes -= size_bytes
        memory.used_bytes -= size_bytes
        memory.wake()

    def try_grow(self, size_bytes: int) -> bool:
        """Try to grow the buffer of an arriving request by ``size_bytes``; if there is no room, wait for it."""
        share = self.share
        is_within = share.has_coming_room and 2 * self.coming_bytes < share.memory.connection_bytes
        if not is_within and share.favoured is not self:
            if share.favoured is not None:
                self._wait(share.coming_waits)
                return False
            share.favoured = self
        self._add(0, size_bytes)
        return True

    def came(self) -> None:
        """Stop counting the buffer of an arriving request: the request is complete, or never will be."""
        share, coming = self.share, self.coming_bytes
        self._add(0, -coming)
        if share.favoured is self:
            share.favoured = None
        share.memory.wake()

    def close(self) -> None:
        """Release all memory of a closed connection."""
        self.wake = _nothing
        self._leave()

    def _leave(self) -> None:
        share = self.share
        memory = share.memory
        if self.is_waiting:
            self.is_waiting = False
            for waits in (share.waits, share.coming_waits):
                if self in waits:
                    waits.remove(self)
        self._add(-self.used_bytes, -self.coming_bytes)
        if share.favoured is self:
            share.favoured = None
        memory.leave(share)
        memory.wake()

    def _add(self, used_bytes: int, coming_bytes: int) -> None:
        for each in (self, self.share, self.share.memory):
            each.used_bytes += used_bytes
            each.coming_bytes += coming_bytes

    def _wait(self, waits: deque[HeldMemory]) -> None:
        if not self.is_waiting:
            self.is_waiting = True
            waits.append(self)
            self.share.memory.block(self.share)


def _nothing() -> None:
    """Do nothing: the wake call of a closed connection."""
