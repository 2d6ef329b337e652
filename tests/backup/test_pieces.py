"""Pieces lie where the writer said, however small and large ones take turns."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from mainstem.backup.pieces import PieceWriter
from mainstem.backup.source import opened
from mainstem.backup.stored_files import read_piece
from mainstem.log.segments.remote_segment import PIECE_BYTES_MAX
from mainstem.object_stores.directory_store import DirectoryStore

_SEED = 3


def test_small_and_large_stretches_are_read_back(tmp_path: Path) -> None:
    chance = random.Random(_SEED)
    store = DirectoryStore(tmp_path / "copies")
    stretches = [chance.randbytes(chance.choice((1, 100_000, 3 << 20, 5 << 20))) for _ in range(30)]
    with ThreadPoolExecutor(3) as threads:
        writer = PieceWriter(store, "one", threads)
        pieces = [writer.add(data, 7) for data in stretches]
        writer.finish()
    assert [read_piece(store, piece) for piece in pieces] == stretches
    assert {piece.object_name for piece in pieces} == {each.name for each in store.list("data/")}


def test_a_file_is_cut_into_pieces_of_bounded_size(tmp_path: Path) -> None:
    path, size = tmp_path / "file", 2 * PIECE_BYTES_MAX + 10
    with path.open("wb") as new:
        new.truncate(size)
    store = DirectoryStore(tmp_path / "copies")
    with ThreadPoolExecutor(3) as threads, opened(path) as file:
        writer = PieceWriter(store, "one", threads)
        pieces = list(writer.add_file(file, 3, size))
        writer.finish()
    assert [(piece.start, piece.end) for piece in pieces] == [
        (3, 3 + PIECE_BYTES_MAX),
        (3 + PIECE_BYTES_MAX, 3 + 2 * PIECE_BYTES_MAX),
        (3 + 2 * PIECE_BYTES_MAX, size),
    ]
    assert writer.uploaded_bytes == size - 3
