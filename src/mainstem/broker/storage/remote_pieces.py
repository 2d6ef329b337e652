"""Pieces of old segments that were read from the backup's store: a bounded cache, in files without a name.

The system may drop a file's pages from memory, and a file without a name is gone when the process ends. Memory views of
a piece stay valid when the cache lets go of it.

Concurrency: safe from any thread; ``load`` waits for the store.
"""

from __future__ import annotations

import mmap
import tempfile
import threading
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from mainstem.errors import StorageError
from mainstem.log.segments.remote_segment import PIECE_BYTES_MAX, StoredPiece
from mainstem.record.checksum import crc32c

if TYPE_CHECKING:
    from mainstem.broker.configs.broker_config import BrokerConfig
    from mainstem.object_stores.store import ObjectStore

Fetch = Callable[[str, str, int, int], bytes]
"""Read bytes of the store at a URL: of an object, from an offset on, so many."""


class RemotePieces:
    """See ``log.segments.remote_segment.LoadedPieces``. The least recently used piece goes first."""

    def __init__(self, fetch: Fetch, directory: Path, limit_bytes: int) -> None:
        """``directory`` is where the files without a name are made."""
        self._fetch = fetch
        self._directory = directory
        self._limit_bytes = max(limit_bytes, 2 * PIECE_BYTES_MAX)
        self._kept: OrderedDict[StoredPiece, memoryview] = OrderedDict()
        self._lock = threading.Lock()
        self.size_bytes = 0
        self.loaded_bytes = 0

    def find(self, piece: StoredPiece) -> memoryview | None:
        with self._lock:
            found = self._kept.get(piece)
            if found is not None:
                self._kept.move_to_end(piece)
            return found

    def load(self, url: str, piece: StoredPiece) -> None:
        if self.find(piece) is not None:
            return
        data = self._fetch(url, piece.object_name, piece.object_offset, piece.size_bytes)
        if len(data) != piece.size_bytes or crc32c(data) != piece.crc:
            raise StorageError(
                f"{url}/{piece.object_name}: the {piece.size_bytes} bytes from {piece.object_offset} on do not match "
                "their checksum; mainstem backup verify says what else is damaged"
            )
        view = self._in_a_file(data)
        with self._lock:
            if piece in self._kept:
                return
            self._kept[piece] = view
            self.size_bytes += piece.size_bytes
            self.loaded_bytes += piece.size_bytes
            while self.size_bytes > self._limit_bytes:
                self.size_bytes -= self._kept.popitem(last=False)[0].size_bytes

    def _in_a_file(self, data: bytes) -> memoryview:
        try:
            with tempfile.TemporaryFile(dir=self._directory) as file:
                file.write(data)
                file.flush()
                return memoryview(mmap.mmap(file.fileno(), len(data), access=mmap.ACCESS_READ))
        except (OSError, ValueError) as error:
            raise StorageError(f"cannot keep records of the store in {self._directory}: {error}") from error


def remote_pieces(config: BrokerConfig) -> RemotePieces | None:
    """The cache of a node; None where its log has no backup to read from."""
    url = str(config.get("mainstem.remote.storage.url"))
    if not url:
        return None
    stores: dict[str, ObjectStore] = {}

    def fetch(wanted: str, name: str, start: int, length: int) -> bytes:
        from mainstem.object_stores.opening import open_store  # only a log with segments there needs it

        if url not in stores:
            stores[url] = open_store(url)
        if stores[url].url != wanted:
            raise StorageError(f"a segment is in {wanted}, and this log's backup is {stores[url].url}")
        return stores[url].get_range(name, start, length)

    return RemotePieces(fetch, config.data_dir, int(config.get("mainstem.remote.cache.bytes")))
