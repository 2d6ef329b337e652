"""Pieces of old segments that were read from the backup's store: a bounded cache.

Large pieces are in files without a name: the system may drop their pages from memory, and they are gone when the
process ends. Small ones are in memory, so that they take no file descriptor each. Memory views of a piece stay valid
when the cache lets go of it.

Concurrency: safe from any thread; ``load`` and ``fetch`` wait for the store.
"""

from __future__ import annotations

import mmap
import tempfile
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from mainstem.errors import StorageError
from mainstem.log.segments.remote_segment import PIECE_BYTES_MAX, StoredPiece
from mainstem.record.checksum import crc32c

if TYPE_CHECKING:
    from mainstem.broker.configs.broker_config import BrokerConfig
    from mainstem.object_stores.store import ObjectStore

PIECES_MIN: Final = 4
"""As many pieces have room at least: a read may need two, and others load theirs meanwhile."""
PIECES_MAX: Final = 1_024
FILES_MAX: Final = 256
"""Each piece in a file takes a file descriptor."""
_COUNTED_BYTES_MIN: Final = 1 << 20
_IN_MEMORY_BYTES_MAX: Final = 1 << 18
_RANGE_BYTES: Final = 4 << 20
"""The bytes of one request: on a slow line a whole piece would take longer than a store's client waits."""
_UNUSED_S: Final = 5.0
"""A piece that no reader has asked for so long may go for one that is loaded ahead."""


class _Kept(NamedTuple):
    """A piece's bytes, and when they were used last."""

    data: memoryview
    used_s: float
    is_file: bool


class RemotePieces:
    """See ``log.segments.remote_segment.LoadedPieces``. The least recently used piece goes first."""

    def __init__(self, open_store: Callable[[], ObjectStore], directory: Path, limit_bytes: int) -> None:
        """``directory`` is where the files without a name are made."""
        self._open_store = open_store
        self._store: ObjectStore | None = None
        self._directory = directory
        self._limit_bytes = max(limit_bytes, PIECES_MIN * PIECE_BYTES_MAX)
        self._kept: OrderedDict[StoredPiece, _Kept] = OrderedDict()
        self._files = 0
        self._lock = threading.Lock()
        self.size_bytes = 0
        self.loaded_bytes = 0

    @property
    def store(self) -> ObjectStore:
        """The store of the log's backup, opened when it is needed. Raises ConfigError, MissingDependencyError."""
        if self._store is None:
            self._store = self._open_store()
        return self._store

    def find(self, piece: StoredPiece) -> memoryview | None:
        with self._lock:
            found = self._kept.get(piece)
            if found is None:
                return None
            self._kept[piece] = found._replace(used_s=time.monotonic())
            self._kept.move_to_end(piece)
            return found.data

    def load(
        self, url: str, piece: StoredPiece, step: Callable[[], None] = lambda: None, *, is_ahead: bool = False
    ) -> None:
        """Take a piece from the store, unless it is here. Raises StorageError, and what the store raises.

        One that is loaded ``is_ahead`` of its readers takes the room of pieces that are not in use, and no other.
        """
        if self.find(piece) is not None or (is_ahead and not self._may_take_room(piece)):
            return
        data = self.fetch(url, piece, step)
        is_file = len(data) > _IN_MEMORY_BYTES_MAX
        view = self._in_a_file(data) if is_file else memoryview(data)
        gone: list[_Kept] = []  # let go of outside of the lock: unmapping takes time
        with self._lock:
            self.loaded_bytes += piece.size_bytes
            if piece in self._kept or (is_ahead and not self._may_take_room(piece)):
                return
            self._kept[piece] = _Kept(view, time.monotonic(), is_file)
            self._files += is_file
            self.size_bytes += _counted(piece)
            while self._is_over(0):
                victim, kept = self._kept.popitem(last=False)
                gone.append(kept)
                self._files -= kept.is_file
                self.size_bytes -= _counted(victim)
        while gone:
            gone.pop()

    def _is_over(self, more_bytes: int) -> bool:
        is_full = self._files > FILES_MAX or len(self._kept) > PIECES_MAX
        return is_full or self.size_bytes + more_bytes > self._limit_bytes

    def _may_take_room(self, piece: StoredPiece) -> bool:
        """Whether there is room, or the piece that would go is unused for some time."""
        if not self._is_over(_counted(piece)):
            return True
        oldest = next(iter(self._kept.values()))
        return time.monotonic() - oldest.used_s > _UNUSED_S

    def fetch(self, url: str, piece: StoredPiece, step: Callable[[], None] = lambda: None) -> bytes:
        """The bytes of a piece, proven, and not kept; ``step`` is called after each request.

        Raises StorageError, and what the store raises.
        """
        store = self.store
        if store.url != url:
            raise StorageError(f"a segment is in {url}, and this log's backup is {store.url}")
        parts = []
        for start in range(0, piece.size_bytes, _RANGE_BYTES):
            size_bytes = min(_RANGE_BYTES, piece.size_bytes - start)
            parts.append(store.get_range(piece.object_name, piece.object_offset + start, size_bytes))
            step()
        data = b"".join(parts)
        if len(data) != piece.size_bytes or crc32c(data) != piece.crc:
            raise StorageError(
                f"{url}/{piece.object_name}: the {piece.size_bytes} bytes from {piece.object_offset} on do not match "
                "their checksum; mainstem backup verify says what else is damaged"
            )
        return data

    def _in_a_file(self, data: bytes) -> memoryview:
        try:
            with tempfile.TemporaryFile(dir=self._directory) as file:
                file.write(data)
                file.flush()
                return memoryview(mmap.mmap(file.fileno(), len(data), access=mmap.ACCESS_READ))
        except (OSError, ValueError) as error:
            raise StorageError(f"cannot keep records of the store in {self._directory}: {error}") from error


def _counted(piece: StoredPiece) -> int:
    return max(piece.size_bytes, _COUNTED_BYTES_MIN)


def remote_pieces(url: str, config: BrokerConfig) -> RemotePieces:
    """The cache of a node whose log has its backup at a URL."""

    def opened() -> ObjectStore:
        from mainstem.object_stores.opening import open_store  # only a log with segments there needs it

        return open_store(url)

    return RemotePieces(opened, config.data_dir, int(config.get("mainstem.remote.cache.bytes")))
