"""The watch over queries: what it interrupts, and when it gives a process up."""

from __future__ import annotations

import threading

from mainstem.views.stores.sql.query_watch import QueryWatch, WatchedQuery, machine_memory_bytes, private_bytes


class Cursor:
    """A cursor whose work ends at the n-th interrupt."""

    def __init__(self, interrupts: int = 1) -> None:
        self._left = interrupts
        self.ended = threading.Event()

    def interrupt(self) -> None:
        self._left -= 1
        if self._left <= 0:
            self.ended.set()


def test_a_query_over_its_time_is_interrupted_until_it_ends() -> None:
    watch, cursor = QueryWatch(), Cursor(interrupts=3)
    query = watch.begin(cursor, "SELECT 1", 0.01)
    assert cursor.ended.wait(30)
    watch.end(query)
    assert query.ended_by == "time"


def test_a_process_that_is_short_of_memory_ends_its_queries() -> None:
    watch, cursor = QueryWatch(memory_max=1), Cursor()
    query = watch.begin(cursor, "SELECT 1", 60)
    assert cursor.ended.wait(30)
    watch.end(query)
    assert query.ended_by == "memory"


def test_a_query_that_goes_on_is_a_runaway_and_named() -> None:
    watch, reasons, ran_away = QueryWatch(overrun_s=0.01), [], threading.Event()

    def on_runaway(_query: WatchedQuery, reason: str) -> None:
        reasons.append(reason)
        ran_away.set()

    watch.on_runaway = on_runaway
    query = watch.begin(Cursor(interrupts=1_000_000), "SELECT forever", 0.01)
    assert ran_away.wait(30)
    watch.end(query)
    assert "'SELECT forever'" in reasons[0]


def test_a_cursor_that_fails_does_not_end_the_watch() -> None:
    class Broken(Cursor):
        def interrupt(self) -> None:
            super().interrupt()
            raise RuntimeError("closed")

    watch, broken, cursor = QueryWatch(), Broken(), Cursor()
    first = watch.begin(broken, "SELECT 1", 0.01)
    assert broken.ended.wait(30)
    watch.end(first)
    second = watch.begin(cursor, "SELECT 2", 0.01)
    assert cursor.ended.wait(30)
    watch.end(second)


def test_a_process_that_stops_interrupts_its_queries() -> None:
    watch, cursor = QueryWatch(), Cursor()
    query = watch.begin(cursor, "SELECT 1", 600)
    watch.stop()
    assert cursor.ended.wait(30)
    watch.end(query)


def test_memory_is_measured() -> None:
    assert 0 < private_bytes() < machine_memory_bytes()
