from __future__ import annotations

from mainstem.broker.network.unread_answers import UnreadAnswers


class Reader:
    def __init__(self, unsent_bytes: int) -> None:
        self.unsent_bytes = unsent_bytes
        self.reason = ""

    def close(self, reason: str = "") -> None:
        self.reason = reason


def test_above_the_limit_the_slowest_readers_are_closed_first() -> None:
    answers = UnreadAnswers(100, idle_s_max=600)
    slow, quick = Reader(70), Reader(70)
    answers.paused(slow, 0)
    answers.paused(quick, 0)
    quick.unsent_bytes = 50
    answers.check(2)
    assert slow.reason
    assert not quick.reason
    assert (answers.total_bytes, answers.closed_readers) == (50, 1)


def test_who_has_only_just_begun_is_spared_until_twice_the_limit() -> None:
    answers = UnreadAnswers(100, idle_s_max=600)
    first, second = Reader(90), Reader(90)
    answers.paused(first, 0)
    answers.paused(second, 0.5)
    answers.check(0.6)
    assert not first.reason
    third = Reader(90)
    answers.paused(third, 0.7)
    assert answers.total_bytes <= 100


def test_who_reads_nothing_is_closed_after_the_idle_time_and_who_reads_on_is_not() -> None:
    answers = UnreadAnswers(1000, idle_s_max=10)
    idle, reading = Reader(70), Reader(70)
    answers.paused(idle, 0)
    answers.paused(reading, 0)
    for second in range(1, 21):
        reading.unsent_bytes -= 1
        answers.check(second)
    assert idle.reason
    assert not reading.reason
    answers.resumed(reading)
    assert answers.total_bytes == 0
