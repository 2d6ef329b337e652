"""Reads a stored file out of its pieces; every piece is checked by its checksum before its bytes are used."""

from __future__ import annotations

from collections.abc import Iterator

from mainstem.backup.catalog import StoredFile
from mainstem.errors import CorruptBatchError, StorageError
from mainstem.log.segments.remote_segment import StoredPiece
from mainstem.object_stores.store import ObjectStore
from mainstem.record.checksum import crc32c


class DamagedObjectError(StorageError):
    """An object that is shorter than it was, or has other bytes."""


def read_piece(store: ObjectStore, piece: StoredPiece) -> bytes:
    """A piece's bytes. Raises DamagedObjectError, ObjectMissingError."""
    data = store.get_range(piece.object_name, piece.object_offset, piece.size_bytes)
    if len(data) != piece.size_bytes or crc32c(data) != piece.crc:
        raise DamagedObjectError(
            f"{store.url}/{piece.object_name}: the bytes from {piece.object_offset} on, of a file from {piece.start} "
            f"to {piece.end}, do not match their checksum"
        )
    return data


def stretches(store: ObjectStore, file: StoredFile, end: int) -> Iterator[tuple[int, bytes]]:
    """The file's bytes up to ``end``, with their file positions. Raises DamagedObjectError."""
    at = 0
    for piece in file.pieces:
        if piece.start >= end:
            break
        if piece.start != at:
            raise DamagedObjectError(f"{store.url}: the manifest lacks bytes from {at} to {piece.start} of a file")
        yield piece.start, read_piece(store, piece)[: end - piece.start]
        at = piece.end
    if at < end:
        raise DamagedObjectError(f"{store.url}: the manifest lacks bytes from {at} to {end} of a file")


class StoredReader:
    """A stored file as ``log.files.disk.ReadableFile``; it keeps the piece that was read last, and the one before."""

    def __init__(self, store: ObjectStore, file: StoredFile) -> None:
        self._store = store
        self._file = file
        self._kept: dict[int, bytes] = {}

    def read(self, file_position: int, length: int) -> bytes:
        found = bytearray()
        for piece in self._file.pieces:
            if piece.start < file_position + length and piece.end > file_position:
                data = self._bytes_of(piece)
                found += data[max(0, file_position - piece.start) : file_position + length - piece.start]
        return bytes(found)

    def _bytes_of(self, piece: StoredPiece) -> bytes:
        if piece.start not in self._kept:
            try:
                data = read_piece(self._store, piece)
            except CorruptBatchError as error:
                raise DamagedObjectError(str(error)) from error
            self._kept = dict([*self._kept.items()][-1:])
            self._kept[piece.start] = data
        return self._kept[piece.start]
