from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mainstem.clock import SystemClock
from mainstem.errors import PositionTimeoutError, StorageError, UnavailableError, ViewStoppedError
from mainstem.model import Position, TopicPartition
from mainstem.views.past.historical_stores import HistoricalStores
from mainstem.views.stores.store import ViewStore
from tests.views.support import KINDS

WAIT_S = 120.0


def at(offset: int) -> Position:
    return Position.of("t", 0, offset)


class Built:
    """Builds empty stores, when it is let; keeps what it was asked for."""

    def __init__(self, directory: Path) -> None:
        self.asked: list[Position] = []
        self.may = threading.Event()
        self.may.set()
        self.began = threading.Event()
        self.fails: Exception | None = None
        self.directory = directory / "past"
        self.stores = HistoricalStores(self.directory, self.build, SystemClock(), stores_max=2)

    def build(self, path: Path, position: Position, go_on: Callable[[Position], None]) -> ViewStore:
        self.asked.append(position)
        self.began.set()
        while not self.may.wait(0.01):
            go_on(at(1))
        if self.fails is not None:
            raise self.fails
        return KINDS[0].open(path)

    def read(self, *offsets: int) -> None:
        for offset in offsets:
            with self.stores.lease([at(offset)], WAIT_S) as stores:
                assert stores[at(offset)].count() == 0


@pytest.fixture
def built(tmp_path: Path) -> Iterator[Built]:
    built = Built(tmp_path)
    yield built
    built.stores.close()
    assert not built.directory.exists()


def test_a_state_is_built_once_however_many_ask(built: Built) -> None:
    built.may.clear()
    readers = [threading.Thread(target=built.read, args=(7,)) for _ in range(8)]
    for reader in readers:
        reader.start()
    built.may.set()
    for reader in readers:
        reader.join(WAIT_S)
    built.read(7)
    assert built.asked == [at(7)]


def test_the_one_that_was_read_longest_ago_goes_first(built: Built) -> None:
    built.read(1, 2, 1, 3, 1, 2)
    assert built.asked == [at(1), at(2), at(3), at(2)]
    assert len(list(built.directory.iterdir())) == 2


def test_one_that_is_read_stays(built: Built) -> None:
    with built.stores.lease([at(1)], WAIT_S) as stores:
        built.read(2, 3, 4)
        assert stores[at(1)].count() == 0
        refused = pytest.raises(UnavailableError, match="2 other past states are being read")
        with built.stores.lease([at(4)], WAIT_S), refused, built.stores.lease([at(5)], 0):
            pass
    built.read(1)
    assert built.asked.count(at(1)) == 1


def test_who_gives_up_leaves_a_building_that_goes_on(built: Built) -> None:
    built.may.clear()
    with pytest.raises(PositionTimeoutError, match="goes on being built") as caught, built.stores.lease([at(7)], 0.1):
        pass
    assert caught.value.wanted == at(7)
    built.may.set()
    built.read(7)
    assert built.asked == [at(7)]


def test_what_fails_is_told_and_may_be_tried_again(built: Built) -> None:
    built.fails = StorageError("the disk is full")
    with pytest.raises(StorageError, match="the disk is full"):
        built.read(7)
    built.fails = None
    built.read(7)
    assert built.asked == [at(7), at(7)]


def test_what_counts_no_more_is_built_anew(built: Built) -> None:
    built.read(7)
    built.stores.forget()
    built.read(7)
    assert built.asked == [at(7), at(7)]


def test_what_counts_no_more_goes_when_its_reader_is_done(built: Built) -> None:
    with built.stores.lease([at(7)], WAIT_S) as stores:
        built.stores.forget()
        assert stores[at(7)].count() == 0
        built.read(7)
        assert len(list(built.directory.iterdir())) == 2
    assert (built.asked, len(list(built.directory.iterdir()))) == ([at(7), at(7)], 1)


def test_what_counts_no_more_while_it_is_built_is_built_anew_for_who_waits(built: Built) -> None:
    built.may.clear()
    reader = threading.Thread(target=built.read, args=(7,))
    reader.start()
    assert built.began.wait(WAIT_S)
    built.stores.forget()
    built.may.set()
    reader.join(WAIT_S)
    built.read(7)
    assert built.asked == [at(7), at(7)]


def test_several_states_are_taken_at_once_or_not_at_all(built: Built) -> None:
    with built.stores.lease([at(1), at(2)], WAIT_S) as stores:
        assert sorted(position[TopicPartition("t", 0)] for position in stores) == [1, 2]
    with built.stores.lease([at(1)], WAIT_S):
        with pytest.raises(UnavailableError), built.stores.lease([at(3), at(4)], 0):
            pass
        built.read(3, 4)


def test_a_stop_ends_the_building_and_who_waits(built: Built) -> None:
    built.may.clear()
    told: list[Exception] = []

    def read() -> None:
        try:
            built.read(7)
        except ViewStoppedError as error:
            told.append(error)

    reader = threading.Thread(target=read)
    reader.start()
    assert built.began.wait(WAIT_S)
    built.stores.stop()
    reader.join(WAIT_S)
    assert len(told) == 1
    with pytest.raises(ViewStoppedError):
        built.read(8)


def test_what_an_earlier_process_left_is_deleted(tmp_path: Path) -> None:
    (tmp_path / "past" / "000009").mkdir(parents=True)
    HistoricalStores(tmp_path / "past", Built(tmp_path / "other").build, SystemClock())
    assert not (tmp_path / "past").exists()
