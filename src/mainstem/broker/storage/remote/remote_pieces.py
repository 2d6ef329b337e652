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
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from mainstem.errors import StorageError
from mainstem.log.segments.remote_segment import PIECE_BYTES_MAX, StoredPiece
from mainstem.record.checksum import crc32c

if TYPE_CHECKING:
    from mainstem.broker.configs.broker_config import BrokerConfig
    from mainstem.object_stores.store import ObjectStore

PIECES_MIN: Final = 4
"""As many pieces have room at least: a read may need two, and others load theirs meanwhile."""
PIECES_MAX: Final = 1_024
_COUNTED_BYTES_MIN: Final = 1 << 20
_IN_MEMORY_BYTES_MAX: Final = 1 << 18


class RemotePieces:
    """See ``log.segments.remote_segment.LoadedPieces``. The least recently used piece goes first."""

    def __init__(self, open_store: Callable[[], ObjectStore], directory: Path, limit_bytes: int) -> None:
        """``directory`` is where the files without a name are made."""
        self._open_store = open_store
        self._store: ObjectStore | None = None
        self._directory = directory
        self._limit_bytes = max(limit_bytes, PIECES_MIN * PIECE_BYTES_MAX)
        self._kept: OrderedDict[StoredPiece, memoryview] = OrderedDict()
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
            if found is not None:
                self._kept.move_to_end(piece)
            return found

    def load(self, url: str, piece: StoredPiece, *, is_ahead: bool = False) -> None:
        """Take a piece from the store, unless it is here. Raises StorageError, and what the store raises.

        One that is loaded ``is_ahead`` of its readers takes free room only, and goes first.
        """
        if self.find(piece) is not None or (is_ahead and not self._has_room(piece)):
            return
        data = self.fetch(url, piece)
        view = memoryview(data) if len(data) <= _IN_MEMORY_BYTES_MAX else self._in_a_file(data)
        with self._lock:
            self.loaded_bytes += piece.size_bytes
            if piece in self._kept or (is_ahead and not self._has_room(piece)):
                return
            self._kept[piece] = view
            self._kept.move_to_end(piece, last=not is_ahead)
            self.size_bytes += _counted(piece)
            while self.size_bytes > self._limit_bytes or len(self._kept) > PIECES_MAX:
                self.size_bytes -= _counted(self._kept.popitem(last=False)[0])

    def _has_room(self, piece: StoredPiece) -> bool:
        return self.size_bytes + _counted(piece) <= self._limit_bytes and len(self._kept) < PIECES_MAX

    def fetch(self, url: str, piece: StoredPiece) -> bytes:
        """The bytes of a piece, proven, and not kept. Raises StorageError, and what the store raises."""
        store = self.store
        if store.url != url:
            raise StorageError(f"a segment is in {url}, and this log's backup is {store.url}")
        data = store.get_range(piece.object_name, piece.object_offset, piece.size_bytes)
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


def remote_pieces(config: BrokerConfig) -> RemotePieces | None:
    """The cache of a node; None where its log has no backup to read from."""
    url = str(config.get("mainstem.remote.storage.url"))
    if not url:
        return None

    def opened() -> ObjectStore:
        from mainstem.object_stores.opening import open_store  # only a log with segments there needs it

        return open_store(url)

    return RemotePieces(opened, config.data_dir, int(config.get("mainstem.remote.cache.bytes")))
