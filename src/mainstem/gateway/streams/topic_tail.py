"""``TopicTail``: one follower of a topic for all its readers, and the ring of its newest fetches.

A follower in a thread takes the committed records. Each fetch is encoded once, into a numbered piece, and the newest
pieces are kept in a ``PieceRing`` of at most ``RING_BYTES``. A reader is a number: the piece that it takes next. So a
thousand readers cost a thousand numbers, and not a thousand queues. A reader whose next piece has left the ring was too
slow.

1. A reader begins at its own position. It notes the number of the tail's next piece and the tail's position
   (``number``, ``offsets``), and reads its own past up to that position.
2. If the piece of that number is still in the ring, the reader goes on with it (``join``). Earlier pieces end at that
   position or before it, later ones begin after it: no record is missed, and none comes twice. If the piece has left
   the ring, the reader repeats step 1.

The follower waits while the foremost reader has half a ring to take: if it read the log faster than the readers can be
served, it would cut them all off. Used by one event loop; the tail is closed with its last reader.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from mainstem.background import failed
from mainstem.client.log import Log
from mainstem.client.read.reader import Follower
from mainstem.encodings.encoded_records import encoded_records
from mainstem.errors import LogUnavailableError, MainstemError, UnavailableError
from mainstem.gateway.http.blocking import Workers
from mainstem.gateway.streams.piece_ring import PieceRing
from mainstem.gateway.streams.topic_frames import Offsets, Piece, offsets_in, piece_of

_LOG: Final = logging.getLogger(__name__)
RING_BYTES: Final = 8 << 20
_PIECE_BYTES: Final = 32 << 10
_FETCH_BYTES: Final = 1 << 20
_RETRY_S: Final = 0.5
_WOKEN_AT_ONCE: Final = 20


class TopicTail:
    """One follower of a topic, with a ring of pieces that many readers share."""

    def __init__(self, log: Log, topic: str, workers: Workers, ring_bytes: int = RING_BYTES) -> None:
        """``workers`` has a thread for this tail."""
        self.topic = topic
        self.readers = 0
        """The number of readers; the last one closes the tail."""
        self._log = log
        self._workers = workers
        self._ring = PieceRing(ring_bytes)
        self._foremost = 0
        self._joined = 0
        self._offsets: Offsets = {}
        self._waiting: set[asyncio.Future[None]] = set()
        self._taken = asyncio.Event()
        self._follower: Follower | None = None
        """None until it follows."""
        self._error: MainstemError | None = None
        """Why it has ended; None before."""
        self._task = asyncio.create_task(self._run())

    async def opened(self) -> None:
        """Return when the tail follows. Raises UnknownTopicError, LogUnavailableError, UnavailableError."""
        while self._follower is None:
            if self._error is not None:
                raise self._error
            await self._woken()

    @property
    def number(self) -> int:
        """The number of the next piece."""
        return self._ring.end

    @property
    def has_failed(self) -> bool:
        """Whether it has ended."""
        return self._error is not None

    @property
    def offsets(self) -> Offsets:
        """The position just before the next piece."""
        return self._offsets

    def join(self, number: int) -> bool:
        """Go on with the piece of that number, if it can still be had."""
        if number < self._ring.first:
            return False
        self._joined += 1
        self._take(number)
        return True

    def leave(self) -> None:
        """A reader that joined is gone."""
        self._joined -= 1
        self._taken.set()

    async def piece(self, number: int, timeout_s: float) -> Piece | None:
        """The piece of that number; None when it did not come in time.

        Raises UnavailableError to a reader that was too slow for it, and what ended the tail.
        """
        if number >= self._ring.end:
            try:
                async with asyncio.timeout(timeout_s):
                    while number >= self._ring.end:
                        if self._error is not None:
                            raise self._error
                        await self._woken()
            except TimeoutError:
                return None
        piece = self._ring.piece(number)
        if piece is None:
            raise UnavailableError(
                "this reader is too slow and was cut off; reconnect with Last-Event-ID to go on from there"
            )
        self._take(number + 1)
        return piece

    def close(self) -> None:
        """End the follower. Idempotent."""
        self._end(UnavailableError(f"the stream of topic {self.topic} was closed; reconnect"))

    # ---- how

    def _take(self, number: int) -> None:
        if number > self._foremost:
            self._foremost = number
            self._taken.set()

    def _end(self, error: MainstemError) -> None:
        if self._error is None:
            self._error = error
        if self._follower is not None:
            self._follower.close()
        self._taken.set()
        self._wake()

    async def _run(self) -> None:
        try:
            follower = await self._workers.run(self._log.follow, self.topic, fetch_bytes=_FETCH_BYTES)
            self._follower, self._offsets = follower, offsets_in(follower.position)
            self._wake()
            while self._error is None:
                await self._follow(follower)
        except MainstemError as error:
            self._end(error)
        except Exception as error:  # noqa: BLE001 - readers are cut off; the next one begins a tail of its own
            failed("topic tail", error)
        finally:
            self.close()

    async def _follow(self, follower: Follower) -> None:
        """Take the next piece, when the readers have room for it."""
        await self._wait_for_readers()
        try:
            piece = await self._workers.run(_next_piece, follower, self.topic, self._offsets, self._log)
        except LogUnavailableError as error:
            _LOG.warning("%s cannot be followed just now: %s", self.topic, error)
            await asyncio.sleep(_RETRY_S)
            return
        if piece.end != self._offsets:
            self._ring.add(piece)
            self._offsets = piece.end
            self._wake()

    async def _woken(self) -> None:
        waiting = asyncio.get_running_loop().create_future()
        self._waiting.add(waiting)
        try:
            await waiting
        finally:
            self._waiting.discard(waiting)  # a reader that waited in vain

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, set()
        self._wake_some(waiting)

    def _wake_some(self, waiting: set[asyncio.Future[None]]) -> None:
        """Wake a few readers, and the others in later turns of the loop: requests are answered in between."""
        for _ in range(min(_WOKEN_AT_ONCE, len(waiting))):
            one = waiting.pop()
            if not one.done():
                one.set_result(None)
        if waiting:
            asyncio.get_running_loop().call_soon(self._wake_some, waiting)

    async def _wait_for_readers(self) -> None:
        while self._error is None and self._joined and self._ring.is_half_unread(self._foremost):
            self._taken.clear()
            await self._taken.wait()


def _next_piece(follower: Follower, topic: str, start: Offsets, log: Log) -> Piece:
    records = map(encoded_records(log).shown, follower.take(_PIECE_BYTES))
    return piece_of(topic, records, start, offsets_in(follower.position))
