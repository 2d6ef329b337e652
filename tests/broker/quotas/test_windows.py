"""Rates and buckets, with the time given."""

from __future__ import annotations

from mainstem.broker.quotas.windows import TokenBucket, WindowedRate


def test_below_the_limit_nobody_waits() -> None:
    rate = WindowedRate(11, 1.0)
    for second in range(30):
        rate.record(90, float(second))
        assert rate.wait_s(100, float(second)) == 0.0


def test_a_first_burst_may_be_as_large_as_all_windows_but_one() -> None:
    rate = WindowedRate(11, 1.0)
    rate.record(1000, 5.0)
    assert rate.wait_s(100, 5.0) == 0.0
    rate.record(100, 5.0)
    assert rate.wait_s(100, 5.0) == 1.0


def test_after_the_wait_the_rate_is_the_limit() -> None:
    rate = WindowedRate(11, 1.0)
    rate.record(1500, 0.0)
    wait_s = rate.wait_s(100, 0.0)
    assert wait_s == 5.0
    assert rate.wait_s(100, 10.0 + wait_s) == 0.0


def test_what_is_long_past_counts_no_more() -> None:
    rate = WindowedRate(11, 1.0)
    rate.record(10**9, 0.0)
    assert not rate.is_idle(10.9)
    assert rate.wait_s(1, 11.0) == 0.0
    assert rate.is_idle(11.0)


def test_the_long_term_rate_is_the_limit() -> None:
    rate, now_s, total = WindowedRate(11, 1.0), 0.0, 0
    while now_s < 600:
        rate.record(500, now_s)
        total += 500
        now_s += max(0.05, rate.wait_s(1000, now_s))
    assert 0.9 < total / now_s / 1000 < 1.1


def test_a_bucket_may_be_overdrawn_once_and_fills_with_time() -> None:
    bucket = TokenBucket(11, 1.0, 2.0, 0.0)
    bucket.take(22)
    assert bucket.wait_s(2.0, 0.0) == 0.0
    bucket.take(6)
    assert bucket.wait_s(2.0, 0.0) == 3.0
    assert bucket.wait_s(2.0, 1.0) == 2.0
    assert bucket.wait_s(2.0, 3.0) == 0.0
    bucket.wait_s(2.0, 1000.0)
    bucket.take(23)
    assert bucket.wait_s(2.0, 1000.0) == 0.5
