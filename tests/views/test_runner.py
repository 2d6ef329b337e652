"""The thread of a view, over versions that do nothing but what a test lets them do."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any, cast

import pytest

from mainstem.errors import (
    IndexNotReadyError,
    MainstemError,
    PartitionOfflineError,
    RemoteError,
    StorageError,
    UnavailableError,
    ViewStoppedError,
)
from mainstem.model import Position
from mainstem.views.host.runner import ViewRunner
from mainstem.views.subscriptions.changes import Changes
from tests.support.eventually import eventually

WAIT_S = 120.0
PASSING = (
    PartitionOfflineError("t/0 cannot be read from offset 4: its store is away"),
    RemoteError("t/0 has no leader", code=5, name="LEADER_NOT_AVAILABLE", retriable=True),
    IndexNotReadyError("an index is being built"),
)


class PanicError(BaseException):
    """As a library in Rust raises: no Exception."""


class ScriptedVersion:
    """A version that stands still; ``stepped`` is set at each step, which waits for ``may``, and raises ``fails``."""

    lag = 0
    topic_ids = frozenset({"a life"})

    def __init__(self, position: int, fails: BaseException | None = None) -> None:
        self.position = Position.of("t", 0, position)
        self.fails = fails
        self.stepped, self.may = threading.Event(), threading.Event()
        self.may.set()

    def step(self, max_wait_ms: int, applied: Any = None) -> bool:
        self.stepped.set()
        assert self.may.wait(WAIT_S)
        if self.fails is not None:
            raise self.fails
        return True

    def interrupt(self) -> None:
        """Nothing waits."""

    def close(self) -> None:
        """Nothing is open."""


def failing_swap() -> None:
    raise ValueError("a bug")


def runner_of(version: ScriptedVersion, changes: Changes | None = None) -> ViewRunner:
    return ViewRunner("v", lambda: cast(Any, version), changes or Changes())


@pytest.fixture
def old() -> Iterator[ScriptedVersion]:
    yield (version := ScriptedVersion(100))
    version.may.set()


@pytest.mark.parametrize("error", [PanicError("in Rust"), SystemExit(3), ValueError("a bug")])
def test_a_view_whose_thread_ends_is_stopped_whatever_ended_it(error: BaseException) -> None:
    runner = runner_of(ScriptedVersion(0, error))
    runner.start()
    assert runner._thread is not None
    runner._thread.join(WAIT_S)
    state, detail = runner.state
    assert (state, type(error).__name__ in detail) == ("stopped", True)


def test_a_stop_while_a_successor_catches_up_leaves_the_old_version_in_charge(old: ScriptedVersion) -> None:
    runner, successor, swapped = runner_of(old), ScriptedVersion(10), threading.Event()
    told: list[UnavailableError] = []

    def adopt() -> None:
        try:
            runner.adopt(cast(Any, successor), swapped.set)
        except UnavailableError as error:
            told.append(error)

    runner.start()
    assert old.stepped.wait(WAIT_S)
    successor.may.clear()
    adopting = threading.Thread(target=adopt)
    adopting.start()
    assert successor.stepped.wait(WAIT_S)
    stopping = threading.Thread(target=runner.retire)
    stopping.start()
    assert runner._stopping.wait(WAIT_S)
    successor.may.set()
    stopping.join(WAIT_S)
    adopting.join(WAIT_S)
    assert (swapped.is_set(), len(told)) == (False, 1)


def test_a_version_that_is_handed_over_serves_and_gives_back_the_one_before(old: ScriptedVersion) -> None:
    runner, new, swapped = runner_of(old), ScriptedVersion(100), threading.Event()
    runner.start()
    assert old.stepped.wait(WAIT_S)
    assert runner.adopt(cast(Any, new), swapped.set) is cast(Any, old)
    assert (runner.version, swapped.is_set()) == (cast(Any, new), True)
    runner.retire()


def test_a_hand_over_to_a_view_that_stops_fails_with_the_reason_and_is_forgotten(old: ScriptedVersion) -> None:
    runner, new = runner_of(old), ScriptedVersion(100)
    runner.start()
    assert old.stepped.wait(WAIT_S)
    with pytest.raises(UnavailableError, match=r"^view v stopped while it was rebuilt: unexpected ValueError: a bug"):
        runner.adopt(cast(Any, new), failing_swap)
    assert runner.version is cast(Any, old)
    old.stepped.clear()
    runner.start()  # a version that was not taken is not taken later
    assert old.stepped.wait(WAIT_S)
    assert runner.version is cast(Any, old)
    runner.retire()


@pytest.mark.parametrize("error", [PanicError("in Rust"), StorageError("its disk is full"), ValueError("a bug")])
def test_a_successor_that_fails_while_it_catches_up_leaves_the_old_version_serving(
    old: ScriptedVersion, error: BaseException
) -> None:
    runner, swapped = runner_of(old), threading.Event()
    runner.start()
    assert old.stepped.wait(WAIT_S)
    with pytest.raises(type(error), match=str(error)):
        runner.adopt(cast(Any, ScriptedVersion(10, error)), swapped.set)
    old.stepped.clear()
    assert old.stepped.wait(WAIT_S)
    assert (runner.version, runner.state[0], swapped.is_set()) == (cast(Any, old), "live", False)
    assert runner.adopt(cast(Any, ScriptedVersion(100)), swapped.set) is cast(Any, old)
    runner.retire()


def test_a_swap_that_the_disk_refuses_leaves_the_old_version_serving(old: ScriptedVersion) -> None:
    def refused() -> None:
        raise StorageError("its disk is full")

    runner = runner_of(old)
    runner.start()
    assert old.stepped.wait(WAIT_S)
    with pytest.raises(StorageError, match="its disk is full"):
        runner.adopt(cast(Any, ScriptedVersion(100)), refused)
    old.stepped.clear()
    assert old.stepped.wait(WAIT_S)
    assert (runner.version, runner.state[0]) == (cast(Any, old), "live")
    runner.retire()


def test_a_version_is_handed_over_to_a_view_that_has_stopped(old: ScriptedVersion) -> None:
    runner, new = runner_of(old), ScriptedVersion(10)
    runner.start()
    assert old.stepped.wait(WAIT_S)
    runner.halt("deleted", "")
    assert runner.adopt(cast(Any, new), lambda: None) is None
    assert runner.version is cast(Any, new)
    runner.retire()


@pytest.mark.parametrize("error", PASSING)
def test_a_view_waits_while_an_error_may_pass_and_goes_on(old: ScriptedVersion, error: MainstemError) -> None:
    old.fails = error
    runner = runner_of(old)
    runner.start()
    eventually(lambda: runner.state == ("log unavailable", str(error)), "the view says why it waits", WAIT_S)
    old.fails = None
    eventually(lambda: runner.state == ("live", ""), "the view goes on", WAIT_S)
    runner.retire()


@pytest.mark.parametrize(
    "error",
    [
        ViewStoppedError("the topic was deleted"),
        RemoteError("no right", code=87, name="INVALID_RECORD"),
        StorageError("its disk is full"),
    ],
)
def test_a_view_stops_on_an_error_that_does_not_pass(old: ScriptedVersion, error: MainstemError) -> None:
    old.fails = error
    runner = runner_of(old)
    runner.start()
    assert runner._thread is not None
    runner._thread.join(WAIT_S)
    assert runner.state == ("stopped", str(error))


@pytest.mark.parametrize("error", PASSING)
def test_a_successor_catches_up_after_an_error_that_passes(old: ScriptedVersion, error: MainstemError) -> None:
    runner, successor, gone_on = runner_of(old), ScriptedVersion(10, error), threading.Event()

    def pass_by() -> None:
        try:
            assert successor.stepped.wait(WAIT_S)
            eventually(lambda: runner.state[0] == "log unavailable", "the view waits", WAIT_S)
            gone_on.set()
        finally:  # the runner waits for it
            successor.position, successor.fails = old.position, None

    runner.start()
    assert old.stepped.wait(WAIT_S)
    passing = threading.Thread(target=pass_by)
    passing.start()
    assert runner.adopt(cast(Any, successor), lambda: None) is cast(Any, old)
    passing.join(WAIT_S)
    assert (runner.version, gone_on.is_set()) == (cast(Any, successor), True)
    runner.retire()
