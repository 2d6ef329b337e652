from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from mainstem.errors import StorageError
from mainstem.model import Position
from mainstem.pipelines.kinds import KeyValue
from mainstem.views.requests import GetQuery, RangeQuery
from mainstem.views.stores.key_value import key_value
from mainstem.views.stores.key_value.key_value import KeyValueStore
from mainstem.views.stores.sql.query_bounds import AnswerSize
from mainstem.views.stores.store import StoreDefinition
from mainstem.views.verification.verify import differences
from tests.views.support import TOPIC, KeyAndValue, apply, apply_in_batches, flight, history, tombstone
from tests.views.tampering import rocksdb

KEYS = ["", "a", "a/1", "a/2", "b", "ba", "é", "日本", "￿", "😀"]


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("kv") / "store"


@pytest.fixture(scope="module")
def store(directory: Path) -> Iterator[KeyValueStore]:
    """One store for all tests: they only read it."""
    opened = KeyValueStore(directory, StoreDefinition("kv", KeyValue()))
    apply(opened, [(key.encode(), b'{"of": "%s"}' % key.encode()) for key in reversed(KEYS)])
    yield opened
    opened.close()


def keys(store: KeyValueStore, request: RangeQuery) -> list[str]:
    return [row["_key"] for row in store.query(request).rows]


def test_get_answers_the_key_s_row(store: KeyValueStore) -> None:
    assert store.query(GetQuery("b")).rows == [{"_key": "b", "of": "b"}]
    assert store.query(GetQuery("")).rows == [{"_key": "", "of": ""}]


def test_get_of_an_absent_key_answers_no_row(store: KeyValueStore) -> None:
    for absent in ("c", "a/", "A", "a\x00"):
        assert store.query(GetQuery(absent)).rows == []


def test_a_range_is_in_the_order_of_the_keys_bytes(store: KeyValueStore) -> None:
    assert keys(store, RangeQuery()) == sorted(KEYS, key=str.encode)


def test_a_range_has_its_start_and_not_its_end(store: KeyValueStore) -> None:
    assert keys(store, RangeQuery(start="a/1", end="ba")) == ["a/1", "a/2", "b"]
    assert keys(store, RangeQuery(start="ba", end="a")) == []


def test_a_prefix_is_a_range_of_its_own(store: KeyValueStore) -> None:
    assert keys(store, RangeQuery(prefix="a/")) == ["a/1", "a/2"]
    assert keys(store, RangeQuery(prefix="a", start="a/2")) == ["a/2"]
    assert keys(store, RangeQuery(prefix="zzz")) == []


def test_a_full_range_says_after_which_key_it_goes_on(store: KeyValueStore) -> None:
    found: list[str] = []
    sizes = []
    after: str | None = None
    while not sizes or after is not None:
        answer = store.query(RangeQuery(limit=3, after=after))
        found += [row["_key"] for row in answer.rows]
        sizes.append(len(answer.rows))
        after = answer.next
    assert found == sorted(KEYS, key=str.encode)
    assert sizes == [3, 3, 3, 1]


@pytest.mark.parametrize(
    ("request_", "next_key"),
    [
        (RangeQuery(limit=len(KEYS)), None),
        (RangeQuery(prefix="a/", limit=2), None),
        (RangeQuery(prefix="a/", limit=1), "a/1"),
        (RangeQuery(start="a/1", end="b", limit=2), None),
        (RangeQuery(start="a", after="", limit=1), "a"),
        (RangeQuery(after="😀"), None),
    ],
)
def test_a_range_that_is_complete_has_no_next(store: KeyValueStore, request_: RangeQuery, next_key: str | None) -> None:
    assert store.query(request_).next == next_key


def test_a_range_ends_before_it_holds_too_many_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(AnswerSize.__init__, "__defaults__", (1_000,))
    opened = KeyValueStore(tmp_path / "store", StoreDefinition("kv", KeyValue()))
    apply(
        opened,
        [
            (key.encode(), b'{"of": "%s"}' % (b"x" * size))
            for key, size in zip("abcd", (900, 400, 400, 400), strict=True)
        ],
    )
    answers = [opened.query(RangeQuery()), opened.query(RangeQuery(after="a")), opened.query(RangeQuery(after="c"))]
    assert [([row["_key"] for row in answer.rows], answer.next) for answer in answers] == [
        (["a"], "a"),
        (["b", "c"], "c"),
        (["d"], None),
    ]
    opened.close()


def test_an_answer_is_plain_json_whatever_the_record_said(tmp_path: Path) -> None:
    store = KeyValueStore(tmp_path / "store", StoreDefinition("kv", KeyValue()))
    digits = b"9" * 5_000
    apply(store, [(b"k", b'{"big": 1e999, "exact": 12345678901234567890123, "huge": %s}' % digits)])
    [row] = store.query(GetQuery("k")).rows
    assert (row["big"], row["exact"], row["huge"]) == ("1e999", 12345678901234567890123, digits.decode())
    store.close()


def test_a_store_that_is_open_elsewhere_is_a_storage_error(store: KeyValueStore, directory: Path) -> None:
    with pytest.raises(StorageError, match="cannot be opened"):
        KeyValueStore(directory, StoreDefinition("kv", KeyValue()))


def open_store(path: Path) -> KeyValueStore:
    return KeyValueStore(path, StoreDefinition("kv", KeyValue()))


def test_paging_by_the_last_key_ends_whatever_the_values_say(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    apply(store, [(key.encode(), b'{"_key": "a"}') for key in "abc"])
    seen: list[str] = []
    for _ in range(4):
        page = store.query(RangeQuery(start=seen[-1] + "\0" if seen else None, limit=1)).rows
        seen += [row["_key"] for row in page]
    assert seen == ["a", "b", "c"]
    store.close()


@pytest.mark.parametrize(("key", "text"), [(b"b\xff", b"{}"), (b"bb", b"garbage"), (b"bb", b"\xff")])
def test_what_somebody_wrote_that_no_view_writes_is_named(tmp_path: Path, key: bytes, text: bytes) -> None:
    for name in ("expected", "actual"):
        store = open_store(tmp_path / name)
        apply(store, [flight("a", "A", "B"), flight("c", "A", "B")])
        store.close()
    with rocksdb(tmp_path / "actual") as db:
        db[b"r" + key] = text
    expected, actual = open_store(tmp_path / "expected"), open_store(tmp_path / "actual")
    with expected.snapshot() as right, actual.snapshot() as wrong:
        [difference] = differences(right.entries(), wrong.entries())
    assert (difference.key, difference.expected) == (key.decode(errors="backslashreplace"), None)
    assert [row["_key"] for row in actual.query(RangeQuery()).rows] == ["a", difference.key, "c"]
    for each in (expected, actual):
        each.close()


# ---- many changes are one file


@pytest.fixture
def few_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """Five changes are many."""
    monkeypatch.setattr(key_value, "_MANY_CHANGES", 5)


def table_files(directory: Path) -> int:
    return len(list(directory.glob("[0-9]*.sst")))


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.usefixtures("few_are_many")
def test_files_and_batches_give_what_batches_alone_give(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    records = history(seed, 1_000)
    sizes = [chance.choice([1, 2, 30, 40]) for _ in range(25)]
    store = open_store(tmp_path / "store")
    first = 0
    for size in sizes:
        apply(store, records[first : first + size], first)
        first += size
        if chance.random() < 0.3:
            store.close()
            store = open_store(tmp_path / "store")
        with store.snapshot() as snapshot:
            assert snapshot.intact(), "the account knows the number of each write"
    store.close()
    assert table_files(tmp_path / "store") > 0
    whole, store = open_store(tmp_path / "whole"), open_store(tmp_path / "store")
    apply_in_batches(whole, records[:first], [1] * len(records[:first]))
    assert (store.digest(), store.position) == (whole.digest(), whole.position)
    with store.snapshot() as snapshot:
        assert snapshot.intact()
    for each in (store, whole):
        each.close()


def many(first: int) -> list[KeyAndValue]:
    return [flight(f"{n:05}", "A", "B", first + n) for n in range(6_000)]


def test_many_changes_are_a_file_at_once(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    apply(store, many(0))
    assert table_files(tmp_path) == 1
    apply(store, [*many(1), tombstone("00007"), flight("00008", "C", "D"), flight("00008", "E", "F")], 6_000)
    assert table_files(tmp_path) == 2
    assert not (tmp_path / "changes.sst").exists()
    assert store.query(GetQuery("00007")).rows == []
    assert store.query(GetQuery("00008")).rows[0]["origin"] == "E"
    assert store.count() == 5_999
    store.close()


def test_many_changes_are_a_batch_while_many_files_are_to_be_merged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store(tmp_path)
    unmerged = []
    monkeypatch.setattr(key_value, "_UNMERGED_FILES_MAX", 2)
    for step in range(20):
        apply(store, many(step), step * 6_000)
        unmerged.append(store._unmerged_files())
    assert max(unmerged) == 2
    assert store.query(GetQuery("00001")).rows[0]["miles"] == 20
    store.close()
    store = open_store(tmp_path)
    with store.snapshot() as snapshot:
        assert snapshot.intact()
    store.close()


def test_a_change_behind_the_account_is_seen_after_a_file(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    apply(store, many(0))
    apply(store, many(1), 6_000)
    store.close()
    with rocksdb(tmp_path) as db:
        db[b"r00001"] = db[b"r00001"]
    store = open_store(tmp_path)
    apply(store, many(2), 12_000)
    store.close()
    store = open_store(tmp_path)
    with store.snapshot() as snapshot:
        assert snapshot.intact() is False
    store.close()


def test_a_file_that_rocksdb_has_taken_over_is_not_written_again(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    apply(store, many(0))
    digest = store.digest()
    store.close()
    [file] = tmp_path.glob("[0-9]*.sst")
    os.link(file, tmp_path / "changes.sst")  # what a kill in the middle of taking over leaves
    size = file.stat().st_size
    store = open_store(tmp_path)
    assert store.digest() == digest
    apply(store, [flight(f"z{n}", "A", "B") for n in range(6_000)], 6_000)
    assert file.stat().st_size == size
    assert (store.count(), store.query(GetQuery("00001")).rows[0]["miles"]) == (12_000, 1)
    store.close()


def test_a_file_that_cannot_be_written_changes_nothing(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    apply(store, many(0))
    (tmp_path / "changes.sst").mkdir()
    with pytest.raises(StorageError, match="cannot be written"):
        apply(store, many(1), 6_000)
    assert (store.position, store.query(GetQuery("00001")).rows[0]["miles"]) == (Position.of(TOPIC, 0, 6_000), 1)
    (tmp_path / "changes.sst").rmdir()
    apply(store, many(1), 6_000)
    assert store.query(GetQuery("00001")).rows[0]["miles"] == 2
    store.close()
