from __future__ import annotations

import threading

import pytest

from mainstem.errors import LogUnavailableError
from mainstem.model import Position
from mainstem.testing.clock import ManualClock
from mainstem.views.feed.end_samples import EndSamples


class Ends:
    """A log whose ends grow by one each time they are asked for."""

    def __init__(self) -> None:
        self.asked: list[frozenset[str]] = []
        self.upstream = frozenset({"in"})
        self.clock = ManualClock()
        self.samples = EndSamples(self.ask, lambda _topic: self.upstream, self.clock)

    def ask(self, topics: frozenset[str]) -> Position:
        self.asked.append(topics)
        return Position.of("in", 0, len(self.asked))

    def target(self, max_lag_ms: int) -> int:
        [offset] = self.samples.target("out", max_lag_ms, 1.0).values()
        return offset


def test_the_topic_and_all_that_streams_into_it_are_asked_for() -> None:
    ends = Ends()
    ends.target(0)
    assert ends.asked == [frozenset({"in", "out"})]


def test_a_busy_view_asks_the_log_once_in_the_lag_that_it_may_have() -> None:
    ends = Ends()
    for _ in range(100):
        ends.target(1_000)
        ends.clock.advance(0.1)
    assert len(ends.asked) == 10


def test_the_oldest_sample_that_is_young_enough_is_the_target() -> None:
    ends = Ends()
    for expected in (1, 2, 3):
        assert ends.target(0) == expected
        ends.clock.advance(1.0)
    assert [ends.target(lag_ms) for lag_ms in (3_000, 2_000, 1_999, 999)] == [1, 2, 3, 4]


def test_a_sample_from_before_a_pipeline_was_known_counts_no_more() -> None:
    ends = Ends()
    assert ends.target(60_000) == 1
    ends.upstream = frozenset({"in", "more"})
    assert ends.target(60_000) == 2


def test_the_samples_that_are_kept_are_bounded() -> None:
    ends = Ends()
    for _ in range(1_000):
        ends.clock.advance(0.001)
        ends.target(0)
    assert ends.target(86_400_000) == 1_000 - 63


def test_readers_share_what_one_of_them_learns_and_wait_no_longer_than_they_may() -> None:
    ends = Ends()
    asked, go_on = threading.Event(), threading.Event()

    def ask(_topics: frozenset[str]) -> Position:
        asked.set()
        assert go_on.wait(60)
        return Position.of("in", 0, 7)

    samples = EndSamples(ask, lambda _topic: frozenset(), ends.clock)
    reader = threading.Thread(target=samples.target, args=("out", 0, 60.0))
    reader.start()
    assert asked.wait(60)
    with pytest.raises(LogUnavailableError, match="did not say in time"):
        samples.target("out", 0, 0.01)
    go_on.set()
    reader.join(60)
    assert samples.target("out", 0, 60.0) == Position.of("in", 0, 7)
