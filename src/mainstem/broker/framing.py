"""Finding requests in what a socket delivers: a receive buffer that hands out whole frames. No I/O.

The socket reads into a scratch buffer that all connections share, and whole frames are copied out of it. A frame that
is not whole gets a buffer of its own, into which the socket reads on: it is not copied again. Such a buffer grows with
the bytes that have really come, so a length alone takes no memory; what it announces is taken from ``RequestMemory``
before the first of its bytes is kept.

Used by one connection, on the event loop only.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Callable
from typing import Final

from mainstem.errors import FrameError
from mainstem.protocol.schema import Buffer

SCRATCH_BYTES: Final = 256 * 1024
FRAME_BUFFER_START_BYTES: Final = 1024 * 1024
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
    """Cuts a stream of bytes into frames: four bytes of length, then as many bytes.

    ``scratch`` is shared by all receivers of an event loop: between two reads it belongs to nobody, so an idle
    connection holds no buffer. ``frame_bytes_max`` may change between two frames. After ``wrote``, call ``next_frame``
    until it gives None, then ``park``.
    """

    __slots__ = (
        "_at",
        "_data",
        "_frame",
        "_frame_bytes",
        "_frame_filled_to",
        "_memory",
        "_scratch",
        "frame_bytes_max",
        "is_blocked",
    )

    def __init__(self, frame_bytes_max: int, memory: RequestMemory, scratch: memoryview) -> None:
        self.frame_bytes_max = frame_bytes_max
        self._memory = memory
        self._scratch = scratch
        self._data: bytes | memoryview = b""
        self._at = 0
        self._frame: bytearray | None = None
        self._frame_bytes = self._frame_filled_to = 0
        self.is_blocked = False

    @property
    def is_inside_frame(self) -> bool:
        """Whether a frame has begun to come and is not whole yet."""
        return self._frame is not None or self._at < len(self._data)

    def writable(self) -> memoryview:
        """Where the next bytes go; never empty."""
        if self._frame is None:
            return self._scratch
        if self._frame_filled_to == len(self._frame):
            grown = bytearray(min(self._frame_bytes, 2 * len(self._frame)))
            grown[: len(self._frame)] = self._frame
            self._frame = grown
        return memoryview(self._frame)[self._frame_filled_to :]

    def wrote(self, count: int) -> None:
        """Say how many bytes were put into what ``writable`` returned."""
        if self._frame is not None:
            self._frame_filled_to += count
        elif self._at < len(self._data):
            self._data = b"".join((self._data[self._at :], self._scratch[:count]))
            self._at = 0
        else:
            self._data, self._at = self._scratch[:count], 0

    def park(self) -> None:
        """Keep what is not taken yet, and let go of the scratch buffer."""
        if isinstance(self._data, memoryview):
            self._data, self._at = bytes(self._data[self._at :]), 0

    def next_frame(self) -> Buffer | None:
        """The next whole frame, whose bytes are now taken from the memory; None when more must come first.

        ``is_blocked`` then says whether it is memory that must come. Raises FrameError for a length that no request
        has.
        """
        self.is_blocked = False
        if self._frame is not None:
            if self._frame_filled_to < self._frame_bytes:
                return None
            frame, self._frame = self._frame, None
            return frame
        available = len(self._data) - self._at
        if available < 4:
            return None
        (length,) = _LENGTH.unpack_from(self._data, self._at)
        if not 0 <= length <= self.frame_bytes_max:
            raise FrameError(f"a request of {length} bytes; from 0 to {self.frame_bytes_max} are accepted")
        if not self._memory.try_take(length):
            self.is_blocked = True
            return None
        start = self._at + 4
        if available - 4 < length:
            self._begin_frame(start, length)
            return None
        self._at = start + length
        return bytes(self._data[start : self._at])

    def _begin_frame(self, start: int, length: int) -> None:
        """The frame is not whole: it gets a buffer of its own, which the socket then reads into."""
        came = self._data[start:]
        self._frame = bytearray(max(len(came), min(length, FRAME_BUFFER_START_BYTES)))
        self._frame[: len(came)] = came
        self._frame_bytes, self._frame_filled_to = length, len(came)
        self._data, self._at = b"", 0

    def close(self) -> None:
        """Give back what a frame that never became whole had taken."""
        if self._frame is not None:
            self._memory.give_back(self._frame_bytes)
            self._frame = None
