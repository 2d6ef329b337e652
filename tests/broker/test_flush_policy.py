"""Where a sync runs, by how long the ones before it took."""

from __future__ import annotations

from mainstem.broker.storage.flush_policy import SLOW_S, FlushExecutorPolicy

QUICK_S = SLOW_S / 10


def test_a_disk_that_nobody_has_seen_yet_counts_as_quick() -> None:
    assert FlushExecutorPolicy().is_quick(0.0)


def test_quick_syncs_stay_on_the_loop() -> None:
    place = FlushExecutorPolicy()
    for number in range(1000):
        place.ran(QUICK_S, float(number))
        assert place.is_quick(float(number))


def test_a_slow_sync_sends_the_next_ones_to_the_threads_for_twice_as_long() -> None:
    place = FlushExecutorPolicy()
    place.ran(0.004, now_s=100.0)
    assert not place.is_quick(100.007)
    assert place.is_quick(100.009)


def test_a_disk_that_stays_slow_holds_the_loop_up_less_and_less_often() -> None:
    place, now_s, pauses = FlushExecutorPolicy(), 0.0, []
    for _ in range(20):
        place.ran(0.01, now_s)
        begin_s = now_s
        while not place.is_quick(now_s):
            now_s += 0.01
        pauses.append(round(now_s - begin_s, 1))
    assert pauses == sorted(pauses)
    assert pauses[0] < 0.2
    assert pauses[-1] >= 10.0


def test_one_slow_sync_among_many_quick_ones_is_an_accident_each_time() -> None:
    place, now_s = FlushExecutorPolicy(), 0.0
    for _ in range(10):
        place.ran(0.002, now_s)
        now_s += 0.0041
        assert place.is_quick(now_s)
        for _ in range(100):
            place.ran(QUICK_S, now_s)
