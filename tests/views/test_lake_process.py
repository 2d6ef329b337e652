"""A lake's SQL in a process of its own: it answers from the files and the records that are in no file yet."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from mainstem.pipelines.kinds import Lake
from mainstem.views.requests import SqlQuery
from mainstem.views.stores.lake.lake import LakeStore
from mainstem.views.stores.lake.lake_process import IsolatedLake, RowsMissingError
from mainstem.views.stores.store import StoreDefinition
from tests.views.support import SCHEMA, apply, flight

OFFSETS = SqlQuery("SELECT _offset FROM routes ORDER BY _offset")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[LakeStore]:
    opened = LakeStore.isolated(tmp_path / "lake", StoreDefinition("routes", Lake(), SCHEMA))
    yield opened
    opened.close()


def isolated(store: LakeStore) -> IsolatedLake:
    assert isinstance(store._sql, IsolatedLake)
    return store._sql


def offsets(store: LakeStore) -> list[int]:
    return [row["_offset"] for row in store.query(OFFSETS).rows]


def test_each_record_is_there_once_over_appends_commits_and_merges(store: LakeStore) -> None:
    for batch in range(40):
        apply(store, [flight(f"{n}", "A", "B") for n in range(3)], 3 * batch)
        assert offsets(store) == list(range(3 * batch + 3))
        if batch % 5 == 4:
            store.commit()
        store.settle()


def test_a_view_without_queries_has_no_process(store: LakeStore) -> None:
    apply(store, [flight("1", "A", "B")])
    store.commit()
    assert isolated(store)._process._child is None


def test_a_snapshot_from_before_a_commit_reads_on(store: LakeStore) -> None:
    apply(store, [flight("1", "A", "B"), flight("2", "A", "B")])
    former = store._state
    with store.snapshot() as snapshot:
        store.commit()
        apply(store, [flight("3", "A", "B")], 2)
        assert offsets(store) == [0, 1, 2]
        assert [row["_offset"] for row in snapshot.query(OFFSETS)] == [0, 1]
    files = store._list(former.files)
    assert len(isolated(store).answer(OFFSETS, files, former.gathered, former.bookmark).rows) == 2
    assert offsets(store) == [0, 1, 2]


def test_a_record_is_sent_once(store: LakeStore) -> None:
    def is_kept(rows: int) -> bool:
        files, gathered = store._list(store._state.files), store._state.gathered
        try:
            isolated(store)._process.living().call("answer", OFFSETS, files, gathered.run, rows, rows, b"")
        except RowsMissingError:
            return False
        return True

    apply(store, [flight("1", "A", "B"), flight("2", "A", "B")])
    assert not is_kept(2)
    assert offsets(store) == [0, 1]
    assert is_kept(2)
    assert not is_kept(3)
