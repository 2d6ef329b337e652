"""A receive buffer that splits the bytes of a socket into whole frames. No I/O.

The socket reads into a scratch buffer that all connections share, and whole frames are copied out of it. An incomplete
frame gets its own buffer, into which the socket reads on. That buffer grows with the bytes that have arrived.
``RequestMemory`` counts its real size, never the announced length.

Used by one connection, on the event loop only.
"""

from __future__ import annotations

import struct
from typing import Final

from mainstem.broker.network.request_memory import HeldMemory
from mainstem.errors import FrameError
from mainstem.protocol.schema import Buffer

SCRATCH_BYTES: Final = 256 * 1024
_FRAME_BUFFER_START_BYTES: Final = 4096
_GROWTH: Final = 4
_LENGTH: Final = struct.Struct(">i")


class FrameReceiver:
    """Cuts a stream of bytes into frames: four bytes of length, then as many bytes.

    ``scratch`` is shared by all receivers of an event loop. Between two reads no receiver holds it, so an idle
    connection holds no buffer. ``frame_bytes_max`` may change between two frames. After ``wrote``, call ``next_frame``
    until it returns None, then ``release_buffer``.
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

    def __init__(self, frame_bytes_max: int, memory: HeldMemory, scratch: memoryview) -> None:
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
        """Whether a frame has begun to arrive and is incomplete."""
        return self._frame is not None or self._at < len(self._data)

    @property
    def came_bytes(self) -> int:
        """The number of bytes that have arrived and were not taken yet."""
        return self._frame_filled_to if self._frame is not None else len(self._data) - self._at

    def writable(self) -> memoryview:
        """Return where the next bytes go; never empty. Do not call it while the receiver is blocked."""
        if self._frame is None:
            return self._scratch
        return memoryview(self._frame)[self._frame_filled_to :]

    def wrote(self, count: int) -> None:
        """Record how many bytes were put into what ``writable`` returned."""
        if self._frame is not None:
            self._frame_filled_to += count
        elif self._at < len(self._data):
            self._data = b"".join((self._data[self._at :], self._scratch[:count]))
            self._at = 0
        else:
            self._data, self._at = self._scratch[:count], 0

    def release_buffer(self) -> None:
        """Keep the bytes that were not taken yet, and release the scratch buffer."""
        if isinstance(self._data, memoryview):
            self._data, self._at = bytes(self._data[self._at :]), 0

    def next_frame(self) -> Buffer | None:
        """Return the next whole frame, now counted in the request memory; None when it is incomplete or not admitted.

        ``is_blocked`` then says whether the receiver waits for memory. Raises FrameError for an invalid frame length.
        """
        self.is_blocked = False
        if self._frame is not None:
            return self._own_frame(self._frame)
        available = len(self._data) - self._at
        if available < 4:
            return None
        (length,) = _LENGTH.unpack_from(self._data, self._at)
        if not 0 <= length <= self.frame_bytes_max:
            raise FrameError(f"a request of {length} bytes; from 0 to {self.frame_bytes_max} are accepted")
        start = self._at + 4
        if available - 4 < length:
            self._begin_frame(start, length)
            return None
        if not self._memory.try_take(length):
            self.is_blocked = True
            return None
        self._at = start + length
        return bytes(self._data[start : self._at])

    def _own_frame(self, frame: bytearray) -> Buffer | None:
        """Return the frame of the own buffer if it is complete; else grow the buffer when it is full."""
        if self._frame_filled_to == self._frame_bytes:
            if self._memory.try_take(self._frame_bytes):
                self._frame = None
                self._memory.came()
                return frame
            self.is_blocked = True
        elif self._frame_filled_to == len(frame):
            size = min(self._frame_bytes, _GROWTH * len(frame))
            if self._memory.try_grow(size - len(frame)):
                self._frame = bytearray(size)
                self._frame[: len(frame)] = frame
            else:
                self.is_blocked = True
        return None

    def _begin_frame(self, start: int, length: int) -> None:
        """Give an incomplete frame its own buffer, into which the socket then reads, if there is room."""
        came = len(self._data) - start
        size = min(length, max(_GROWTH * came, _FRAME_BUFFER_START_BYTES))
        if not self._memory.try_grow(size):
            self.is_blocked = True
            return
        self._frame = bytearray(size)
        self._frame[:came] = self._data[start:]
        self._frame_bytes, self._frame_filled_to = length, came
        self._data, self._at = b"", 0

    def close(self) -> None:
        """Release the buffer of an incomplete frame."""
        self._frame, self._data, self._at = None, b"", 0
