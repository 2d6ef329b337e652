"""A sink is killed before each of its calls to the database, and goes on: nothing is lost, nothing is twice."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path

import pytest

from mainstem.model import Position
from mainstem.pipelines.kinds import SINK_NAMES
from mainstem.views.stores.store import Bookmark, ViewStore, no_dead_letters
from mainstem.views.stores.store_kinds import open_store
from tests.sinks.databases import SinkDatabase
from tests.sinks.killing import run_killed
from tests.sinks.support import definition, serving, table
from tests.views.support import TOPIC, KeyAndValue, arrow_batch

STRIDE = int(os.environ.get("MAINSTEM_SINK_STRIDE", "7"))
"""A kill comes before each so many-th call, in each database before other ones; ``make sink-kills``: before each."""
_STEP = 10
_SERVED = 3
"""How many steps the first version takes before it is rebuilt."""


def records(count: int) -> list[KeyAndValue]:
    """A seeded history over few keys, with tombstones."""
    chance = random.Random(7)
    made: list[KeyAndValue] = []
    for number in range(count):
        key = chance.randrange(12)
        value = {"id": key, "name": f"n{number}", "price": number}
        made.append((str(key).encode(), None if chance.random() < 0.2 else json.dumps(value).encode()))
    return made


RECORDS = records(_STEP * (_SERVED + 2))


def fold(count: int) -> list[tuple[int, str]]:
    """The rows that the first records make."""
    rows: dict[int, str] = {}
    for key, value in RECORDS[:count]:
        rows.pop(int(key or b""), None)
        if value is not None:
            rows[int(key or b"")] = json.loads(value)["name"]
    return sorted(rows.items())


def go_on(store: ViewStore, until: int) -> None:
    """Apply what follows the store's position, as a view does."""
    for first in range(sum(store.position.values()), until, _STEP):
        bookmark = Bookmark(Position.of(TOPIC, 0, first + _STEP), {TOPIC: "id"})
        store.apply(arrow_batch(RECORDS[first : first + _STEP], first), bookmark, no_dead_letters)


class _Sink:
    """A sink that is built, rebuilt and goes on, with the pointer to its current version that a view keeps."""

    def __init__(self, directory: Path, database: SinkDatabase) -> None:
        self._directory = directory
        self._of = definition(database)
        directory.mkdir()

    @property
    def current(self) -> Path:
        pointer = self._directory / "current"
        return self._directory / (pointer.read_text() if pointer.exists() else "v1")

    def work(self) -> None:
        with serving(self._directory / "v1", self._of) as old:
            go_on(old, _SERVED * _STEP)
            new = open_store(self._directory / "v2", self._of, for_users=True)
            go_on(new, _SERVED * _STEP)
            (self._directory / "current").write_text("v2")
            new.serve()
        go_on(new, len(RECORDS))
        new.close()

    def check(self, database: SinkDatabase) -> None:
        """What a kill has left is a fold of the records up to the position; going on ends where all of them do."""
        with serving(self.current, self._of) as store:
            reached = sum(store.position.values())
            assert reached % _STEP == 0
            assert [row[:2] for row in table(database)] == fold(reached)
            go_on(store, len(RECORDS))
        assert [row[:2] for row in table(database)] == fold(len(RECORDS))
        assert database.execute("SELECT table_name FROM mainstem_sinks") == [("orders",)]
        assert database.tables() == ["mainstem_sinks", "orders"]


def test_a_sink_is_whole_after_a_kill_before_each_call(sink_database: SinkDatabase, tmp_path: Path) -> None:
    call = 1 + SINK_NAMES.index(sink_database.name) % STRIDE
    while True:
        sink = _Sink(tmp_path / f"killed-{call}", sink_database)
        was_killed = run_killed(sink.work, call)
        sink.check(sink_database)
        for name in sink_database.tables():
            sink_database.execute(f"DROP TABLE {name}")
        if not was_killed:
            break
        call += STRIDE
    assert call > 60  # connections, statements, commits of two versions


@pytest.mark.parametrize("seed", range(2))
def test_a_sink_is_whole_when_the_server_crashes_too(sink_database: SinkDatabase, tmp_path: Path, seed: int) -> None:
    sink = _Sink(tmp_path / "sink", sink_database)
    run_killed(sink.work, random.Random(seed).randrange(20, 90))
    sink_database.crash()
    sink.check(sink_database)
