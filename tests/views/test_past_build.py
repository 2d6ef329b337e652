"""Past states over a log in memory: each equals a plain model of the records before its position, or is refused."""

from __future__ import annotations

import itertools
import json
import random
import shutil
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any, cast

import pytest

from mainstem.clock import SystemClock
from mainstem.errors import HistoryRemovedError, ViewStoppedError
from mainstem.model import Position, TopicPartition
from mainstem.pipelines.kinds import SQL, KeyValue
from mainstem.record.writer import NewRecord, build_batch
from mainstem.views.feed.feed import Feed
from mainstem.views.past.past_build import PastBuilder
from mainstem.views.stores.store import Bookmark, Row, StoreDefinition, ViewStore, no_dead_letters
from mainstem.views.stores.store_snapshots import StoreSnapshots, store_in
from mainstem.views.verification.diff import Change, changes_between
from mainstem.views.verification.diff_request import DiffRequest
from tests.views.fake_log import FIRST_LIFE, TOPIC, FakeLog
from tests.views.support import KINDS, POISON, SCHEMA, KeyAndValue, KindUnderTest, flight, history, tombstone

HUGE = 1 << 40
WITH_PAST = [kind for kind in KINDS if isinstance(kind.kind, KeyValue | SQL)]
LATEST_VALUE = [kind for kind in WITH_PAST if kind.name in ("key-value", "sql")]


def cut(records: Sequence[KeyAndValue], chance: random.Random) -> list[bytes]:
    """The records of a partition as batches of seeded sizes."""
    batches, at = [], 0
    while at < len(records):
        size = chance.randint(1, 4)
        batches.append(build_batch([NewRecord(k, v) for k, v in records[at : at + size]], base_offset=at))
        at += size
    return batches


class Past:
    """A topic of two partitions with a seeded history, and the snapshots that a view of it has made."""

    def __init__(self, kind: KindUnderTest, directory: Path, seed: int, every: int) -> None:
        chance = random.Random(seed)
        self.kind = kind
        self.directory = directory
        self.records: dict[int, list[KeyAndValue]] = {0: [], 1: []}
        for key, value in history(seed, 24):
            self.records[sum(key or b"") % 2].append((key, value))
        batches = {number: cut(records, chance) for number, records in self.records.items()}
        self.log = FakeLog(batches, fetch_bytes=600)
        self.definition = StoreDefinition("routes", kind.kind, SCHEMA)
        self.snapshots = StoreSnapshots(directory / "snapshots", every_records=every)
        self.numbers = itertools.count()
        self.follow()

    def follow(self) -> None:
        """Apply the topic as the view does, with a snapshot now and then."""
        store = self.kind.open(self.directory / "store")
        feed = Feed(cast(Any, self.log), TOPIC, Bookmark(), columns=self.definition.reads)
        while step := feed.step(0):
            store.apply(step.arrow_batch, step.bookmark, no_dead_letters)
            self.snapshots.applied(store, step.arrow_batch.num_rows, HUGE)
        store.close()

    def build(self, position: Position) -> ViewStore:
        ids = {TOPIC: str(FIRST_LIFE)}
        client = cast(Any, lambda: nullcontext(self.log))
        builder = PastBuilder(TOPIC, ids, self.definition, self.snapshots, client)
        return builder.build(self.directory / f"past-{next(self.numbers)}", position, lambda _: None)

    def rows(self, position: Position) -> list[Row]:
        store = self.build(position)
        rows = store.query(self.kind.everything).rows
        store.close()
        return rows

    def diff(self, start: Position, end: Position, limit: int) -> list[tuple[str, Any, Any]]:
        """All changes between two positions, ``limit`` at a time."""
        stores = [self.build(start), self.build(end)]
        found: list[Change] = []
        after: str | None = None
        with stores[0].snapshot() as before, stores[1].snapshot() as became:
            while not found or after is not None:
                request = DiffRequest(start, end, limit, after)
                part, after = changes_between(before, became, request, SystemClock())
                assert len(part) <= limit
                found += part
                if not part:
                    break
        for store in stores:
            store.close()
        return [(change.key, _bare(change.before), _bare(change.after)) for change in found]

    def model(self, position: Position) -> dict[str, Any]:
        """What the records before ``position`` make, in plain Python."""
        state: dict[str, Any] = {}
        for number, records in self.records.items():
            for key, value in records[: position[TopicPartition(TOPIC, number)]]:
                if (key, value) in POISON:
                    continue
                assert key is not None
                if value is None:
                    state.pop(key.decode(), None)
                else:
                    state[key.decode()] = json.loads(value)
        return state

    def positions(self, seed: int) -> Iterator[Position]:
        """From nothing to the end, one record at a time, from either partition."""
        chance = random.Random(seed)
        at = dict.fromkeys(self.records, 0)
        yield position(at[0], at[1])
        while left := [number for number, records in self.records.items() if at[number] < len(records)]:
            at[chance.choice(left)] += 1
            yield position(at[0], at[1])

    @property
    def end(self) -> Position:
        return position(len(self.records[0]), len(self.records[1]))


def _bare(row: Row | None) -> Row | None:
    return None if row is None else {name: value for name, value in row.items() if name != "_key"}


def position(first: int, second: int) -> Position:
    return Position({TopicPartition(TOPIC, 0): first, TopicPartition(TOPIC, 1): second})


@pytest.mark.parametrize("kind", LATEST_VALUE, ids=lambda kind: kind.name)
@pytest.mark.parametrize("every", [5, 1_000])
def test_the_state_at_every_position_is_what_the_records_before_it_make(
    kind: KindUnderTest, every: int, tmp_path: Path
) -> None:
    past = Past(kind, tmp_path, seed=every, every=every)
    assert bool(past.snapshots.all) is (every == 5)
    for at in list(past.positions(seed=3))[:: 1 if every == 5 else 4]:
        rows = {row.pop("_key"): row for row in past.rows(at)}
        assert (at, rows) == (at, past.model(at))


@pytest.mark.parametrize("kind", WITH_PAST, ids=lambda kind: kind.name)
def test_a_state_from_a_snapshot_is_that_from_the_beginning(kind: KindUnderTest, tmp_path: Path) -> None:
    past = Past(kind, tmp_path, seed=5, every=5)
    for at in list(past.positions(seed=9))[::6]:
        from_snapshot = past.rows(at)
        past.snapshots, kept = StoreSnapshots(tmp_path / "none"), past.snapshots
        assert past.rows(at) == from_snapshot
        past.snapshots = kept


def small(directory: Path, every: int = 2) -> Past:
    """The key-value view of six records of one partition: three keys, each written twice."""
    past = Past(KINDS[0], directory, seed=1, every=1_000)
    past.records = {0: [flight(key, "A", "B", n) for n, key in enumerate("abcabc")]}
    past.log = FakeLog({0: [one(past, number) for number in range(6)]}, fetch_bytes=len(one(past, 0)))
    past.snapshots = StoreSnapshots(directory / "some", every_records=every)
    past.directory = directory / "small"
    past.follow()
    return past


def one(past: Past, number: int) -> bytes:
    return build_batch([NewRecord(*past.records[0][number])], base_offset=number)


def at(offset: int) -> Position:
    return Position.of(TOPIC, 0, offset)


def miles(past: Past, offset: int) -> dict[str, int]:
    return {row["_key"]: row["miles"] for row in past.rows(at(offset))}


def test_what_retention_removed_is_refused_unless_a_snapshot_has_it(tmp_path: Path) -> None:
    past = small(tmp_path)
    past.log.starts[0] = 3
    past.log.partitions[0] = past.log.partitions[0][3:]
    assert miles(past, 4) == {"a": 3, "b": 1, "c": 2}  # the snapshot at 4 needs nothing from the log
    assert miles(past, 5) == {"a": 3, "b": 4, "c": 2}
    with pytest.raises(HistoryRemovedError, match="removed offsets 0 to 2 of t/0, which the state as of t/0:3 needs"):
        past.rows(at(3))


@pytest.mark.parametrize("other", [0, 1])
def test_a_snapshot_that_is_not_what_it_was_made_of_is_not_used(tmp_path: Path, other: int) -> None:
    past = small(tmp_path)
    changed = [store_in(snapshot) for snapshot in past.snapshots.all[:2]]
    shutil.rmtree(changed[1 - other])
    shutil.copytree(changed[other], changed[1 - other])
    for offset in (2, 3, 4, 5):
        assert miles(past, offset) == {row: past.model(at(offset))[row]["miles"] for row in past.model(at(offset))}


def test_what_compaction_removed_is_refused_until_what_superseded_it(tmp_path: Path) -> None:
    past = small(tmp_path, every=1_000)
    del past.log.partitions[0][1]
    assert miles(past, 1) == {"a": 0}
    for offset in (2, 3, 4, 5):
        with pytest.raises(HistoryRemovedError, match="compaction has removed"):
            past.rows(at(offset))
    assert miles(past, 6) == {"a": 3, "b": 4, "c": 5}


def test_a_deletion_that_compaction_removed_behind_a_snapshot_is_not_missed(tmp_path: Path) -> None:
    past = small(tmp_path, every=4)
    past.records[0][4] = tombstone("b")
    del past.log.partitions[0][4]
    past.log.partitions[0][1:2] = []
    assert miles(past, 6) == {"a": 3, "c": 5}  # not from the snapshot at 4, which has b


def test_another_life_of_the_topic_is_refused(tmp_path: Path) -> None:
    past = small(tmp_path, every=1_000)
    past.log.topic_id = FIRST_LIFE.__class__(int=2)
    with pytest.raises(ViewStoppedError, match="recreated"):
        past.rows(at(3))


def test_a_build_ends_when_it_is_told_to(tmp_path: Path) -> None:
    past = small(tmp_path, every=1_000)
    heard: list[Position] = []

    def go_on(reached: Position) -> None:
        heard.append(reached)
        if len(heard) == 3:
            raise ViewStoppedError("enough")

    client = cast(Any, lambda: nullcontext(past.log))
    builder = PastBuilder(TOPIC, {}, past.definition, past.snapshots, client)
    with pytest.raises(ViewStoppedError, match="enough"):
        builder.build(tmp_path / "ended", at(6), go_on)
    assert heard == [Position(), at(1), at(2)]


@pytest.mark.parametrize("kind", LATEST_VALUE, ids=lambda kind: kind.name)
def test_a_diff_is_that_of_the_models_however_it_is_cut(kind: KindUnderTest, tmp_path: Path) -> None:
    past = Past(kind, tmp_path, seed=11, every=5)
    positions = list(past.positions(seed=4))
    for start, end in ((positions[3], positions[14]), (positions[14], positions[3]), (positions[6], past.end)):
        before, after = past.model(start), past.model(end)
        expected = [
            (key, before.get(key), after.get(key))
            for key in sorted(before.keys() | after.keys(), key=str.encode)
            if before.get(key) != after.get(key)
        ]
        for limit in (1, 3, 1_000):
            assert past.diff(start, end, limit) == expected
    assert past.diff(past.end, past.end, 1) == []
