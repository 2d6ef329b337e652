from __future__ import annotations

import pytest

from mainstem.testing.clock import ManualClock


def test_time_stands_still_until_told() -> None:
    clock = ManualClock(1000)
    assert (clock.time_ms(), clock.monotonic_s()) == (1000, 0.0)


def test_both_hands_advance_together() -> None:
    clock = ManualClock(1000)
    clock.advance(1.5)
    assert (clock.time_ms(), clock.monotonic_s()) == (2500, 1.5)


def test_the_wall_clock_jumps_alone() -> None:
    clock = ManualClock(1000)
    clock.set_time_ms(10)
    assert (clock.time_ms(), clock.monotonic_s()) == (10, 0.0)


def test_time_does_not_pass_backwards() -> None:
    with pytest.raises(ValueError, match="set_time_ms"):
        ManualClock().advance(-1)
