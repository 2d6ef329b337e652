"""Key-value views that fold: the state of a key is what a function made of all its records."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mainstem.errors import ViewStoppedError
from mainstem.model import Position
from mainstem.pipelines.folds import FoldRecord
from mainstem.pipelines.kinds import KeyValue
from mainstem.views.requests import GetQuery, RangeQuery
from mainstem.views.stores.key_value.folding import STATE_BYTES_MAX
from mainstem.views.stores.key_value.key_value import KeyValueStore
from mainstem.views.stores.store import Bookmark, StoreDefinition, no_dead_letters
from mainstem.views.versions.versions import Versions, check_definition
from tests.views.support import FIRST_TIMESTAMP_US, TOPIC, apply, arrow_batch


def balance(state: int, record: FoldRecord) -> int | None:
    """An account: closed by the record that says so; 13 is no amount."""
    if record.value.get("close"):
        return None
    if record.value["amount"] == 13:
        raise ValueError("unlucky")
    return state + int(record.value["amount"])


def opened(path: Path, fold: Callable[..., Any] = balance, initial: Any = 0) -> KeyValueStore:
    return KeyValueStore(path, StoreDefinition("accounts", KeyValue(fold=fold, initial=initial)))


def record(key: str, **value: Any) -> tuple[bytes, bytes]:
    return key.encode(), json.dumps(value).encode()


def test_the_state_of_a_key_is_made_of_all_its_records(tmp_path: Path) -> None:
    store = opened(tmp_path)
    apply(store, [record("ann", amount=5), record("bob", amount=1), record("ann", amount=-2)])
    apply(store, [record("ann", amount=10)], 3)
    assert store.query(RangeQuery()).rows == [{"_key": "ann", "value": 13}, {"_key": "bob", "value": 1}]
    store.close()


def test_none_and_a_tombstone_delete_the_key_and_it_begins_anew(tmp_path: Path) -> None:
    store = opened(tmp_path)
    apply(store, [record("ann", amount=5), record("ann", close=True), record("bob", amount=5), (b"bob", None)])
    assert store.count() == 0
    apply(store, [record("ann", amount=1), record("bob", amount=2)], 4)
    assert [row["value"] for row in store.query(RangeQuery()).rows] == [1, 2]
    store.close()


def test_a_record_that_the_fold_refuses_is_poison_and_the_state_stays(tmp_path: Path) -> None:
    store = opened(tmp_path)
    poisons = apply(store, [record("a", amount=5), record("a", amount=13), record("a"), record("a", amount=1)], 10)
    assert [(poison.offset, poison.value) for poison in poisons] == [(11, b'{"amount": 13}'), (12, b"{}")]
    line = balance.__code__.co_firstlineno
    assert poisons[0].error == (
        f"the fold balance (test_folding.py:{line}), line {line + 5} of test_folding.py: ValueError: unlucky"
    )
    assert "KeyError: 'amount'" in poisons[1].error
    assert (store.query(GetQuery("a")).rows, store.bookmark.dead_letters) == ([{"_key": "a", "value": 6}], 2)
    store.close()


def test_a_fold_that_exits_makes_poison_and_not_an_end(tmp_path: Path) -> None:
    def leave(state: int, record: FoldRecord) -> int:
        return sys.exit("enough") if record.value["n"] == 2 else state + 1

    store = opened(tmp_path, leave)
    [poison] = apply(store, [record("a", n=1), record("a", n=2), record("a", n=3)])
    assert "SystemExit: enough" in poison.error
    assert store.query(GetQuery("a")).rows == [{"_key": "a", "value": 2}]
    store.close()


def test_a_state_that_was_changed_in_place_before_an_error_is_not_kept(tmp_path: Path) -> None:
    def append(state: list[Any], record: FoldRecord) -> list[Any]:
        state.append(record.value["n"])
        return state if record.value["n"] else state + [1 / 0]  # noqa: RUF005

    store = opened(tmp_path, append, [])
    assert len(apply(store, [record("a", n=1), record("a", n=0), record("a", n=2)])) == 1
    assert store.query(GetQuery("a")).rows == [{"_key": "a", "value": [1, 2]}]
    store.close()


NO_STATES: dict[str, Any] = {
    "no JSON": {1, 2},
    "a number": float("nan"),
    "keys": {"names": {1: "one"}},
    "lists": {"pair": (1, 2)},
    "surrogate": "\ud800",
    "over the": "x" * STATE_BYTES_MAX,
    "deeper": json.loads("[" * 500 + "]" * 500),
}


@pytest.mark.parametrize("what", NO_STATES)
def test_a_state_that_cannot_be_kept_makes_the_record_poison(tmp_path: Path, what: str) -> None:
    store = opened(tmp_path, lambda _state, _record: NO_STATES[what])
    [poison] = apply(store, [record("a", n=1)])
    assert "its state" in poison.error
    assert store.count() == 0
    store.close()


def test_the_fold_is_told_where_and_when_a_record_was_appended(tmp_path: Path) -> None:
    seen: list[FoldRecord] = []
    store = opened(tmp_path, lambda _state, record: seen.append(record))
    apply(store, [record("é", n=[1.5, None])], 7)
    assert seen == [FoldRecord("é", {"n": [1.5, None]}, FIRST_TIMESTAMP_US // 1000, 0, 7, ())]
    store.close()


def test_the_initial_state_is_each_key_s_own(tmp_path: Path) -> None:
    def gather(state: dict[str, Any], record: FoldRecord) -> dict[str, Any]:
        state["all"].append(record.value["n"])
        return state

    store = opened(tmp_path, gather, {"all": []})
    apply(store, [record("a", n=1), record("b", n=2), record("a", n=3)])
    assert store.query(RangeQuery()).rows == [{"_key": "a", "all": [1, 3]}, {"_key": "b", "all": [2]}]
    store.close()


def test_a_state_that_is_an_object_is_the_row_whatever_the_order_of_its_fields(tmp_path: Path) -> None:
    store = opened(tmp_path / "a", lambda _state, _record: {"b": 1, "a": 2})
    other = opened(tmp_path / "b", lambda _state, _record: {"a": 2, "b": 1})
    for each in (store, other):
        each.apply(arrow_batch([record("k", n=1)]), Bookmark(Position.of(TOPIC, 0, 1)), no_dead_letters)
    assert store.query(GetQuery("k")).rows == [{"_key": "k", "a": 2, "b": 1}]
    assert store.digest() == other.digest()
    for each in (store, other):
        each.close()


def double(state: int, record: FoldRecord) -> int:
    return state + 2 * int(record.value["amount"])


def test_a_view_whose_fold_was_changed_asks_for_a_rebuild_and_names_the_function(tmp_path: Path) -> None:
    path = Versions(tmp_path).create("t", StoreDefinition("v", KeyValue(fold=balance, initial=0)))
    check_definition(path, "t", StoreDefinition("v", KeyValue(fold=balance, initial=0)))
    with pytest.raises(ViewStoppedError, match=r"the view's kind changed .* double \(test_folding\.py:\d+\).* rebuild"):
        check_definition(path, "t", StoreDefinition("v", KeyValue(fold=double, initial=0)))
    for other in (KeyValue(fold=balance, initial=1), KeyValue()):
        with pytest.raises(ViewStoppedError, match="the view's kind changed"):
            check_definition(path, "t", StoreDefinition("v", other))
