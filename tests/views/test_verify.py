"""Verification against a real log: an honest view equals its replay, and whoever wrote to the store is found out."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import duckdb
import pytest
import tantivy
from rocksdict import Options, Rdict

from mainstem.client.log import Log
from mainstem.model import Position
from mainstem.views.read_options import ReadOptions
from mainstem.views.status import VerifyResult
from tests.views.hosting import EVERY_KIND, REQUESTS, Setting


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


def tamper_with_key_value(store: Path) -> None:
    options = Options(raw_mode=True)
    db = Rdict(str(store), options)
    db[b"r1"] = b'{"origin":"A","dest":"B","miles":99}'
    db.close()


def tamper_with_sql(store: Path) -> None:
    with duckdb.connect(str(store / "view.duckdb")) as connection:
        connection.execute("UPDATE sql SET miles = 99 WHERE _key = '1'")


def tamper_with_search(store: Path) -> None:
    index = tantivy.Index.open(str(store))
    writer = index.writer(heap_size=32 << 20, num_threads=1)
    writer.delete_documents_by_term("_key", "1")
    document = tantivy.Document()
    document.add_text("_what", "record")
    document.add_text("_key", "1")
    document.add_bytes("_text", json.dumps({"origin": "A", "dest": "B", "miles": 99}).encode())
    writer.add_document(document)
    writer.commit()
    writer.wait_merging_threads()


TAMPERERS = {"kv": tamper_with_key_value, "sql": tamper_with_sql, "search": tamper_with_search}


@pytest.mark.parametrize("view", TAMPERERS)
def test_a_row_that_was_changed_by_hand_is_found_and_named(mainstem_log: Log, tmp_path: Path, view: str) -> None:
    setting = Setting(mainstem_log, tmp_path, (view,))
    filled(setting, view)
    TAMPERERS[view](tmp_path / view / "v000001" / "store")
    with setting.host() as host:
        host.wait(view, lambda status: status.state == "live")
        result = host.verify(view)
    [difference] = result.differences
    assert (result.equal, difference.key) == (False, "1")
    assert difference.expected is not None
    assert difference.actual is not None
    assert (difference.expected["miles"], difference.actual["miles"]) == (1, 99)


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


def test_rows_that_are_missing_or_too_many_are_named(mainstem_log: Log, tmp_path: Path) -> None:
    setting = Setting(mainstem_log, tmp_path)
    filled(setting, "kv")
    db = Rdict(str(tmp_path / "kv" / "v000001" / "store"), Options(raw_mode=True))
    del db[b"r5"]
    db[b"r9"] = b"{}"
    db.close()
    with setting.host() as host:
        host.wait("kv", lambda status: status.state == "live")
        differences = host.verify("kv").differences
    assert [(d.key, d.expected is None, d.actual is None) for d in differences] == [
        ("5", False, True),
        ("9", True, False),
    ]


def test_where_history_was_removed_only_what_is_left_is_compared(mainstem_log: Log, tmp_path: Path) -> None:
    setting = Setting(mainstem_log, tmp_path)
    filled(setting, "kv")
    setting.remove_records_before(4)
    with setting.host() as host:
        host.wait("kv", lambda status: status.state == "live")
        result = host.verify("kv")
    assert (result.equal, result.records) == (True, 3)
    assert result.compared_from == Position.of(setting.topic, 0, 4)
