"""Stretches of files on their way into objects: small ones share an object, large ones get their own.

``add`` says at once where a stretch will lie; ``finish`` returns when all of it is stored. At most a few uploads run at
a time, each of at most ``PIECE_BYTES_MAX``, so memory is bounded.

Concurrency: one thread adds; uploads run in threads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Final

from mainstem.backup.manifest import DATA
from mainstem.backup.source import ChangedError, OpenFile
from mainstem.log.segments.remote_segment import PIECE_BYTES_MAX, StoredPiece
from mainstem.object_stores.store import ObjectStore
from mainstem.record.checksum import crc32c

_OWN_OBJECT_BYTES: Final = 4 << 20
_SHARED_BYTES: Final = 8 << 20
_UPLOADS_AT_ONCE: Final = 3


class PieceWriter:
    """Of one round."""

    def __init__(self, store: ObjectStore, prefix: str, threads: ThreadPoolExecutor) -> None:
        """``prefix`` is of this round alone: no object of that name is written twice."""
        self._store = store
        self._prefix = f"{DATA}/{prefix}"
        self._threads = threads
        self._shared_count = self._own_count = 0
        self._shared: list[bytes] = []
        self._shared_bytes = 0
        self._uploads: list[Future[None]] = []
        self.uploaded_bytes = 0

    def add_file(self, file: OpenFile, start: int, end: int) -> Iterator[StoredPiece]:
        """The pieces of a stretch of a file."""
        for at in range(start, end, PIECE_BYTES_MAX):
            length = min(PIECE_BYTES_MAX, end - at)
            data = file.read(at, length)
            if len(data) != length:
                raise ChangedError(f"{file.path} has become shorter")
            yield self.add(data, at)

    def add(self, data: bytes, start: int) -> StoredPiece:
        """The piece for bytes that begin at ``start`` in their file."""
        self.uploaded_bytes += len(data)
        if len(data) >= _OWN_OBJECT_BYTES:
            name = f"{self._prefix}-own-{self._own_count}"
            self._own_count += 1
            self._upload(lambda: self._store.put(name, data))
            return StoredPiece(name, 0, start, start + len(data), crc32c(data))
        piece = StoredPiece(self._shared_name(), self._shared_bytes, start, start + len(data), crc32c(data))
        self._shared.append(data)
        self._shared_bytes += len(data)
        if self._shared_bytes >= _SHARED_BYTES:
            self._upload_shared()
        return piece

    def _shared_name(self) -> str:
        """The object that shares are collected for now."""
        return f"{self._prefix}-shared-{self._shared_count}"

    def _upload_shared(self) -> None:
        if self._shared:
            name, data = self._shared_name(), b"".join(self._shared)
            self._shared_count += 1
            self._shared, self._shared_bytes = [], 0
            self._upload(lambda: self._store.put(name, data))

    def _upload(self, work: Callable[[], None]) -> None:
        while len(self._uploads) >= _UPLOADS_AT_ONCE:
            self._uploads.pop(0).result()
        self._uploads.append(self._threads.submit(work))

    def abandon(self) -> None:
        """Wait until no upload runs any more, however it ends."""
        wait(self._uploads)

    def finish(self) -> None:
        """Wait until all is stored. Raises StoreError."""
        self._upload_shared()
        for upload in self._uploads:
            upload.result()
        self._uploads.clear()
