"""``RingFile``: rows of numbers in a file of a fixed size, which survives a kill of the process at any point.

    bytes 0 …              the format
    two places             the names of the columns, written in turn, each with a generation and a checksum
    a place for each row   time, generation, number of columns, checksum, and the values as 32-bit floats

A row's place follows from its time: a new row replaces the oldest, and the file never grows. A row that was
torn by a kill, or that is newer than the names, is left out. A file of another format, or without valid names, is
dropped with one line in the log. Nothing is synced: a power cut may take the last half minute. Used by one thread.
"""

from __future__ import annotations

import json
import logging
import os
import struct
import zlib
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

_LOG: Final = logging.getLogger("mainstem.gateway")
_FORMAT: Final = b"mainstem history 1\n"
_FORMAT_BYTES: Final = 4096
COLUMNS_MAX: Final = 1_000
NAME_BYTES_MAX: Final = 300
_NAMES_BYTES: Final = 384 << 10
_NAMES_HEAD: Final = struct.Struct("<QII")  # generation, bytes, checksum
_ROW_BYTES: Final = 4096
_ROW_HEAD: Final = struct.Struct("<QQII")  # time, generation, columns, checksum


@dataclass(frozen=True, slots=True)
class Tier:
    """Rows of one resolution: one every ``step_s``, for as long as ``rows`` last."""

    step_s: int
    rows: int

    def place(self, at_ms: int) -> int:
        """The row's place, by its time."""
        return at_ms // (self.step_s * 1000) % self.rows

    @property
    def span_ms(self) -> int:
        """How far back the rows reach."""
        return self.step_s * self.rows * 1000


FINE: Final = Tier(5, 720)
COARSE: Final = Tier(60, 1_440)
TIERS: Final = (FINE, COARSE)
FILE_BYTES_MAX: Final = _FORMAT_BYTES + 2 * _NAMES_BYTES + _ROW_BYTES * sum(tier.rows for tier in TIERS)


class Row(NamedTuple):
    """The values of one time, by column; NaN where there is none."""

    at_ms: int
    values: array[float]


class RingFile:
    """One file. When the disk refuses, that is logged once, and the samples stay in memory."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor: int | None = None
        self._generation = 0
        self._is_refused = False

    def load(self) -> tuple[list[tuple[str, int]], list[list[Row]]]:
        """The columns, each with the time since when it has its name, and the rows of each tier."""
        try:
            self._descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            content = os.pread(self._descriptor, FILE_BYTES_MAX, 0)
        except OSError as error:
            self._refuse(error)
            return [], [[] for _ in TIERS]
        found = _names(content) if content.startswith(_FORMAT) else None
        if found is None:
            if content:
                _LOG.warning("%s is damaged or of another version: the history in it is dropped", self._path)
            self._begin()
            return [], [[] for _ in TIERS]
        self._generation, columns = found
        rows = [list(_rows(content, tier, self._generation)) for tier in range(len(TIERS))]
        return columns, rows

    def write_names(self, columns: list[tuple[str, int]]) -> None:
        """Replace the columns; a kill in the middle leaves the ones before."""
        self._generation += 1
        text = json.dumps(columns, ensure_ascii=False, separators=(",", ":")).encode()
        head = _NAMES_HEAD.pack(self._generation, len(text), _checksum(self._generation, text))
        self._write(head + text, _names_at(self._generation))

    def write_row(self, tier: int, row: Row) -> None:
        """Put a row in its place."""
        values = row.values.tobytes()
        key = _ROW_HEAD.pack(row.at_ms, self._generation, len(row.values), 0)
        head = _ROW_HEAD.pack(row.at_ms, self._generation, len(row.values), zlib.crc32(key + values))
        self._write(head + values, _row_at(tier, TIERS[tier].place(row.at_ms)))

    def close(self) -> None:
        """Close the file."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _begin(self) -> None:
        assert self._descriptor is not None
        try:
            os.ftruncate(self._descriptor, 0)
        except OSError as error:
            self._refuse(error)
        self._write(_FORMAT, 0)
        self.write_names([])

    def _write(self, data: bytes, place: int) -> None:
        if self._descriptor is None:
            return
        try:
            os.pwrite(self._descriptor, data, place)
        except OSError as error:
            self._refuse(error)
        else:
            self._is_refused = False

    def _refuse(self, error: OSError) -> None:
        if not self._is_refused:
            self._is_refused = True
            _LOG.warning("%s: the history is kept in memory only: %s", self._path, error.strerror or error)


def _checksum(generation: int, text: bytes) -> int:
    return zlib.crc32(generation.to_bytes(8, "little") + text)


def _names_at(generation: int) -> int:
    return _FORMAT_BYTES + generation % 2 * _NAMES_BYTES


def _row_at(tier: int, place: int) -> int:
    before = sum(each.rows for each in TIERS[:tier])
    return _FORMAT_BYTES + 2 * _NAMES_BYTES + (before + place) * _ROW_BYTES


def _names(content: bytes) -> tuple[int, list[tuple[str, int]]] | None:
    """The newest valid names with their generation; None when neither place has any."""
    found: list[tuple[int, bytes]] = []
    for place in (0, 1):
        start = _names_at(place)
        head = content[start : start + _NAMES_HEAD.size]
        if len(head) < _NAMES_HEAD.size:
            continue
        generation, size, checksum = _NAMES_HEAD.unpack(head)
        text_at = start + _NAMES_HEAD.size
        text = content[text_at : text_at + min(size, _NAMES_BYTES)]
        if generation and checksum == _checksum(generation, text):
            found.append((generation, text))
    if not found:
        return None
    generation, text = max(found)
    try:
        return generation, [(str(name), int(since_ms)) for name, since_ms in json.loads(text)][:COLUMNS_MAX]
    except (ValueError, TypeError):
        return None


def _rows(content: bytes, tier: int, generation: int) -> Iterator[Row]:
    for place in range(TIERS[tier].rows):
        start = _row_at(tier, place)
        head = content[start : start + _ROW_HEAD.size]
        if len(head) < _ROW_HEAD.size:
            continue
        at_ms, written, count, checksum = _ROW_HEAD.unpack(head)
        values_at = start + _ROW_HEAD.size
        values = content[values_at : values_at + 4 * min(count, COLUMNS_MAX)] if at_ms else b""
        if not values or written > generation or TIERS[tier].place(at_ms) != place:
            continue
        if zlib.crc32(_ROW_HEAD.pack(at_ms, written, count, 0) + values) == checksum:
            yield Row(at_ms, array("f", values))
