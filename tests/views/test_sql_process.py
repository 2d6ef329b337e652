"""A SQL table in a process of its own: kills lose no write. What ends such a process in general: test_query_process."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mainstem.errors import StorageError
from mainstem.pipelines.kinds import SQL
from mainstem.views.requests import SqlQuery
from mainstem.views.stores.store import StoreDefinition, ViewStore
from mainstem.views.stores.store_kinds import open_store
from mainstem.views.stores.store_snapshots import StoreSnapshots
from tests.views.support import SCHEMA, apply, flight, kill_process_of

DEFINITION = StoreDefinition("routes", SQL(), SCHEMA)
ROWS = SqlQuery("SELECT * FROM routes ORDER BY _key")
NUMBER = SqlQuery("SELECT count(*) AS n FROM routes")
HUGE = 1 << 40  # bytes applied: as many as any copy takes


@pytest.fixture
def store(tmp_path: Path) -> Iterator[ViewStore]:
    opened = open_store(tmp_path / "store", DEFINITION, for_users=True)
    yield opened
    opened.close()


def test_a_killed_process_is_started_again_by_a_read_and_by_a_write(store: ViewStore) -> None:
    apply(store, [flight("1", "A", "B")])
    kill_process_of(store)
    assert store.query(NUMBER).rows == [{"n": 1}]
    kill_process_of(store)
    apply(store, [flight(f"{n}", "A", "B") for n in range(100)], 1)
    assert store.query(NUMBER).rows == [{"n": 100}]
    assert store.position == store.query(NUMBER).position


def test_a_process_that_is_killed_before_its_first_call_is_started_again(store: ViewStore) -> None:
    kill_process_of(store)
    apply(store, [flight("1", "A", "B")])
    kill_process_of(store)
    assert store.query(NUMBER).rows == [{"n": 1}]


def test_kills_within_writes_lose_no_row_and_write_none_of_another_state(store: ViewStore) -> None:
    over = threading.Event()

    def kill() -> None:
        for _ in range(6):
            kill_process_of(store)
            if over.wait(0.3):
                return

    killer = threading.Thread(target=kill)
    killer.start()
    for batch in range(60):
        apply(store, [flight(f"{n}", "A", f"{batch}") for n in range(3)], 3 * batch)
    over.set()
    killer.join()
    assert [row["dest"] for row in store.query(ROWS).rows] == ["59"] * 3
    with store.snapshot() as snapshot:
        assert snapshot.position == store.position


@pytest.mark.parametrize("call", ["snapshot", "copy_to"])
def test_a_process_that_ends_while_a_snapshot_is_made_does_not_stop_the_view(
    store: ViewStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    snapshots = StoreSnapshots(tmp_path / "snapshots", every_records=2)
    made = getattr(store, call)

    def killed(*arguments: Any) -> Any:
        if call == "snapshot":  # the kill comes after it: ``intact`` is the call that finds no process
            taken = made()
        kill_process_of(store)
        return taken if call == "snapshot" else made(*arguments)

    def write(number: int) -> list[int]:
        apply(store, [flight(f"{number}", "A", "B")], number)
        snapshots.applied(store, 1, HUGE)
        return [found.offsets for found in snapshots.all]

    monkeypatch.setattr(store, call, killed)
    assert [write(0), write(1)] == [[], []]
    monkeypatch.undo()
    assert [write(2), write(3)] == [[], [4]]
    assert store.query(NUMBER).rows == [{"n": 4}]


def test_a_store_whose_file_is_damaged_says_so(tmp_path: Path) -> None:
    open_store(tmp_path / "store", DEFINITION, for_users=True).close()
    (tmp_path / "store" / "view.duckdb").write_bytes(b"x" * 20_000)
    with pytest.raises(StorageError, match="cannot be opened"):
        open_store(tmp_path / "store", DEFINITION, for_users=True)
