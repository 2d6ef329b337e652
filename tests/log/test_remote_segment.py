"""Segments in a store alone: their bytes come in pieces, and which segments leave the disk."""

from __future__ import annotations

from pathlib import PurePath

import pytest

from mainstem.errors import StorageError
from mainstem.log.partition.checkpoints import encode_uuid
from mainstem.log.segments.remote_segment import PiecesMissingError, RemoteFile, RemoteSegment, StoredPiece
from mainstem.record.checksum import crc32c
from tests.log.support import NOW_MS, TOPIC_ID, Node, batch

HOUR_MS = 3_600_000
PATH = PurePath("/data/events-0/00000000000000000000.log")


class Loaded:
    """A store in memory, of which pieces are loaded on demand."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.loaded: dict[StoredPiece, memoryview] = {}
        self.loads = 0

    def store(self, data: bytes, sizes: list[int]) -> RemoteSegment:
        """Cut into pieces of these sizes, and of what is left."""
        pieces, at = [], 0
        for size in [*sizes, len(data) - sum(sizes)]:
            name = f"object-{len(self.objects)}"
            self.objects[name] = data[at : at + size]
            pieces.append(StoredPiece(name, 0, at, at + size, crc32c(data[at : at + size])))
            at += size
        return RemoteSegment("file:///store", encode_uuid(TOPIC_ID), tuple(pieces))

    def find(self, piece: StoredPiece) -> memoryview | None:
        return self.loaded.get(piece)

    def load(self, missing: PiecesMissingError) -> None:
        assert missing.stored.url == "file:///store"
        for piece in missing.pieces:
            self.loads += 1
            self.loaded[piece] = memoryview(self.objects[piece.object_name])


def test_bytes_come_from_the_pieces_that_hold_them() -> None:
    store, data = Loaded(), bytes(range(100))
    segment = store.store(data, [10, 30, 20])
    file = RemoteFile(PATH, segment, store)
    with pytest.raises(PiecesMissingError) as missing:
        file.read(5, 20)
    assert (missing.value.pieces, missing.value.next_piece) == (segment.pieces[:2], segment.pieces[2])
    store.load(PiecesMissingError(PATH, segment, segment.pieces))
    for start in range(102):
        for length in (0, 1, 29, 200):
            assert file.read(start, length) == data[start : start + length]
    with pytest.raises(StorageError, match="cannot be cut"):
        file.truncate(3)


def test_what_a_file_says_is_read_back_or_refused() -> None:
    segment = Loaded().store(b"x" * 100, [40])
    data = segment.encode()
    assert RemoteSegment.decode(data, PATH) == segment
    for at in range(len(data)):
        with pytest.raises(StorageError, match="the backup writes it again"):
            RemoteSegment.decode(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :], PATH)


def hourly(seed: int = 0, **configs: str) -> Node:
    """A partition with a segment for each of six hours, of which the newest is the active one."""
    node = Node(seed=seed, segment_bytes="150", remote_storage_enable="true", retention_ms="-1", **configs)
    for hour in range(6):
        node.clock.set_time_ms(NOW_MS + hour * HOUR_MS)
        node.log.append(batch(b"%d" % hour * 60, timestamp_ms=NOW_MS + hour * HOUR_MS))
    node.log.flush()
    assert node.log.statistics().segments == 6
    return node


def releasable(node: Node) -> list[int]:
    return [segment.base_offset for segment in node.log.cleaning.releasable(node.clock.time_ms())]


def test_segments_that_are_older_than_local_retention_leave_the_disk() -> None:
    assert releasable(hourly(local_retention_ms=str(2 * HOUR_MS))) == [0, 1, 2]
    assert releasable(hourly(local_retention_ms="0")) == [0, 1, 2, 3, 4]
    assert releasable(hourly()) == []
    assert releasable(hourly(local_retention_ms="0", remote_log_copy_disable="true")) == []


def test_the_oldest_leave_while_more_is_on_the_disk_than_wanted() -> None:
    size = hourly().log.size_bytes // 6
    assert releasable(hourly(local_retention_bytes=str(3 * size))) == [0, 1, 2]
    assert releasable(hourly(local_retention_bytes=str(3 * size + 1))) == [0, 1]


def test_what_is_not_durable_stays() -> None:
    node = Node(segment_bytes="150", remote_storage_enable="true", local_retention_bytes="0")
    for hour in range(3):
        node.log.append(batch(b"%d" % hour * 60))
    assert releasable(node) == []
    node.log.flush()
    assert releasable(node) == [0, 1]


def test_a_segment_without_bytes_stays() -> None:
    assert RemoteSegment("file:///store", "", ()).size_bytes == 0
    assert not RemoteSegment("file:///store", "", ()).is_copy_of(RemoteFile(PATH, Loaded().store(b"", []), None), 0)
