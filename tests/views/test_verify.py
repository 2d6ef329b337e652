"""Verification against a real log: an honest view equals its replay, and whoever wrote to the store is found out."""

from __future__ import annotations

import itertools
import json
import sqlite3
from pathlib import Path
from typing import Any, cast

import pytest

from mainstem.client.log import Log
from mainstem.errors import HistoryRemovedError, MainstemError, UnavailableError
from mainstem.model import Position
from mainstem.pipelines.folds import FoldRecord
from mainstem.pipelines.kinds import SQL, KeyValue, Kind, Lake
from mainstem.record.writer import NewRecord, build_batch
from mainstem.schema.infer import schema_of
from mainstem.schema.topic_schemas import register
from mainstem.views.feed.feed import Feed
from mainstem.views.read_options import ReadOptions
from mainstem.views.requests import SqlQuery
from mainstem.views.status import VerifyResult
from mainstem.views.stores.store import Bookmark, StoreDefinition, ViewStore, no_dead_letters
from mainstem.views.stores.store_kinds import open_store
from mainstem.views.verification.sampling import SHARE_MAX, Sampling
from mainstem.views.verification.verify import Replay, compare
from tests.views.fake_log import TOPIC, FakeLog
from tests.views.hosting import EVERY_KIND, GET, REQUESTS, Setting
from tests.views.tampering import TAMPERINGS, VERIFIED_TAMPERINGS, named, rocksdb, run_in_sqlite

COUNT = itertools.count()


def counted(state: int, record: FoldRecord) -> int:
    """A fold that depends on more than its arguments: a replay gives something else."""
    return next(COUNT)


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


@pytest.mark.parametrize(("view", "what"), VERIFIED_TAMPERINGS)
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


def test_where_history_was_removed_a_graph_s_edges_are_held_to_its_own_records(
    mainstem_log: Log, tmp_path: Path
) -> None:
    setting = Setting(mainstem_log, tmp_path, ("graph",))
    filled(setting, "graph")
    setting.remove_records_before(4)
    with setting.host() as host:
        host.wait("graph", lambda status: status.state == "live")
        assert host.verify("graph").equal
    run_in_sqlite(tmp_path / "graph" / "v000001" / "store", statement="UPDATE edges SET records = 7 WHERE source = 'A'")
    with setting.host() as host:
        host.wait("graph", lambda status: status.state == "live")
        assert [difference.key for difference in host.verify("graph").differences] == ["edge A → B"]


def test_an_account_does_not_clear_what_a_replay_has_found(mainstem_log: Log, tmp_path: Path) -> None:
    setting = Setting(mainstem_log, tmp_path, ())
    setting.app.view("odd", setting.app.topics[setting.topic], KeyValue(fold=counted, initial=0))
    with setting.host() as host:
        host.query("odd", GET, ReadOptions(at_least=setting.append("1")))
        assert not host.verify("odd").equal
        again = host.verify("odd", full=False)
        assert (again.equal, again.method, host.status("odd")[0].drifted) == (False, "replay", True)


def test_what_a_verification_has_found_wrong_gives_no_past_any_more(mainstem_log: Log, tmp_path: Path) -> None:
    setting = Setting(mainstem_log, tmp_path)
    filled(setting, "kv")
    TAMPERINGS["kv"]["changed"](tmp_path / "kv" / "v000001" / "store")
    with setting.host() as host:
        host.wait("kv", lambda status: status.state == "live")
        now = host.query("kv", GET)
        assert [difference.key for difference in host.verify("kv").differences] == ["1"]
        past = host.query("kv", GET, ReadOptions(as_of=now.position))
        assert ([row["miles"] for row in now.rows], [row["miles"] for row in past.rows]) == ([99], [1])


def test_a_schema_that_gains_a_column_while_a_view_runs_is_no_drift(mainstem_log: Log, tmp_path: Path) -> None:
    setting = Setting(mainstem_log, tmp_path, ())
    out = f"{setting.topic}-out"
    mainstem_log.create_topic(out, partitions=1)
    register(mainstem_log, out, schema_of("n INT"), ())
    setting.app.view("table", setting.app.topic(out), SQL())
    position = mainstem_log.append(out, {"n": 1}, key="1")
    with setting.host(sampling=Sampling(share=SHARE_MAX)) as host:  # with less, it rests for 49 times its work
        host.query("table", SqlQuery('SELECT n FROM "table"'), ReadOptions(at_least=position))
        register(mainstem_log, out, schema_of("n INT, more STRING"), ())
        assert host.verify("table").equal
        sampled = [host.sample("table") for _ in range(16)]
    assert {entry.equal for entry in sampled if entry} == {True}


# ---- over a compacted log


def stored(path: Path, kind: Kind, log: FakeLog) -> ViewStore:
    store = open_store(path / "store", StoreDefinition("v", kind))
    feed = Feed(cast(Any, log), TOPIC, Bookmark(), columns=StoreDefinition("v", kind).reads)
    while step := feed.step(0):
        store.apply(step.arrow_batch, step.bookmark, no_dead_letters)
    return store


def compared(path: Path, kind: Kind, log: FakeLog, store: ViewStore) -> VerifyResult:
    with store.snapshot() as snapshot:
        replay = Replay(cast(Any, log), TOPIC, snapshot.position, StoreDefinition("v", kind).reads)
        return compare("v", snapshot, replay, (path / "scratch", StoreDefinition("v", kind)), lambda: None)


def one(key: str, offset: int, n: int) -> bytes:
    return build_batch([NewRecord(key.encode(), b'{"n": %d}' % n)], base_offset=offset)


def test_what_compaction_has_removed_since_a_lake_may_have(tmp_path: Path) -> None:
    log = FakeLog({0: [one("a", 0, 1), one("b", 1, 1), one("a", 2, 2)]})
    store = stored(tmp_path, Lake(), log)
    del log.partitions[0][0]
    result = compared(tmp_path, Lake(), log, store)
    store.close()
    assert (result.equal, result.records, result.entries) == (True, 2, 3)


@pytest.mark.parametrize(
    ("kind", "error"),
    [(KeyValue(), UnavailableError), (KeyValue(fold=counted, initial=0), HistoryRemovedError)],
    ids=["key-value", "fold"],
)
def test_a_view_behind_compaction_is_not_called_wrong(tmp_path: Path, kind: Kind, error: type[MainstemError]) -> None:
    log = FakeLog({0: [one("a", 0, 1), one("b", 1, 1)]})
    store = stored(tmp_path, kind, log)
    log.partitions[0] = [one("b", 1, 1), one("a", 2, 2)]
    with pytest.raises(error):
        compared(tmp_path, kind, log, store)
    store.close()


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
