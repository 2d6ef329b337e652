"""Open a local file for reading as one stream of bytes, decompressed, and say how far the reading is.

``.gz`` is gzip, ``.zst`` Zstandard, ``.zip`` a zip archive with exactly one file in it; all else is read as it is.
Progress counts the bytes of the file on disk for plain, gzip and Zstandard files, and the unpacked bytes for a zip's
member: a fraction of ``total_bytes`` either way. A file that is missing, unreadable or damaged raises one clear error.
One thread reads one source.
"""

from __future__ import annotations

import codecs
import gzip
import io
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa

from mainstem.errors import InputError, SchemaError

COMPRESSED_SUFFIXES = (".gz", ".zip", ".zst")


class Source:
    """An open file: ``stream`` to read from, ``total_bytes``, and ``bytes_read`` so far in the same measure."""

    def __init__(self, stream: BinaryIO, counted: CountingStream, total_bytes: int) -> None:
        self.stream = stream
        self.total_bytes = total_bytes
        self._counted = counted

    @property
    def bytes_read(self) -> int:
        """How much was read, never more than ``total_bytes``."""
        return min(self._counted.bytes_read, self.total_bytes)


class CountingStream(io.RawIOBase):
    """Passes reads on and counts their bytes."""

    def __init__(self, inner: BinaryIO) -> None:
        super().__init__()
        self._inner = inner
        self.bytes_read = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]  # RawIOBase says Buffer
        data = self._inner.read(len(buffer))
        buffer[: len(data)] = data
        self.bytes_read += len(data)
        return len(data)

    def read(self, size: int | None = -1) -> bytes:
        data = self._inner.read(-1 if size is None else size)
        self.bytes_read += len(data)
        return data


def inner_suffix(path: Path) -> str:
    """The suffix that tells the format: ``.csv`` of ``flights.csv.zip``."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    while suffixes and suffixes[-1] in COMPRESSED_SUFFIXES:
        suffixes.pop()
    return suffixes[-1] if suffixes else ""


@contextmanager
def open_source(path: Path) -> Iterator[Source]:
    """Open ``path``; every way in which it cannot be read is one error of ours.

    Raises InputError when it is not there or not readable, SchemaError when its compression is damaged.
    """
    try:
        with path.open("rb") as file:
            yield from _opened(path, file)
    except FileNotFoundError as error:
        raise InputError(f"{path}: no such file") from error
    except IsADirectoryError as error:
        raise InputError(f"{path} is a directory; name one file") from error
    except PermissionError as error:
        raise InputError(f"{path}: not readable by this user") from error
    except (zipfile.BadZipFile, gzip.BadGzipFile, zlib.error, EOFError) as error:
        raise _damaged(path) from error


def refuse_utf16(path: Path, beginning: bytes) -> None:
    """Refuse a text file that begins with the byte order mark of UTF-16, as some programs export it."""
    if beginning.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise SchemaError(f"{path}: the text is UTF-16; save it as UTF-8")


def _damaged(path: Path) -> SchemaError:
    return SchemaError(f"{path}: the compressed file is damaged, cut short, or not {path.suffix} data")


def _opened(path: Path, file: BinaryIO) -> Iterator[Source]:
    suffix = path.suffix.lower()
    if suffix == ".zip":
        with zipfile.ZipFile(file) as archive:
            member = _only_member(path, archive)
            with archive.open(member) as unpacked:
                counted = CountingStream(unpacked)  # type: ignore[arg-type]  # IO[bytes] reads as BinaryIO does
                yield Source(counted, counted, member.file_size)  # type: ignore[arg-type]
        return
    counted = CountingStream(file)
    total_bytes = path.stat().st_size
    if suffix == ".gz":
        with gzip.GzipFile(fileobj=counted) as unpacked_gzip:
            yield Source(unpacked_gzip, counted, total_bytes)  # type: ignore[arg-type]
        return
    if suffix == ".zst":
        with pa.CompressedInputStream(pa.PythonFile(counted, mode="r"), "zstd") as unpacked_zstd:
            yield Source(_Unpacked(unpacked_zstd, path), counted, total_bytes)  # type: ignore[arg-type]
        return
    yield Source(counted, counted, total_bytes)  # type: ignore[arg-type]


class _Unpacked(io.RawIOBase):
    """Reads of an unpacking stream. Raises SchemaError when what is packed is damaged or cut short."""

    def __init__(self, inner: pa.NativeFile, path: Path) -> None:
        super().__init__()
        self._inner = inner
        self._path = path

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]  # RawIOBase says Buffer
        data = self.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def read(self, size: int | None = -1) -> bytes:
        try:
            data: bytes = self._inner.read(None if size is None or size < 0 else size)
        except OSError as error:
            raise _damaged(self._path) from error
        return data


def _only_member(path: Path, archive: zipfile.ZipFile) -> zipfile.ZipInfo:
    members = [info for info in archive.infolist() if not info.is_dir() and not info.filename.startswith("__MACOSX/")]
    if len(members) != 1:
        raise SchemaError(f"{path} holds {len(members)} files; a zip to load must hold exactly one")
    if members[0].flag_bits & 0x1:
        raise SchemaError(f"{path} is encrypted; unpack it first")
    return members[0]
