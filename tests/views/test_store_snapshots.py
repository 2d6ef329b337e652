from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from mainstem.model import Position
from mainstem.pipelines.kinds import SQL, KeyValue
from mainstem.views.stores.store import Row, ViewStore, no_dead_letters
from mainstem.views.stores.store_snapshots import KEPT_MAX, StoreSnapshots, copy_store
from tests.views import killed_snapshots
from tests.views.forked import forked
from tests.views.killed_snapshots import EVERY, RECORDS
from tests.views.support import KINDS, TOPIC, KindUnderTest, apply, arrow_batch, flight, history
from tests.views.tampering import run_in_duckdb

WITH_PAST = [kind for kind in KINDS if isinstance(kind.kind, KeyValue | SQL)]
OTHERS = [kind for kind in KINDS if kind not in WITH_PAST]
HUGE = 1 << 40  # bytes applied: as many as any copy takes


@pytest.fixture(params=WITH_PAST, ids=lambda kind: kind.name)
def kind(request: pytest.FixtureRequest) -> KindUnderTest:
    chosen: KindUnderTest = request.param
    chosen.prepare(request)
    return chosen


@pytest.fixture
def store(kind: KindUnderTest, tmp_path: Path) -> Iterator[ViewStore]:
    opened = kind.open(tmp_path / "store")
    yield opened
    opened.close()


def fill(store: ViewStore, snapshots: StoreSnapshots, count: int, records: int = 1) -> None:
    """Apply a record ``count`` times, each time telling that it were ``records``."""
    for number in range(count):
        apply(store, [flight(f"{number}", "A", "B", number)], number)
        snapshots.applied(store, records, HUGE)


def rows_of(kind: KindUnderTest, snapshots: StoreSnapshots, number: int, scratch: Path) -> list[Row]:
    copy_store(snapshots.all[number], scratch)
    opened = kind.open(scratch)
    rows = opened.query(kind.everything).rows
    assert opened.bookmark == snapshots.all[number].bookmark
    opened.close()
    return rows


def positions(snapshots: StoreSnapshots) -> list[int]:
    return [found.offsets for found in snapshots.all]


def test_a_snapshot_is_the_store_as_it_was(kind: KindUnderTest, store: ViewStore, tmp_path: Path) -> None:
    snapshots = StoreSnapshots(tmp_path / "snapshots", every_records=1)
    records = history(3, 200)
    for first in range(0, 200, 50):
        apply(store, records[first : first + 50], first)
        snapshots.applied(store, 50, HUGE)
        assert rows_of(kind, snapshots, -1, tmp_path / f"{first}") == store.query(kind.everything).rows
    apply(store, [flight("new", "A", "B")], 200)
    assert "new" not in {row["_key"] for row in rows_of(kind, snapshots, -1, tmp_path / "after")}


def test_a_snapshot_does_not_change_with_what_began_at_it(
    kind: KindUnderTest, store: ViewStore, tmp_path: Path
) -> None:
    snapshots = StoreSnapshots(tmp_path / "snapshots", every_records=1)
    fill(store, snapshots, 1)
    copy_store(snapshots.all[0], tmp_path / "copy")
    copy = kind.open(tmp_path / "copy")
    apply(copy, history(1, 100), 1)
    copy.close()
    assert [row["_key"] for row in rows_of(kind, snapshots, 0, tmp_path / "again")] == ["0"]


def test_one_is_made_every_so_many_records(store: ViewStore, tmp_path: Path) -> None:
    snapshots = StoreSnapshots(tmp_path / "snapshots", every_records=10)
    fill(store, snapshots, 9, records=4)
    assert positions(snapshots) == [3, 6, 9]


def test_a_large_store_is_copied_less_often(store: ViewStore, tmp_path: Path) -> None:
    snapshots = StoreSnapshots(tmp_path / "snapshots", every_records=1)
    fill(store, snapshots, 1)
    for _ in range(5):
        snapshots.applied(store, 1, 1)  # less than the last copy took
    assert len(snapshots.all) == 1


def test_those_that_are_kept_spread_over_the_past(store: ViewStore, tmp_path: Path) -> None:
    snapshots = StoreSnapshots(tmp_path / "snapshots", every_records=1)
    fill(store, snapshots, 25)
    kept = positions(snapshots)
    assert (len(kept), kept[0], kept[-1]) == (KEPT_MAX, 1, 25)
    assert max(after - before for before, after in itertools.pairwise(kept)) <= 25 * 2 / KEPT_MAX
    assert len(list((tmp_path / "snapshots").iterdir())) == KEPT_MAX


def test_they_are_there_again_after_a_restart(store: ViewStore, tmp_path: Path) -> None:
    snapshots = StoreSnapshots(tmp_path / "snapshots", every_records=1)
    fill(store, snapshots, 3)
    again = StoreSnapshots(tmp_path / "snapshots", every_records=1)
    assert again.all == snapshots.all
    apply(store, [flight("4", "A", "B")], 3)
    again.applied(store, 1, HUGE)
    assert [found.number for found in again.all] == [1, 2, 3, 4]


def test_the_newest_that_a_position_covers_is_chosen_and_stays_while_it_is_leased(
    store: ViewStore, tmp_path: Path
) -> None:
    snapshots = StoreSnapshots(tmp_path / "snapshots", every_records=1)
    fill(store, snapshots, 3)
    with snapshots.newest_within(Position.of(TOPIC, 0, 2)) as chosen:
        assert chosen is not None
        assert chosen.offsets == 2
        fill(store, snapshots, 12)
        assert (chosen in snapshots.all, chosen.path.exists()) == (True, True)
    with snapshots.newest_within(Position()) as none:
        assert none is None


def test_a_state_that_lacks_what_compaction_removed_is_not_kept(store: ViewStore, tmp_path: Path) -> None:
    snapshots = StoreSnapshots(tmp_path / "snapshots", every_records=1)
    fill(store, snapshots, 1)
    for position in (5, 9):
        bookmark = replace(
            store.bookmark, position=Position.of(TOPIC, 0, position), exact_from=Position.of(TOPIC, 0, 9)
        )
        store.apply(arrow_batch([flight("x", "A", "B")]), bookmark, no_dead_letters)
        snapshots.applied(store, 1, HUGE)
    assert positions(snapshots) == [1, 9]


def test_a_snapshot_that_cannot_be_made_does_not_stop_the_view(store: ViewStore, tmp_path: Path) -> None:
    (tmp_path / "snapshots").mkdir()
    snapshots = StoreSnapshots(tmp_path / "snapshots", every_records=1)
    (tmp_path / "snapshots").rmdir()
    (tmp_path / "snapshots").write_text("in the way")
    fill(store, snapshots, 2)
    (tmp_path / "snapshots").unlink()
    apply(store, [flight("1", "A", "B")], 2)
    snapshots.applied(store, 1, HUGE)
    assert positions(snapshots) == [3]


def test_a_copy_that_fails_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = WITH_PAST[0].open(tmp_path / "store")

    def fail(path: Path) -> int:
        path.mkdir()
        (path / "half").write_bytes(b"x")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(store, "copy_to", fail)
    fill(store, StoreSnapshots(tmp_path / "snapshots", every_records=1), 3)
    store.close()
    assert list((tmp_path / "snapshots").iterdir()) == []


def test_none_is_made_of_a_store_that_somebody_else_wrote_to(tmp_path: Path) -> None:
    sql = next(kind for kind in WITH_PAST if kind.name == "sql")
    store = sql.open(tmp_path / "store")
    apply(store, [flight("1", "A", "B")])
    store.close()
    run_in_duckdb(tmp_path / "store", statement="UPDATE routes SET miles = 99")
    store = sql.open(tmp_path / "store")
    snapshots = StoreSnapshots(tmp_path / "snapshots", every_records=1)
    fill(store, snapshots, 2)
    store.close()
    assert snapshots.all == ()


def test_after_they_were_voided_none_are_made_also_after_a_restart(store: ViewStore, tmp_path: Path) -> None:
    snapshots = StoreSnapshots(tmp_path / "snapshots", every_records=1)
    fill(store, snapshots, 2)
    snapshots.void()
    fill(store, snapshots, 2)
    again = StoreSnapshots(tmp_path / "snapshots", every_records=1)
    fill(store, again, 2)
    assert (snapshots.all, again.all, again.is_void) == ((), (), True)


@pytest.mark.parametrize("kind", OTHERS, ids=lambda kind: kind.name, indirect=True)
def test_other_kinds_keep_none(kind: KindUnderTest, tmp_path: Path) -> None:
    store = kind.open(tmp_path / "other")
    snapshots = StoreSnapshots(tmp_path / "snapshots", every_records=1)
    fill(store, snapshots, 2)
    store.close()
    assert (snapshots.all, (tmp_path / "snapshots").exists()) == ((), False)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind.name in ("key-value", "sql")], ids=lambda k: k.name)
def test_a_kill_at_any_step_leaves_whole_snapshots_only(kind: KindUnderTest, tmp_path: Path) -> None:
    with forked(killed_snapshots.main, kind.name, str(tmp_path)) as process:
        assert process.wait(300) == 0
        steps = int(process.stdout.read())
    assert steps >= 8
    model = _last_two_states(kind, tmp_path / "model")
    for step in range(steps + 1):
        snapshots = StoreSnapshots(tmp_path / f"{step}" / "snapshots")
        assert len(snapshots.all) >= KEPT_MAX
        assert rows_of(kind, snapshots, -1, tmp_path / f"{step}" / "scratch") == model[snapshots.all[-1].offsets]
        left = {path.name for path in (tmp_path / f"{step}" / "snapshots").iterdir()}
        assert left == {found.path.name for found in snapshots.all}


def _last_two_states(kind: KindUnderTest, path: Path) -> dict[int, list[Row]]:
    store = kind.open(path)
    rows = {}
    before = len(RECORDS) - EVERY
    for first, last in ((0, before), (before, len(RECORDS))):
        apply(store, RECORDS[first:last], first)
        rows[last] = store.query(kind.everything).rows
    store.close()
    return rows
