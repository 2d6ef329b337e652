"""A view's changes with their rows, and coming back with a position."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from mainstem.client.log import Log
from mainstem.errors import PositionError, QueryError, UnknownViewError, ViewStoppedError
from mainstem.model import Position
from mainstem.record.writer import NewRecord, build_batch
from mainstem.views.host.host import ViewHost
from mainstem.views.requests import WatchRequest
from mainstem.views.subscriptions.change_rows import ChangeSubscription, RowChanges
from tests.views.fake_log import FakeLog
from tests.views.hosting import Setting

TIMEOUT_S = 60.0
WITH_SQL = pytest.mark.parametrize("setting", [("kv", "sql")], indirect=True, ids=["with sql"])


class Listener:
    """A watch and the event that wakes it."""

    def __init__(self, host: ViewHost, request: WatchRequest, view: str = "kv") -> None:
        self._woken = threading.Event()
        self.watch: ChangeSubscription = host.watch(view, request, self._woken.set)

    def next(self) -> RowChanges:
        while (changes := self.watch.next()) is None:
            assert self._woken.wait(TIMEOUT_S)
            self._woken.clear()
        return changes

    def miles(self, until: Position) -> dict[str, int | None]:
        """The miles of the rows that are told up to a position."""
        told: dict[str, int | None] = {}
        while True:
            changes = self.next()
            told |= {key: None if row is None else row["miles"] for key, row in changes.rows}
            if changes.position is not None and changes.position.covers(until):
                return told


@pytest.fixture
def setting(mainstem_log: Log, tmp_path: Path, request: pytest.FixtureRequest) -> Setting:
    """A view by key, and one of SQL for the tests that say so."""
    return Setting(mainstem_log, tmp_path, getattr(request, "param", ("kv",)))


@pytest.fixture
def host(setting: Setting) -> Iterator[ViewHost]:
    with setting.host() as host:
        for view in setting.app.views:
            host.wait(view, lambda status: status.state == "live")
        yield host


def applied(host: ViewHost, position: Position, view: str = "kv") -> Position:
    host.wait(view, lambda status: status.position.covers(position), TIMEOUT_S)
    return position


def test_changes_are_told_with_their_rows(setting: Setting, host: ViewHost) -> None:
    listener = Listener(host, WatchRequest(prefix="a"))
    setting.append("a1", miles=1)
    setting.append("b1", miles=2)
    end = setting.append("a2", miles=3)
    assert listener.miles(end) == {"a1": 1, "a2": 3}


def test_a_key_comes_as_it_is_first_and_then_as_it_changes(setting: Setting, host: ViewHost) -> None:
    applied(host, setting.append("a", miles=1))
    listener = Listener(host, WatchRequest(key="a"))
    first = listener.next()
    assert [(key, row and row["miles"]) for key, row in first.rows] == [("a", 1)]
    end = setting.append("a", miles=2)
    assert listener.miles(end) == {"a": 2}
    end = setting.log.append(setting.topic, None, key="a")
    assert listener.miles(end) == {"a": None}


def test_who_comes_back_is_told_what_changed_since(setting: Setting, host: ViewHost) -> None:
    since = setting.append("before", miles=1)
    setting.append("a", miles=2)
    setting.append("b", miles=3)
    end = applied(host, setting.append("a", miles=4))
    listener = Listener(host, WatchRequest(since=since))
    assert listener.watch.began == since
    assert listener.miles(end) == {"a": 4, "b": 3}


def test_who_knows_everything_is_told_nothing(setting: Setting, host: ViewHost) -> None:
    end = applied(host, setting.append("a"))
    listener = Listener(host, WatchRequest(since=end))
    assert (listener.watch.next(), listener.watch.position) == (None, end)


def test_what_the_log_has_no_more_is_a_reset(setting: Setting, host: ViewHost) -> None:
    since = setting.append("a")
    setting.append("b")
    end = applied(host, setting.append("c"))
    setting.remove_records_before(2)
    changes = Listener(host, WatchRequest(since=since)).next()
    assert (changes.is_reset, changes.position) == (True, end)


def test_a_gap_that_compaction_left_is_a_reset(
    setting: Setting, host: ViewHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    since = setting.append("a")
    setting.log.append(setting.topic, None, key="a")
    end = applied(host, setting.append("c"))
    left = [build_batch([NewRecord(b"c", b"{}")], base_offset=2)]
    monkeypatch.setattr(host._views["kv"], "_client", lambda: FakeLog({0: left}, name=setting.topic))
    changes = Listener(host, WatchRequest(since=since)).next()
    assert (changes.is_reset, changes.position) == (True, end)


@pytest.mark.parametrize("key", [None, "a"])
def test_a_position_of_another_life_is_a_reset(setting: Setting, host: ViewHost, key: str | None) -> None:
    end = applied(host, setting.append("a"))
    beyond = Position.of(setting.topic, 0, 1_000)
    changes = Listener(host, WatchRequest(key=key, since=beyond)).next()
    assert (changes.is_reset, changes.position, len(changes.rows)) == (True, end, 0 if key is None else 1)


def test_a_rebuild_is_a_reset_and_the_watch_goes_on(setting: Setting, host: ViewHost) -> None:
    applied(host, setting.append("a", miles=1))
    listener = Listener(host, WatchRequest(key="a"))
    listener.next()
    host.rebuild("kv")
    changes = listener.next()
    assert (changes.is_reset, [row and row["miles"] for _, row in changes.rows]) == (True, [1])
    assert listener.miles(setting.append("a", miles=2)) == {"a": 2}


@WITH_SQL
def test_other_kinds_tell_that_they_changed(setting: Setting, host: ViewHost) -> None:
    listener = Listener(host, WatchRequest(), "sql")
    end = setting.append("a")
    while (changes := listener.next()).position != end:
        continue
    assert (changes.has_moved, changes.rows) == (True, [])


def test_a_view_that_is_deleted_ends_its_watches(host: ViewHost) -> None:
    listener = Listener(host, WatchRequest())
    host.delete("kv")
    with pytest.raises(ViewStoppedError, match="deleted"):
        listener.next()


@WITH_SQL
def test_what_cannot_be_watched_is_refused(setting: Setting, host: ViewHost) -> None:
    with pytest.raises(QueryError, match="not both"):
        WatchRequest(key="a", prefix="b")
    with pytest.raises(QueryError, match="leave key and prefix out"):
        Listener(host, WatchRequest(key="a"), "sql")
    with pytest.raises(PositionError, match="elsewhere"):
        Listener(host, WatchRequest(since=Position.of("elsewhere", 0, 1)))
    with pytest.raises(UnknownViewError):
        Listener(host, WatchRequest(), "nope")
