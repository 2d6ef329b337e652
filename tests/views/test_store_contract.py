"""The contract of `mainstem.views.stores.store`, proven for every kind of store."""

from __future__ import annotations

import random
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from mainstem.errors import QueryError
from mainstem.model import Position
from mainstem.pipelines.kinds import SINK_NAMES
from mainstem.views.requests import (
    GetQuery,
    MetricsPageQuery,
    MetricsQuery,
    NeighborsQuery,
    PathQuery,
    RangeQuery,
    SearchQuery,
    SqlQuery,
)
from mainstem.views.stores.store import Bookmark, Digest, Poison, ViewStore, no_dead_letters
from tests.views.support import (
    KINDS,
    POISON,
    TOPIC,
    KindUnderTest,
    apply,
    apply_in_batches,
    arrow_batch,
    flight,
    history,
    tombstone,
)

UPSERTING = [kind for kind in KINDS if not kind.counts]
COUNTING = [kind for kind in KINDS if kind.counts]
KEYED = [kind for kind in KINDS if kind.keyed]
of_upserts = pytest.mark.parametrize("kind", UPSERTING, ids=lambda kind: kind.name, indirect=True)
of_keys = pytest.mark.parametrize("kind", KEYED, ids=lambda kind: kind.name, indirect=True)
of_counts = pytest.mark.parametrize("kind", COUNTING, ids=lambda kind: kind.name, indirect=True)


def test_a_new_store_is_empty_and_has_applied_nothing(store: ViewStore) -> None:
    assert (store.count(), store.position, store.digest()) == (0, Position(), Digest(0, 0))


def test_the_answer_carries_the_position_of_what_was_applied(kind: KindUnderTest, store: ViewStore) -> None:
    apply(store, [flight("1", "A", "B")])
    answer = store.query(kind.everything)
    assert len(answer.rows) == 1
    assert answer.position == Position.of(TOPIC, 0, 1)


@pytest.mark.latest_values
@of_keys
def test_a_record_replaces_the_row_of_its_key(store: ViewStore) -> None:
    apply(store, [flight("1", "A", "B"), flight("2", "A", "B")])
    before = store.digest()
    apply(store, [flight("1", "A", "C")], 2)
    assert store.count() == 2
    assert store.digest() != before


@of_upserts
@pytest.mark.latest_values
def test_the_last_record_of_a_key_in_a_batch_wins(kind: KindUnderTest, store: ViewStore, tmp_path: Path) -> None:
    apply(store, [flight("1", "A", "B"), flight("1", "A", "C"), flight("2", "A", "D"), tombstone("2")])
    other = kind.open(tmp_path / "other")
    apply(other, [flight("1", "A", "C")])
    assert store.digest() == other.digest()
    other.close()


@pytest.mark.latest_values
@of_keys
def test_a_tombstone_deletes_and_the_key_may_come_back(store: ViewStore) -> None:
    apply(store, [flight("1", "A", "B")])
    digest = store.digest()
    apply(store, [tombstone("1"), tombstone("never there")], 1)
    assert (store.count(), store.digest()) == (0, Digest(0, 0))
    apply(store, [tombstone("1"), flight("1", "A", "B")], 3)
    assert store.digest() == digest


def test_data_and_bookmark_are_there_after_a_reopening(kind: KindUnderTest, tmp_path: Path) -> None:
    first = kind.open(tmp_path / "store")
    bookmark = Bookmark(Position.of(TOPIC, 3, 9), {TOPIC: "an id"}, {})
    first.apply(arrow_batch([flight("1", "A", "B")]), bookmark, no_dead_letters)
    digest = first.digest()
    first.close()
    again = kind.open(tmp_path / "store")
    assert (again.digest(), again.bookmark) == (digest, bookmark)
    again.close()


def test_a_position_may_move_without_a_record(store: ViewStore) -> None:
    store.apply(arrow_batch([]), Bookmark(Position.of(TOPIC, 0, 5)), no_dead_letters)
    assert (store.position, store.count()) == (Position.of(TOPIC, 0, 5), 0)


@of_counts
def test_every_record_of_a_batch_counts(kind: KindUnderTest, store: ViewStore, tmp_path: Path) -> None:
    apply(store, [flight("1", "A", "B"), flight("1", "A", "B")])
    once = kind.open(tmp_path / "once")
    apply(once, [flight("1", "A", "B")])
    assert store.digest() != once.digest()
    apply(once, [flight("1", "A", "B")], 1)
    assert store.digest() == once.digest()
    once.close()


@of_upserts
def test_applying_the_same_records_again_changes_nothing(store: ViewStore) -> None:
    records = [flight("1", "A", "B"), flight("2", "B", "C"), tombstone("1"), flight("3", "C", "A")]
    apply(store, records)
    digest = store.digest()
    apply(store, records)
    assert store.digest() == digest


@pytest.mark.parametrize("seed", range(2))
def test_the_content_does_not_depend_on_how_the_log_was_cut(kind: KindUnderTest, tmp_path: Path, seed: int) -> None:
    records = history(seed, 100)
    whole, cut = kind.open(tmp_path / "whole"), kind.open(tmp_path / "cut")
    apply(whole, records)
    apply_in_batches(cut, records, (random.Random(seed).randrange(1, 30) for _ in range(5)))
    assert cut.digest() == whole.digest()
    assert cut.bookmark == whole.bookmark
    for opened in (whole, cut):
        opened.close()


@pytest.mark.latest_values
def test_poison_is_handed_over_with_its_offset_and_the_rest_is_applied(kind: KindUnderTest, store: ViewStore) -> None:
    poisons = apply(store, [flight("1", "A", "B"), *kind.poison, flight("2", "B", "C")], first_offset=10)
    assert [(poison.partition, poison.offset) for poison in poisons] == [(0, 11 + n) for n in range(len(kind.poison))]
    assert [(poison.key, poison.value) for poison in poisons] == list(kind.poison)
    assert all(poison.error for poison in poisons)
    assert (store.count(), store.bookmark.dead_letters) == (2, len(kind.poison))


@pytest.mark.latest_values
def test_poison_leaves_the_row_of_its_key_as_it_was(store: ViewStore) -> None:
    apply(store, [flight("1", "A", "B")])
    digest = store.digest()
    apply(store, [(b"1", b"not json")], 1)
    apply(store, [(b"1", b"nor this")], 2)
    assert (store.digest(), store.bookmark.dead_letters) == (digest, 2)


@pytest.mark.latest_values
def test_nothing_is_applied_when_the_dead_letters_cannot_be_kept(store: ViewStore) -> None:
    def refuse(_poisons: Sequence[Poison]) -> None:
        raise ConnectionError("the log is away")

    with pytest.raises(ConnectionError):
        store.apply(arrow_batch([flight("1", "A", "B"), POISON[0]]), Bookmark(Position.of(TOPIC, 0, 2)), refuse)
    assert (store.count(), store.position) == (0, Position())
    apply(store, [flight("1", "A", "B")])
    assert store.count() == 1


def test_a_snapshot_does_not_see_what_is_applied_after_it(kind: KindUnderTest, store: ViewStore) -> None:
    apply(store, [flight("1", "A", "B")])
    with store.snapshot() as snapshot:
        before = (snapshot.position, snapshot.digest(), snapshot.query(kind.everything))
        apply(store, [flight("2", "B", "C"), flight("1", "A", "D")], 1)
        assert (snapshot.position, snapshot.digest(), snapshot.query(kind.everything)) == before
    assert store.count() == (3 if kind.keeps_everything or not kind.keyed else 2)


def test_a_query_beside_the_applier_sees_one_position(kind: KindUnderTest, store: ViewStore) -> None:
    applied = threading.Event()

    def write() -> None:
        for number in range(15):
            apply(store, [flight(f"{number}-{copy}", "A", "B") for copy in range(5)], number * 5)
        applied.set()

    thread = threading.Thread(target=write)
    thread.start()
    while not applied.is_set():
        with store.snapshot() as snapshot:
            assert Position.of(TOPIC, 0, kind.records(snapshot)).covers(snapshot.position)
            assert snapshot.position.covers(Position.of(TOPIC, 0, kind.records(snapshot)))
    thread.join()


def test_the_entries_are_what_the_digest_counts_in_the_order_of_their_names(store: ViewStore) -> None:
    apply(store, [flight(key, key, "B") for key in ("é", "b", "a", "Z", "😀", "￿", "a b")])
    with store.snapshot() as snapshot:
        names = [name.encode() for name, _row in snapshot.entries()]
        assert names == sorted(names)
        assert len(names) == snapshot.digest().entries


@pytest.mark.latest_values
@of_keys
def test_a_key_may_be_any_text(kind: KindUnderTest, store: ViewStore) -> None:
    keys = ["", " ", "a/b?c", "'; DROP TABLE routes; --", "日本", "%s", "{}"]
    keys += ["\x00", "x" * 60_000] if kind.any_key else []
    apply(store, [flight(key, "A", "B") for key in keys])
    assert store.count() == len(keys)
    apply(store, [tombstone(key) for key in keys], len(keys))
    assert store.count() == 0


def test_a_request_of_another_kind_is_refused(kind: KindUnderTest, store: ViewStore) -> None:
    requests = [
        MetricsQuery(),
        GetQuery("1"),
        RangeQuery(),
        SqlQuery("SELECT 1"),
        SearchQuery("a"),
        NeighborsQuery("A"),
        PathQuery("A", "B"),
    ]
    refused = [r for r in requests if not isinstance(r, (type(kind.everything), *_SIBLINGS.get(kind.name, ())))]
    for request in refused:
        with pytest.raises(QueryError, match="does not answer"):
            store.query(request)


_SIBLINGS = {
    "key-value": (GetQuery,),
    **dict.fromkeys(SINK_NAMES, (GetQuery,)),
    "fold": (GetQuery,),
    "metrics": (MetricsPageQuery,),
    "graph": (PathQuery,),
}
