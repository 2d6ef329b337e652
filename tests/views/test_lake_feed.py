"""A view whose history the log has removed, built anew from the topic's lake."""

from __future__ import annotations

from pathlib import Path

import pytest

from mainstem.client.log import Log
from mainstem.errors import HistoryRemovedError, ViewStoppedError
from mainstem.lake.reading import read_lake
from mainstem.model import Position
from mainstem.views.read_options import ReadOptions
from mainstem.views.requests import SqlQuery
from mainstem.views.stores.lake import lake
from tests.views.hosting import REQUESTS, Setting


@pytest.fixture(autouse=True)
def _commits_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The lake commits what it gathered at each of its turns."""
    monkeypatch.setattr(lake, "DEFAULT_LIMITS", lake.LakeLimits(commit_s=0.0))


def all_from(setting: Setting, first: int, count: int) -> Position:
    return Position.join(setting.append(f"{n}", miles=n) for n in range(first, first + count))


def test_a_view_is_rebuilt_from_the_lake_and_the_log_from_there(mainstem_log: Log, tmp_path: Path) -> None:
    setting = Setting(mainstem_log, tmp_path, ("kv", "sql", "lake"), partitions=2)
    end = all_from(setting, 0, 10)
    with setting.host() as host:
        for view in ("kv", "sql", "lake"):
            before = host.query(view, REQUESTS[view], ReadOptions(at_least=end)).rows
        host.delete("sql")
    setting.remove_records_before(4)
    with setting.host() as host:
        last = all_from(setting, 10, 3)
        host.query("lake", REQUESTS["lake"], ReadOptions(at_least=last))
        with pytest.raises(HistoryRemovedError):
            host.rebuild("kv")
        for view in ("kv", "sql", "lake"):
            result = host.rebuild(view, "lake")
            assert (result.records, result.built_from.source) == (13, "lake")
            rows = host.query(view, REQUESTS[view], ReadOptions(at_least=last)).rows
            assert len(rows) == 13
            assert host.verify(view).equal
    assert len(before) == 10


def test_a_lake_that_retention_has_overtaken_stops_and_keeps_what_it_has(mainstem_log: Log, tmp_path: Path) -> None:
    setting = Setting(mainstem_log, tmp_path, ("lake",))
    with setting.host() as host:
        host.query("lake", REQUESTS["lake"], ReadOptions(at_least=all_from(setting, 0, 3)))
    all_from(setting, 3, 5)
    setting.remove_records_before(6)
    with setting.host() as host:
        stopped = host.wait("lake", lambda status: status.state == "stopped")
        assert "removed offsets 3 to 5" in stopped.detail
        with pytest.raises((HistoryRemovedError, ViewStoppedError), match="removed"):
            host.rebuild("lake", "lake")
    archive = read_lake(tmp_path / "lake")
    assert (archive.rows, archive.position) == (3, Position.of(setting.topic, 0, 3))


def test_without_a_lake_there_is_nothing_to_rebuild_from(mainstem_log: Log, tmp_path: Path) -> None:
    setting = Setting(mainstem_log, tmp_path)
    with setting.host() as host:
        host.query("kv", REQUESTS["kv"], ReadOptions(at_least=setting.append("1")))
        with pytest.raises(HistoryRemovedError, match="no Lake view"):
            host.rebuild("kv", "lake")


def test_a_lake_s_status_has_its_place_and_it_answers_as_fresh_as_asked(mainstem_log: Log, tmp_path: Path) -> None:
    setting = Setting(mainstem_log, tmp_path, ("lake", "kv"))
    with setting.host() as host:
        position = setting.append("1", miles=7)
        answer = host.query("lake", SqlQuery("SELECT miles FROM lake"), ReadOptions(at_least=position))
        assert answer.rows == [{"miles": 7}]
        [status] = host.status("lake")
        assert Path(str(status.location), "catalog.db").exists()
        assert host.status("kv")[0].location is None
