"""The verification in the background, stepped by hand: round by round, bucket by bucket."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from mainstem.background import failures
from mainstem.client.log import Log
from mainstem.clock import Clock
from mainstem.errors import ConfigError
from mainstem.model import Position
from mainstem.testing import ManualClock
from mainstem.views.host.host import ViewHost
from mainstem.views.read_options import ReadOptions
from mainstem.views.status import Sampled
from mainstem.views.stores.store import Bucket
from mainstem.views.verification import sampling
from mainstem.views.verification.sampling import Sampler, Sampling, SamplingThread
from tests.views.hosting import REQUESTS, Setting
from tests.views.tampering import SAMPLED_TAMPERINGS, TAMPERINGS, named

BUCKETS = 2
EVERY_SAMPLED = ("kv", "sql", "search", "graph", "fold")


def filled(setting: Setting, host: ViewHost, view: str) -> Position:
    """Twenty keys, one of which is deleted; where the view is."""
    for number in range(1, 6):
        setting.append(f"{number}", "B" if number == 2 else "A", "C")
    for number in range(15):
        setting.append(f"more-{number}", "A", "C")
    position = setting.log.append(setting.topic, None, key="3")
    host.query(view, REQUESTS[view], ReadOptions(at_least=position))
    return position


def by_hand(host: ViewHost, name: str, clock: Clock | None = None) -> None:
    """Let the view be sampled by a clock that stands still, so that no round ever rests."""
    view = host._views[name]
    scratch = view._directory / "sample"
    view.sampler = Sampler(view.topic, scratch, clock or ManualClock(), Sampling(buckets=BUCKETS), view._subject)


def all_rounds(host: ViewHost, view: str) -> list[Sampled]:
    by_hand(host, view)
    sampled = [host.sample(view) for _ in range(BUCKETS)]
    return [entry for entry in sampled if entry is not None]


@pytest.mark.parametrize("view", EVERY_SAMPLED)
def test_an_honest_view_is_verified_bucket_by_bucket(mainstem_log: Log, tmp_path: Path, view: str) -> None:
    setting = Setting(mainstem_log, tmp_path, (view,), partitions=2)
    with setting.host() as host:
        position = filled(setting, host, view)
        rounds = all_rounds(host, view)
        assert [entry.share for entry in rounds] == [number / BUCKETS for number in range(1, BUCKETS + 1)]
        assert {(entry.equal, entry.records, entry.position.covers(position)) for entry in rounds} == {(True, 21, True)}
        [status] = host.status(view)
        assert (status.sampled, status.drifted, status.detail) == (rounds[-1], False, "")
    assert not (tmp_path / view / "sample").exists()


@pytest.mark.parametrize(("view", "what"), SAMPLED_TAMPERINGS)
def test_a_row_written_by_hand_is_found_in_its_bucket(mainstem_log: Log, tmp_path: Path, view: str, what: str) -> None:
    setting = Setting(mainstem_log, tmp_path, (view,))
    with setting.host() as host:
        filled(setting, host, view)
    TAMPERINGS[view][what](tmp_path / view / "v000001" / "store")
    key = "9" if what == "added" else "1"
    number = next(n for n in range(BUCKETS) if Bucket(n, BUCKETS).has(key.encode()))
    with setting.host() as host:
        host.wait(view, lambda status: status.state == "live")
        rounds = all_rounds(host, view)
        keys = {difference.key for difference in rounds[-1].differences}
        assert named(key, view) in keys
        assert named(key, view) in {difference.key for difference in rounds[number].differences}
        assert number == 0 or named(key, view) not in {difference.key for difference in rounds[number - 1].differences}
        [status] = host.status(view)
        assert (status.state, status.drifted) == ("live", True)
        assert repr(sorted(keys)[0]) in status.detail
        version = host._views[view]._runner.version
        assert version is not None
        assert version.snapshots.is_void == version._store.keeps_past
        host.rebuild(view)
        [status] = host.status(view)
        assert (status.sampled, status.drifted) == (None, False)


def test_what_is_appended_meanwhile_is_followed(mainstem_log: Log, tmp_path: Path) -> None:
    setting = Setting(mainstem_log, tmp_path)
    with setting.host() as host:
        filled(setting, host, "kv")
        by_hand(host, "kv")
        for number in range(4):
            position = setting.append("new", miles=number)
            host.query("kv", REQUESTS["kv"], ReadOptions(at_least=position))
            sampled = host.sample("kv")
            assert sampled is not None
            assert (sampled.equal, sampled.position.covers(position)) == (True, True)


def test_where_history_was_removed_only_what_is_left_is_sampled(mainstem_log: Log, tmp_path: Path) -> None:
    setting = Setting(mainstem_log, tmp_path)
    with setting.host() as host:
        filled(setting, host, "kv")
        setting.remove_records_before(5)
        assert {(entry.equal, entry.compared_from) for entry in all_rounds(host, "kv")} == {
            (True, Position.of(setting.topic, 0, 5))
        }


class RacingClock:
    """Every look at it is an hour later, so that whoever rests for what was worked rests for days."""

    def __init__(self) -> None:
        self.looked_at = threading.Event()
        self._now_s = 0.0

    def time_ms(self) -> int:
        return 0

    def monotonic_s(self) -> float:
        self.looked_at.set()
        self._now_s += 3600
        return self._now_s


@pytest.mark.parametrize("precedes", ["rebuild", "verify", "delete", "stop"])
def test_a_round_gives_way_to_whoever_wants_the_view(mainstem_log: Log, tmp_path: Path, precedes: str) -> None:
    setting = Setting(mainstem_log, tmp_path)
    answers: list[Sampled | None] = []
    with setting.host() as host:
        filled(setting, host, "kv")
        by_hand(host, "kv", clock := RacingClock())
        thread = threading.Thread(target=lambda: answers.append(host.sample("kv")))
        thread.start()
        assert clock.looked_at.wait(60)
        if precedes == "stop":
            host.stop()
        else:
            getattr(host, precedes)("kv")
        thread.join(60)
        assert answers == [None]


def test_the_thread_goes_on_after_an_error_that_nobody_foresaw(monkeypatch: pytest.MonkeyPatch) -> None:
    class Unforeseen(Sampler):
        def __init__(self) -> None:
            self.rounds = 0
            self.has_gone_on = threading.Event()

        def round(self) -> None:
            self.rounds += 1
            if self.rounds > 1:
                self.has_gone_on.set()
            raise RuntimeError("unforeseen")

        def end(self) -> None:
            pass

    monkeypatch.setattr(sampling, "_BETWEEN_ROUNDS_S", 0.001)
    before, sampler = failures().get("view sampling", 0), Unforeseen()
    thread = SamplingThread([sampler])
    thread.start()
    assert sampler.has_gone_on.wait(30)
    thread.stop()
    assert failures()["view sampling"] == before + sampler.rounds


def test_a_host_whose_views_are_not_verified_stops_and_rests() -> None:
    nothing = SamplingThread([])
    nothing.start()
    stopping = threading.Thread(target=nothing.stop, daemon=True)
    stopping.start()
    stopping.join(60)
    assert not stopping.is_alive()


@pytest.mark.parametrize("share", [-0.1, 0.0, 0.51, float("nan")])
def test_a_share_that_is_none_is_refused(share: float) -> None:
    with pytest.raises(ConfigError, match="share"):
        Sampling(share)
