"""Finding requests in what a socket delivers: a receive buffer that hands out whole frames. No I/O.

The socket reads straight into what ``writable`` returns. A frame that fits the small buffer is copied out of it; a
larger one gets a buffer of its own and is not copied again. Such a buffer grows with the bytes that have really come,
so a length alone takes no memory; what it announces is taken from ``RequestMemory`` before the first of its bytes is
kept.

Invariant: ``_read_to <= _filled_to <= len(_small)``. Used by one connection, on the event loop only.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Callable
from typing import Final

from mainstem.errors import FrameError
from mainstem.protocol.schema import Buffer

SMALL_BUFFER_BYTES: Final = 64 * 1024
LARGE_BUFFER_START_BYTES: Final = 1024 * 1024
_LENGTH: Final = struct.Struct(">i")


class RequestMemory:
    """How many bytes of requests are in flight, over all connections, and who waits for some to be answered.

    A request is admitted while anything is left, whatever its size: one that is larger than the limit passes alone.
    """

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.used_bytes = 0
        self._waiting: deque[Callable[[], None]] = deque()

    def try_take(self, size_bytes: int) -> bool:
        """Whether a request of that size is admitted; its bytes are then in use until they are given back."""
        if self.used_bytes >= self.limit_bytes:
            return False
        self.used_bytes += size_bytes
        return True

    def give_back(self, size_bytes: int) -> None:
        """Those bytes are in use no more; wakes all who wait when there is room again."""
        self.used_bytes -= size_bytes
        if self._waiting and self.used_bytes < self.limit_bytes:
            waiting, self._waiting = self._waiting, deque()
            for wake in waiting:
                wake()

    def when_free(self, wake: Callable[[], None]) -> None:
        """Call ``wake`` once, when there is room again."""
        self._waiting.append(wake)


class FrameReceiver:
    """Cuts a stream of bytes into frames: four bytes of length, then as many bytes."""

    __slots__ = (
        "_filled_to",
        "_frame_bytes_max",
        "_large",
        "_large_bytes",
        "_large_filled_to",
        "_memory",
        "_read_to",
        "_small",
        "_view",
        "is_blocked",
    )

    def __init__(self, frame_bytes_max: int, memory: RequestMemory) -> None:
        self._frame_bytes_max = frame_bytes_max
        self._memory = memory
        self._small = bytearray(SMALL_BUFFER_BYTES)
        self._view = memoryview(self._small)
        self._read_to = self._filled_to = 0
        self._large: bytearray | None = None
        self._large_bytes = self._large_filled_to = 0
        self.is_blocked = False

    @property
    def is_inside_frame(self) -> bool:
        """Whether a frame has begun to come and is not whole yet."""
        return self._large is not None or self._read_to < self._filled_to

    def writable(self) -> memoryview:
        """Where the next bytes go; never empty."""
        if self._large is not None:
            if self._large_filled_to == len(self._large):
                grown = bytearray(min(self._large_bytes, 2 * len(self._large)))
                grown[: len(self._large)] = self._large
                self._large = grown
            return memoryview(self._large)[self._large_filled_to :]
        if self._read_to == self._filled_to:
            self._read_to = self._filled_to = 0
        elif self._filled_to == len(self._small):
            rest = bytes(self._view[self._read_to : self._filled_to])
            self._view[: len(rest)] = rest
            self._read_to, self._filled_to = 0, len(rest)
        return self._view[self._filled_to :]

    def wrote(self, count: int) -> None:
        """Say how many bytes were put into what ``writable`` returned."""
        if self._large is not None:
            self._large_filled_to += count
        else:
            self._filled_to += count

    def next_frame(self) -> Buffer | None:
        """The next whole frame, whose bytes are now taken from the memory; None when more must come first.

        ``is_blocked`` then says whether it is memory that must come. Raises FrameError for a length that no request
        has.
        """
        self.is_blocked = False
        if self._large is not None:
            if self._large_filled_to < self._large_bytes:
                return None
            frame, self._large = self._large, None
            return frame
        available = self._filled_to - self._read_to
        if available < 4:
            return None
        (length,) = _LENGTH.unpack_from(self._small, self._read_to)
        if not 0 <= length <= self._frame_bytes_max:
            raise FrameError(f"a request of {length} bytes; from 0 to {self._frame_bytes_max} are accepted")
        start = self._read_to + 4
        if available - 4 < length and length + 4 <= len(self._small):
            return None
        if not self._memory.try_take(length):
            self.is_blocked = True
            return None
        if available - 4 >= length:
            self._read_to = start + length
            return bytes(self._view[start : start + length])
        self._begin_large(start, length)
        return None

    def _begin_large(self, start: int, length: int) -> None:
        self._large = bytearray(min(length, LARGE_BUFFER_START_BYTES))
        self._large_bytes = length
        self._large_filled_to = self._filled_to - start
        self._large[: self._large_filled_to] = self._view[start : self._filled_to]
        self._read_to = self._filled_to = 0

    def close(self) -> None:
        """Give back what a frame that never became whole had taken."""
        if self._large is not None:
            self._memory.give_back(self._large_bytes)
            self._large = None
