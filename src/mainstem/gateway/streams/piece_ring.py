"""The newest pieces of a topic, numbered in their order, in bounded memory. No I/O; for one event loop."""

from __future__ import annotations

from collections import deque

from mainstem.gateway.streams.topic_frames import Piece


class PieceRing:
    """The pieces ``first`` to ``end - 1``: at most ``bytes_max`` together, but always the newest one."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._pieces: deque[Piece] = deque()
        self._size_bytes = 0
        self.end = 0
        """The number of the next piece."""

    @property
    def first(self) -> int:
        """The number of the oldest piece that is kept."""
        return self.end - len(self._pieces)

    def add(self, piece: Piece) -> None:
        """Add the newest piece, and remove the oldest ones beyond ``bytes_max``."""
        self._pieces.append(piece)
        self.end += 1
        self._size_bytes += piece.size_bytes
        while self._size_bytes > self._bytes_max and len(self._pieces) > 1:
            self._size_bytes -= self._pieces.popleft().size_bytes

    def piece(self, number: int) -> Piece | None:
        """The piece of that number; None when it was removed, or does not exist yet."""
        return self._pieces[number - self.first] if self.first <= number < self.end else None

    def is_half_unread(self, number: int) -> bool:
        """Whether the pieces from ``number`` on have more than half of the bytes that may be kept."""
        unread = min(self.end - number, len(self._pieces))
        return sum(self._pieces[-at].size_bytes for at in range(1, unread + 1)) > self._bytes_max // 2
