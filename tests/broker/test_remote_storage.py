"""Pieces of old segments: a bounded cache, loads that are shared, and stores that fail or hang."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path, PurePath
from types import SimpleNamespace
from typing import Any

import pytest

from mainstem.broker.storage.remote import remote_pieces, remote_storage
from mainstem.broker.storage.remote.remote_pieces import FILES_MAX, PIECES_MAX, RemotePieces
from mainstem.broker.storage.remote.remote_storage import _LOADS_AT_ONCE as LOADS_AT_ONCE
from mainstem.broker.storage.remote.remote_storage import _LOADS_MAX as LOADS_MAX
from mainstem.broker.storage.remote.remote_storage import RemoteStorage
from mainstem.clock import SystemClock
from mainstem.log.segments.remote_segment import (
    PIECE_BYTES_MAX,
    PiecesMissingError,
    RemoteFile,
    RemoteSegment,
    StoredPiece,
)
from mainstem.record.checksum import crc32c

PATH = PurePath("/data/events-0/00000000000000000000.log")
LIMIT_BYTES = 1 << 30


class Log:
    """What a load uses of a partition's log."""

    topic_partition = "events/0"
    cleaning = SimpleNamespace(forget_places=lambda: None)


LOG: Any = Log()
CONFIG: Any = {"remote.log.manager.task.interval.ms": "1000"}


class Clock(SystemClock):
    """A clock that a test moves on."""

    now_s = 100.0

    def monotonic_s(self) -> float:
        return self.now_s


class Store:
    """Gives the same bytes for each object, by what a test says."""

    url = "memory://store"

    def __init__(self, read: Callable[[str], bytes]) -> None:
        self._read = read
        self.names: list[str] = []

    def get_range(self, name: str, start: int, length: int) -> bytes:
        self.names.append(name)
        return self._read(name)[start : start + length]


def pieces_of(store: Any, directory: Path, limit_bytes: int = LIMIT_BYTES) -> RemotePieces:
    return RemotePieces(lambda: store, directory, limit_bytes)


def segment_of(data: bytes, count: int) -> RemoteSegment:
    size, crc = len(data), crc32c(data)
    pieces = tuple(StoredPiece(f"object-{n}", 0, n * size, (n + 1) * size, crc) for n in range(count))
    return RemoteSegment(Store.url, "", pieces)


def test_small_pieces_take_no_descriptors_and_are_bounded(tmp_path: Path) -> None:
    data = b"x" * 1000
    pieces = pieces_of(Store(lambda _: data), tmp_path)
    before = len(list(Path("/proc/self/fd").iterdir()))
    for piece in segment_of(data, 2 * PIECES_MAX).pieces:
        pieces.load(Store.url, piece)
    assert len(list(Path("/proc/self/fd").iterdir())) <= before + 1
    assert pieces.size_bytes == LIMIT_BYTES == PIECES_MAX << 20


def test_a_read_of_two_pieces_ends_in_the_smallest_cache(tmp_path: Path) -> None:
    data = bytes(PIECE_BYTES_MAX)
    store, segment = Store(lambda _: data), segment_of(data, 6)
    pieces = pieces_of(store, tmp_path, 1)
    file = RemoteFile(PATH, segment, pieces)

    async def read() -> None:
        woken = asyncio.Event()
        storage = RemoteStorage(CONFIG, SystemClock(), SimpleNamespace(), pieces, lambda _: woken.set())  # type: ignore[arg-type]
        for start in range(5):
            at = (start + 1) * PIECE_BYTES_MAX - 100
            for _ in range(4):
                try:
                    assert len(file.view(at, 200)) == 200
                    break
                except PiecesMissingError as missing:
                    woken.clear()
                    storage.begin(missing, LOG)
                    await woken.wait()
            else:
                raise AssertionError(store.names)
        await storage.stop()

    asyncio.run(read())
    assert pieces.size_bytes <= 4 * PIECE_BYTES_MAX


def test_a_piece_ahead_of_readers_takes_no_room_that_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data, now_s = bytes(PIECE_BYTES_MAX), [100.0]
    monkeypatch.setattr(remote_pieces.time, "monotonic", lambda: now_s[0])
    pieces = pieces_of(Store(lambda _: data), tmp_path, 1)
    *wanted, ahead = segment_of(data, 5).pieces
    for piece in wanted:
        pieces.load(Store.url, piece)
    pieces.load(Store.url, ahead, is_ahead=True)
    assert all(pieces.find(piece) for piece in wanted)
    assert pieces.find(ahead) is None
    now_s[0] += 6
    assert pieces.find(wanted[0]) is not None
    pieces.load(Store.url, ahead, is_ahead=True)
    assert [pieces.find(piece) is not None for piece in (*wanted, ahead)] == [True, False, True, True, True]
    assert pieces.size_bytes == 4 * PIECE_BYTES_MAX


def test_pieces_in_files_leave_descriptors_for_others(tmp_path: Path) -> None:
    data = bytes(300 << 10)
    pieces = pieces_of(Store(lambda _: data), tmp_path)
    before = len(list(Path("/proc/self/fd").iterdir()))
    for piece in segment_of(data, FILES_MAX + 50).pieces:
        pieces.load(Store.url, piece)
    assert before + FILES_MAX - 5 <= len(list(Path("/proc/self/fd").iterdir())) <= before + FILES_MAX + 1


def test_a_long_piece_comes_in_several_requests(tmp_path: Path) -> None:
    data = bytes(range(256)) * (10 << 12)
    store, steps = Store(lambda _: data), []
    pieces_of(store, tmp_path).load(Store.url, segment_of(data, 1).pieces[0], lambda: steps.append(len(store.names)))
    assert steps == [1, 2, 3]


def test_a_failure_is_told_to_all_readers_and_a_later_read_tries_again(tmp_path: Path) -> None:
    answers: list[Any] = [MemoryError("no memory"), OSError("no network"), b"other", b"bytes"]

    def read(_: str) -> bytes:
        found = answers.pop(0)
        if isinstance(found, Exception):
            raise found
        assert isinstance(found, bytes)
        return found

    segment = segment_of(b"bytes", 1)
    missing = PiecesMissingError(PATH, segment, segment.pieces)
    told: list[str] = []

    async def run() -> None:
        woken: list[Any] = []
        clock, pieces = Clock(), pieces_of(Store(read), tmp_path)
        storage = RemoteStorage(CONFIG, clock, SimpleNamespace(), pieces, woken.append)  # type: ignore[arg-type]
        while pieces.find(segment.pieces[0]) is None:
            assert storage.begin(missing, LOG) is None
            assert storage.begin(missing, LOG) is None  # the reader looks again
            count = len(woken)
            while len(woken) == count:
                await asyncio.sleep(0)
            assert len(woken) == count + 1
            if pieces.find(segment.pieces[0]) is None:
                told.append(str(storage.begin(missing, LOG)))
                assert str(storage.begin(missing, LOG)) == told[-1]  # another reader
            clock.now_s += 3
        assert storage.failed_loads == 3

    asyncio.run(run())
    assert [text.rsplit(": ", 1)[1] for text in told[:2]] == ["no memory", "no network"]
    assert "do not match their checksum" in told[2]


def test_a_store_that_hangs_does_not_hold_up_the_end(tmp_path: Path) -> None:
    begun, end = threading.Event(), threading.Event()

    def hang(_: str) -> bytes:
        begun.set()
        end.wait(60)
        return b""

    segment = segment_of(b"bytes", 1)

    async def run() -> None:
        storage = RemoteStorage(CONFIG, SystemClock(), SimpleNamespace(), pieces_of(Store(hang), tmp_path), print)  # type: ignore[arg-type]
        assert storage.begin(PiecesMissingError(PATH, segment, segment.pieces), LOG) is None
        while not begun.is_set():
            await asyncio.sleep(0)
        await asyncio.wait_for(storage.stop(), 5)

    asyncio.run(run())
    assert all(thread.daemon for thread in threading.enumerate() if thread.name == "remote segments")
    end.set()


def test_a_store_that_hung_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Readers get an error when a load does not go on; when the store answers again, they are served."""
    monkeypatch.setattr(remote_storage, "_LOAD_S", 0.05)
    monkeypatch.setattr(remote_storage, "_TRY_AGAIN_S", 0.0)
    end, is_hanging = threading.Event(), [True]

    def read(_: str) -> bytes:
        if is_hanging[0]:
            end.wait(60)
        return b"bytes"

    segment = segment_of(b"bytes", 12)
    told: list[str] = []

    async def run() -> None:
        woken = asyncio.Event()
        clock, pieces = Clock(), pieces_of(Store(read), tmp_path)
        storage = RemoteStorage(CONFIG, clock, SimpleNamespace(), pieces, lambda _: woken.set())  # type: ignore[arg-type]
        wanted = [PiecesMissingError(PATH, segment, [piece]) for piece in segment.pieces]
        left = list(wanted)
        while left:
            left = [each for each in left if (error := storage.begin(each, LOG)) is None or told.append(str(error))]
            clock.now_s += 0.01
            await asyncio.sleep(0)
        is_hanging[0] = False
        clock.now_s += 3
        while any(pieces.find(piece) is None for piece in segment.pieces):
            for each in wanted:
                assert pieces.find(each.pieces[0]) or storage.begin(each, LOG) is None
            await asyncio.sleep(0)
        await storage.stop()

    asyncio.run(run())
    end.set()
    assert len(told) == 12
    assert all(text.endswith("the store has not gone on for 0.05 s") for text in told)


def test_few_loads_run_at_once_and_no_more_wait_than_may(tmp_path: Path) -> None:
    end, lock, running = threading.Event(), threading.Lock(), [0, 0]

    def read(_: str) -> bytes:
        with lock:
            running[0] += 1
            running[1] = max(running)
        end.wait(60)
        with lock:
            running[0] -= 1
        return b"bytes"

    segment = segment_of(b"bytes", LOADS_MAX + 10)

    async def run() -> None:
        storage = RemoteStorage(CONFIG, Clock(), SimpleNamespace(), pieces_of(Store(read), tmp_path), lambda _: None)  # type: ignore[arg-type]
        for piece in segment.pieces:
            assert storage.begin(PiecesMissingError(PATH, segment, [piece]), LOG) is None
        assert len(storage._loads) == LOADS_MAX
        while running[1] < LOADS_AT_ONCE:
            await asyncio.sleep(0)
        for _ in range(LOADS_MAX):  # every load had its turn to begin
            await asyncio.sleep(0)
        end.set()
        await asyncio.wait([load.task for load in storage._loads.values()])
        await storage.stop()

    asyncio.run(run())
    assert running == [0, LOADS_AT_ONCE]


def test_the_piece_after_one_that_is_read_is_loaded_ahead(tmp_path: Path) -> None:
    segment = segment_of(b"bytes", 3)

    async def run() -> None:
        pieces = pieces_of(Store(lambda _: b"bytes"), tmp_path)
        storage = RemoteStorage(CONFIG, Clock(), SimpleNamespace(), pieces, lambda _: None)  # type: ignore[arg-type]
        first, second, third = segment.pieces
        assert storage.begin(PiecesMissingError(PATH, segment, [first], second), LOG) is None
        await asyncio.wait([load.task for load in storage._loads.values()])
        assert [pieces.find(piece) is not None for piece in (first, second, third)] == [True, True, False]
        await storage.stop()

    asyncio.run(run())


def test_where_segments_are_is_read_again_when_a_load_has_failed(tmp_path: Path) -> None:
    forgotten: list[bool] = []

    class Moved(Log):
        cleaning = SimpleNamespace(forget_places=lambda: forgotten.append(True))

    segment, log = segment_of(b"bytes", 1), Moved()

    async def run() -> None:
        pieces = pieces_of(Store(lambda _: b"other"), tmp_path)
        storage = RemoteStorage(CONFIG, Clock(), SimpleNamespace(), pieces, lambda _: None)  # type: ignore[arg-type]
        assert storage.begin(PiecesMissingError(PATH, segment, segment.pieces), log) is None  # type: ignore[arg-type]
        await asyncio.wait([load.task for load in storage._loads.values()])
        await storage.stop()

    asyncio.run(run())
    assert forgotten == [True]
