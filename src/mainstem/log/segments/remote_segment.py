"""Segments whose records lie in an object store: where their bytes are there, and how they are read.

The backup stores every closed segment. Beside one of a topic with ``remote.storage.enable`` it writes a file
``<base offset>.remote``, which says where. After ``local.retention.ms`` or ``.bytes`` the log removes the ``.log``
(``Cleaning.release``). The indexes and the seal stay, so that only reads of records need the store.

Such a read takes whole *pieces*, as the backup has stored them. One that is not loaded raises ``PiecesMissingError``:
the caller loads what it names, in threads, and reads again. Where an index is lost, the whole segment is brought back.

Opening a log reads no piece: what recovery needs is in the first local segment, or in small files beside it.

Concurrency: owned by the segment's owner, except ``LoadedPieces`` and ``RemoteSegment``, which is a value.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Final, NamedTuple, Protocol

from mainstem.errors import MainstemError, StorageError, UnavailableError
from mainstem.log.files.disk import Buffer, Disk, ReadableFile
from mainstem.log.files.small_files import read_file
from mainstem.record.checksum import crc32c

_MAGIC: Final = b"MSRS1 %08x\n"
_MAGIC_BYTES: Final = len(b"MSRS1 00000000\n")
_READ_CHUNK_BYTES: Final = 1 << 20
PIECE_BYTES_MAX: Final = 32 << 20
"""The longest piece that a backup makes: what one read of a segment takes from the store at least."""
READ_BYTES_MAX: Final = 4 << 20
"""The most bytes of a remote segment that are read at once: they lie in few pieces."""
BACKUP_ROOT: Final = "backup.json"
"""The object of a backup's store that says whose log it holds, and which writer wrote last."""
BACKUP_WRITERS: Final = "run/backup-writer"
"""Below the data directory: the writers that this directory has claimed its backup with."""


class StoredPiece(NamedTuple):
    """The bytes [start, end) of a file: they lie in an object from ``object_offset`` on, and have this CRC32C."""

    object_name: str
    object_offset: int
    start: int
    end: int
    crc: int

    @property
    def size_bytes(self) -> int:
        """How many bytes it has."""
        return self.end - self.start


class PiecesMissingError(UnavailableError):
    """The bytes are in the store: load the pieces, and read again. ``next_piece`` is read next, if any is.

    ``whole``: an index of the segment is lost, so that its file has to come back as a whole.
    """

    def __init__(
        self,
        path: PurePath,
        stored: RemoteSegment,
        pieces: Sequence[StoredPiece],
        next_piece: StoredPiece | None = None,
        *,
        whole: bool = False,
    ) -> None:
        super().__init__(f"records of {path} are in {stored.url} alone, and are not loaded yet: try again")
        self.path = path
        self.stored = stored
        self.pieces = tuple(pieces)
        self.next_piece = next_piece
        self.whole = whole


@dataclass(frozen=True, slots=True)
class RemoteSegment:
    """Where the bytes of a closed segment are. A segment without bytes has none, and stays on the disk."""

    url: str
    topic_id: str
    pieces: tuple[StoredPiece, ...]

    @property
    def size_bytes(self) -> int:
        """How long the segment is."""
        return self.pieces[-1].end if self.pieces else 0

    def encode(self) -> bytes:
        """The file's bytes."""
        document = {"url": self.url, "topic_id": self.topic_id, "pieces": self.pieces}
        body = json.dumps(document, separators=(",", ":")).encode()
        return _MAGIC % crc32c(body) + body

    @classmethod
    def decode(cls, data: bytes, path: PurePath) -> RemoteSegment:
        """Read the file's bytes. Raises StorageError when they are damaged."""
        body = data[_MAGIC_BYTES:]
        if data[:_MAGIC_BYTES] != _MAGIC % crc32c(body):
            raise StorageError(f"{path} is damaged: the backup writes it again when it starts")
        found = json.loads(body)
        return cls(found["url"], found["topic_id"], tuple(StoredPiece(*piece) for piece in found["pieces"]))

    def is_copy_of(self, file: ReadableFile, size_bytes: int, step: Callable[[], None] = lambda: None) -> bool:
        """Whether a local file has exactly these bytes, and has any. Reads all of it: for a thread.

        ``step`` is called after each piece.
        """
        ends = [0, *(piece.end for piece in self.pieces)]
        if not size_bytes or ends[-1] != size_bytes or [piece.start for piece in self.pieces] != ends[:-1]:
            return False
        for piece in self.pieces:
            if _crc_of(file, piece) != piece.crc:
                return False
            step()
        return True


def _crc_of(file: ReadableFile, piece: StoredPiece) -> int:
    found = 0
    for start in range(piece.start, piece.end, _READ_CHUNK_BYTES):
        found = crc32c(file.read(start, min(_READ_CHUNK_BYTES, piece.end - start)), found)
    return found


class LoadedPieces(Protocol):
    """The pieces that were read from the store, as many as there is room for. Safe from any thread."""

    def find(self, piece: StoredPiece) -> memoryview | None:
        """The bytes of a piece, if it is here. They stay valid when the room is given to others."""
        ...


def read_remote(disk: Disk, path: PurePath) -> RemoteSegment | None:
    """The content of a segment's ``.remote``; None as long as the backup has written none. Raises StorageError."""
    data = read_file(disk, path)
    return None if data is None else RemoteSegment.decode(data, path)


class RemoteFile:
    """A remote segment's ``.log`` as ``log.files.disk.DiskFile``, for reading alone.

    Raises PiecesMissingError when bytes have to be loaded first.
    """

    def __init__(self, path: PurePath, segment: RemoteSegment, loaded: LoadedPieces | None) -> None:
        self.path = path
        self._segment = segment
        self._starts = [piece.start for piece in segment.pieces]
        self._loaded = loaded

    def size_bytes(self) -> int:
        return self._segment.size_bytes

    def bring_back(self) -> PiecesMissingError:
        """The error that asks for the whole segment."""
        self._require_store()
        return PiecesMissingError(self.path, self._segment, (), whole=True)

    def read(self, file_position: int, length: int) -> bytes:
        return bytes(self.view(file_position, length))

    def view(self, file_position: int, length: int) -> memoryview:
        """At most ``length`` bytes; fewer only where the segment ends."""
        end = min(file_position + length, self._segment.size_bytes)
        if file_position >= end:
            return memoryview(b"")
        first = bisect_right(self._starts, file_position) - 1
        parts: list[memoryview] = []
        missing: list[StoredPiece] = []
        next_piece = None
        for piece in self._segment.pieces[first:]:
            if piece.start >= end:
                next_piece = piece
                break
            data = self._find(piece)
            if data is None:
                missing.append(piece)
            else:
                parts.append(data[max(0, file_position - piece.start) : end - piece.start])
        if missing:
            raise PiecesMissingError(self.path, self._segment, missing, next_piece)
        return parts[0] if len(parts) == 1 else memoryview(b"".join(parts))

    def _find(self, piece: StoredPiece) -> memoryview | None:
        return self._require_store().find(piece)

    def _require_store(self) -> LoadedPieces:
        if self._loaded is None:
            raise StorageError(
                f"records of {self.path} are in {self._segment.url} alone, and this log may not read there: start it "
                f"with --backup {self._segment.url}"
            )
        return self._loaded

    def write(self, file_position: int, buffers: Sequence[Buffer]) -> None:
        raise self._refused("written")

    def truncate(self, size_bytes: int) -> None:
        raise self._refused("cut")

    def _refused(self, what: str) -> MainstemError:
        return StorageError(f"{self.path} is in {self._segment.url}: it cannot be {what}")

    def sync(self) -> None:
        """Nothing is ever written."""

    def close(self) -> None:
        """Nothing is open."""
