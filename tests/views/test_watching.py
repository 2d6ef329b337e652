"""Which keys a listener is told, and when it knows everything up to a position."""

from __future__ import annotations

import pyarrow as pa
import pytest

from mainstem.model import Position
from mainstem.views.subscriptions.subscriptions import KEYS_MAX, Subscriptions, WatchFilter


def position(offset: int) -> Position:
    return Position.of("t", 0, offset)


def keys(*names: bytes | None) -> pa.RecordBatch:
    return pa.record_batch({"key": pa.array(names, pa.binary())})


class Wakes:
    def __init__(self) -> None:
        self.count = 0

    def __call__(self) -> None:
        self.count += 1


def test_a_watch_is_told_the_keys_of_its_filter_once_each() -> None:
    watchers, wakes = Subscriptions(), Wakes()
    watch = watchers.watch(WatchFilter(prefix=b"a"), wakes)
    watchers.applied(keys(b"a1", b"b1", b"a2", None, b"a1"), position(5))
    watchers.applied(keys(b"a1"), position(6))
    taken = watch.take(10)
    assert (taken.keys, taken.position, wakes.count) == ((b"a1", b"a2"), position(6), 1)


def test_a_watch_of_one_key_hears_of_no_other() -> None:
    watchers, wakes = Subscriptions(), Wakes()
    watch = watchers.watch(WatchFilter(key=b"a"), wakes)
    watchers.applied(keys(b"b", b"aa"), position(2))
    assert (wakes.count, watch.position) == (0, position(2))
    watchers.applied(keys(b"a"), position(3))
    assert (wakes.count, watch.position, watch.take(1).keys) == (1, None, (b"a",))


def test_a_position_counts_only_when_all_keys_before_it_are_taken() -> None:
    watchers = Subscriptions()
    watch = watchers.watch(WatchFilter(prefix=b""), Wakes())
    watchers.applied(keys(b"a", b"b", b"c"), position(3))
    assert [(taken.keys, taken.position) for taken in (watch.take(2), watch.take(2))] == [
        ((b"a", b"b"), None),
        ((b"c",), position(3)),
    ]


def test_a_watch_begins_where_the_view_is() -> None:
    watchers = Subscriptions()
    watchers.opened(position(7), is_swap=False)
    watchers.applied(keys(b"a"), position(8))
    watch = watchers.watch(WatchFilter(prefix=b""), Wakes())
    assert (watch.began, watch.take(10).keys) == (position(8), ())


def test_too_many_keys_are_dropped_and_said() -> None:
    watchers = Subscriptions()
    watch = watchers.watch(WatchFilter(prefix=b""), Wakes())
    for start in (0, KEYS_MAX):
        watchers.applied(keys(*(b"%d" % (start + n) for n in range(KEYS_MAX))), position(start + KEYS_MAX))
    taken = watch.take(10)
    assert (taken.is_too_many, taken.keys) == (True, ())


@pytest.mark.parametrize("wanted", [WatchFilter(key=b"a"), WatchFilter(prefix=b""), WatchFilter()])
def test_a_watch_that_is_closed_hears_nothing(wanted: WatchFilter) -> None:
    watchers, wakes = Subscriptions(), Wakes()
    watch = watchers.watch(wanted, wakes)
    watch.close()
    watch.close()
    watchers.applied(keys(b"a"), position(1))
    watchers.opened(position(1), is_swap=True)
    assert (wakes.count, len(watchers)) == (0, 0)


def test_a_swap_resets_whoever_listens() -> None:
    watchers, wakes = Subscriptions(), Wakes()
    watch = watchers.watch(WatchFilter(key=b"a"), wakes)
    watchers.opened(position(3), is_swap=True)
    assert watch.position is None
    assert (watch.take(1).is_reset, watch.take(1).is_reset, wakes.count) == (True, False, 1)
