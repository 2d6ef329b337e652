"""Verification against a real log: an honest view equals its replay, and whoever wrote to the store is found out."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest

from mainstem.client.log import Log
from mainstem.errors import HistoryRemovedError
from mainstem.model import Position
from mainstem.views.read_options import ReadOptions
from mainstem.views.status import VerifyResult
from tests.views.hosting import EVERY_KIND, REQUESTS, Setting
from tests.views.tampering import EVERY_TAMPERING, TAMPERINGS, named, rocksdb

# The kinds whose stores keep an account of their own writes.
EVERY_ACCOUNT = ("kv", "sql", "search", "graph")


def filled(setting: Setting, view: str) -> VerifyResult:
    """The verification of a view of six records, one of which was replaced and one deleted."""
    with setting.host() as host:
        for key in "12345":
            setting.append(key, "A", "B")
        setting.append("2", "B", "C")
        position = setting.log.append(setting.topic, None, key="3")
        host.query(view, REQUESTS[view], ReadOptions(at_least=position))
        return host.verify(view)


@pytest.mark.parametrize("view", EVERY_KIND)
def test_an_honest_view_is_equal_to_the_replay_of_its_topic(mainstem_log: Log, tmp_path: Path, view: str) -> None:
    setting = Setting(mainstem_log, tmp_path, (view,))
    result = filled(setting, view)
    assert (result.equal, result.records, result.differences) == (True, 7, ())
    assert result.position == Position.of(setting.topic, 0, 7)
    assert result.compared_from is None
    assert not (tmp_path / view / "verify").exists()
    if view in EVERY_ACCOUNT:
        with setting.host() as host:
            host.query(view, REQUESTS[view], ReadOptions(at_least=setting.append("1", "C", "D")))
            by_account = host.verify(view, full=False)
        assert (by_account.equal, by_account.method, by_account.records) == (True, "account", 0)


@pytest.mark.parametrize(("view", "what"), EVERY_TAMPERING)
def test_a_row_written_by_hand_is_found_and_named(mainstem_log: Log, tmp_path: Path, view: str, what: str) -> None:
    setting = Setting(mainstem_log, tmp_path, (view,))
    filled(setting, view)
    TAMPERINGS[view][what](tmp_path / view / "v000001" / "store")
    with setting.host() as host:
        host.wait(view, lambda status: status.state == "live")
        for result in (host.verify(view, full=False), host.verify(view)):
            [difference] = result.differences
            assert (result.equal, result.method) == (False, "replay")
            assert difference.key == named("9" if what == "added" else "1", view)
            assert (difference.expected is None, difference.actual is None) == (what == "added", what == "removed")
        [status] = host.status(view)
    assert (status.state, status.drifted) == ("live", True)
    assert "DRIFTED" in status.detail


@pytest.mark.parametrize("view", EVERY_ACCOUNT)
def test_what_was_written_by_hand_does_not_heal_with_what_is_applied_after_it(
    mainstem_log: Log, tmp_path: Path, view: str
) -> None:
    setting = Setting(mainstem_log, tmp_path, (view,))
    filled(setting, view)
    TAMPERINGS[view]["changed"](tmp_path / view / "v000001" / "store")
    for key in "67":
        with setting.host() as host:
            host.query(view, REQUESTS[view], ReadOptions(at_least=setting.append(key)))
            result = host.verify(view, full=False)
        assert [difference.key for difference in result.differences] == [named("1", view)]


@pytest.mark.parametrize("view", EVERY_ACCOUNT)
def test_a_rebuild_puts_a_view_right_that_was_written_to_by_hand(mainstem_log: Log, tmp_path: Path, view: str) -> None:
    setting = Setting(mainstem_log, tmp_path, (view,))
    filled(setting, view)
    TAMPERINGS[view]["removed"](tmp_path / view / "v000001" / "store")
    with setting.host() as host:
        host.wait(view, lambda status: status.state == "live")
        assert not host.verify(view, full=False).equal
        host.rebuild(view)
        [status] = host.status(view)
        assert (status.drifted, status.detail) == (False, "")
        assert host.verify(view, full=False).method == "account"


def test_a_replay_that_is_equal_lets_the_account_begin_anew(mainstem_log: Log, tmp_path: Path) -> None:
    setting = Setting(mainstem_log, tmp_path)
    filled(setting, "kv")
    with rocksdb(tmp_path / "kv" / "v000001" / "store") as db:
        db[b"r1"] = db[b"r1"]
    with setting.host() as host:
        host.wait("kv", lambda status: status.state == "live")
        assert [host.verify("kv", full=False).method for _ in range(2)] == ["replay", "account"]


GRAPH_TAMPERINGS = {
    "edge A → Z": "INSERT INTO edges (source, target, records) VALUES ('A', 'Z', 1)",
    "edge A → B": "UPDATE edges SET records = 7 WHERE source = 'A'",
    "record 1": "DELETE FROM supports WHERE key = '1'",
}


@pytest.mark.parametrize("named", GRAPH_TAMPERINGS)
def test_an_edge_that_was_changed_by_hand_is_found_and_named(mainstem_log: Log, tmp_path: Path, named: str) -> None:
    setting = Setting(mainstem_log, tmp_path, ("graph",))
    filled(setting, "graph")
    with sqlite3.connect(tmp_path / "graph" / "v000001" / "store" / "view.sqlite") as connection:
        connection.execute(GRAPH_TAMPERINGS[named])
    connection.close()
    with setting.host() as host:
        host.wait("graph", lambda status: status.state == "live")
        assert [difference.key for difference in host.verify("graph").differences] == [named]


def test_a_figure_that_was_changed_by_hand_is_found_and_named(mainstem_log: Log, tmp_path: Path) -> None:
    setting = Setting(mainstem_log, tmp_path, ("metrics",))
    filled(setting, "metrics")
    file = tmp_path / "metrics" / "v000001" / "store" / "metrics.json"
    document = json.loads(file.read_text())
    document["figures"][0][1]["records"] = 99
    file.write_text(json.dumps(document))
    with setting.host() as host:
        host.wait("metrics", lambda status: status.state == "live")
        [difference] = host.verify("metrics").differences
    assert difference.key == '["A", "B"]'
    assert difference.expected is not None
    assert difference.actual is not None
    assert (difference.expected["records"], difference.actual["records"]) == (5, 99)


def test_where_history_was_removed_only_what_is_left_is_compared(mainstem_log: Log, tmp_path: Path) -> None:
    setting = Setting(mainstem_log, tmp_path)
    filled(setting, "kv")
    setting.remove_records_before(4)
    with setting.host() as host:
        host.wait("kv", lambda status: status.state == "live")
        result = host.verify("kv")
    assert (result.equal, result.records) == (True, 3)
    assert result.compared_from == Position.of(setting.topic, 0, 4)


@pytest.mark.parametrize("view", ["fold", "metrics"])
def test_rows_that_are_made_of_removed_records_are_not_called_wrong(
    mainstem_log: Log, tmp_path: Path, view: str
) -> None:
    setting = Setting(mainstem_log, tmp_path, (view,))
    filled(setting, view)
    setting.remove_records_before(4)
    with setting.host() as host:
        host.wait(view, lambda status: status.state == "live")
        with pytest.raises(HistoryRemovedError, match="cannot tell whether they are right"):
            host.verify(view)
        assert host.wait(view, lambda status: True).state == "live"
