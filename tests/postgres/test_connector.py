"""The connector: it outlasts a database and a log that are away, tells its state, and is dropped for good."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest

from mainstem.background import failures
from mainstem.cli.main import execute
from mainstem.client.log import Log
from mainstem.errors import ConfigError, ProducerFencedError
from mainstem.model import TopicPartition
from mainstem.pipelines.control.run_log import RunLogs
from mainstem.pipelines.journey.journey import COMMIT_HEADERS, JourneyFinder
from mainstem.pipelines.overview import Overview
from mainstem.postgres import connector
from mainstem.postgres.captured_state import read_state
from mainstem.postgres.requests import drop_capture
from tests.broker.harness import LogProcess
from tests.postgres.conftest import TIMEOUT_S, RunningConnector, Shop
from tests.support.eventually import eventually
from tests.support.postgres import PostgresCluster

ORDERS = "CREATE TABLE orders (id int PRIMARY KEY, item text)"


def state(shop: Shop) -> dict[str, Any]:
    found = {pipeline["name"]: pipeline for pipeline in Overview(shop.log).latest()}
    return found.get(shop.name, {})


def has_status(shop: Shop, status: str) -> None:
    eventually(lambda: state(shop).get("status") == status, f"the status is {status}", TIMEOUT_S)


def has_snapshot(shop: Shop) -> None:
    def done() -> list[bool]:
        return [table.is_done for table in read_state(shop.log, shop.name).tables.values()]

    eventually(lambda: done() == [True], "the snapshot is done", TIMEOUT_S)


def is_the_table(shop: Shop) -> None:
    eventually(lambda: shop.fold() == shop.rows(), "the topic is the table", TIMEOUT_S)


def test_a_database_that_is_away_for_a_while_is_waited_for(tmp_path: Path, mainstem_log: Log) -> None:
    cluster = PostgresCluster()
    try:
        cluster.create()
        from tests.support.postgres import PostgresDatabase

        shop = Shop(mainstem_log, PostgresDatabase(cluster, "postgres"), "away")
        shop.execute(ORDERS)
        with RunningConnector(shop) as running:
            assert running.is_ready.wait(TIMEOUT_S)
            cluster.stop("immediate")
            has_status(shop, "restarting")
            assert "the database cannot be reached" in state(shop)["failure"]["text"]
            cluster.start()
            shop.execute("INSERT INTO orders VALUES (1, 'a')")
            is_the_table(shop)
            has_status(shop, "running")
        assert running.error is None
        assert any("trying again" in note for note in running.notes)
        has_status(shop, "stopped")
        newest, again, *failures, first = RunLogs(mainstem_log).entries("away")
        assert [newest.event, again.event, first.event] == ["stopped", "restarted", "started"]
        assert {entry.event for entry in failures} == {"failed"}
        assert "the database cannot be reached" in failures[-1].text
    finally:
        cluster.close()


def test_a_log_that_is_away_for_a_while_is_waited_for(shop: Shop, tmp_path: Path) -> None:
    shop.execute(ORDERS)
    process = LogProcess(tmp_path / "data").start()
    try:
        with Log(process.bootstrap, timeout_s=3) as log:
            away = Shop(log, shop.database, shop.name)
            with RunningConnector(away) as running:
                assert running.is_ready.wait(TIMEOUT_S)
                process.kill()
                shop.execute("INSERT INTO orders VALUES (1, 'a'), (2, 'b')")
                eventually(lambda: any("trying again" in note for note in running.notes), "it waits", TIMEOUT_S)
                process.start()
                is_the_table(away)
            assert running.error is None
            assert [key for key, _ in away.records()] == ["1", "2"]
    finally:
        process.kill()


def test_a_second_capture_of_one_name_takes_over(shop: Shop) -> None:
    shop.execute(ORDERS)
    with RunningConnector(shop) as older:
        assert older.is_ready.wait(TIMEOUT_S)
        has_snapshot(shop)  # a row that comes meanwhile may come twice: in the stream, and in the snapshot
        shop.execute("INSERT INTO orders VALUES (1, 'a')")
        is_the_table(shop)
        with RunningConnector(shop) as newer:
            eventually(
                lambda: older.error is not None or "is active for PID" in str(newer.notes),
                "the newer one waits for the slot, or the older one has let go of it",
                TIMEOUT_S,
            )
            shop.execute("INSERT INTO orders VALUES (2, 'b')")
            eventually(lambda: older.error is not None, "the older one ends", TIMEOUT_S)
            assert isinstance(older.error, ProducerFencedError)
            is_the_table(shop)
            shop.execute("INSERT INTO orders VALUES (3, 'c')")
            is_the_table(shop)
        assert newer.error is None
    assert [key for key, _ in shop.records()] == ["1", "2", "3"]


def test_the_state_tells_the_slot_and_the_snapshots(shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    shop.execute(ORDERS)
    shop.execute("INSERT INTO orders SELECT n, 'x' FROM generate_series(1, 30) n")
    with RunningConnector(shop) as running:
        assert running.is_ready.wait(TIMEOUT_S)
        is_the_table(shop)
        eventually(lambda: state(shop).get("database", {}).get("slot_status") == "reserved", "the slot", TIMEOUT_S)
        eventually(lambda: state(shop)["written_rows"] == 30, "the count", TIMEOUT_S)
        database = state(shop)["database"]
        assert database["tables"] == {
            "public.orders": {"topic": f"{shop.name}.orders", "snapshot_rows": 30, "snapshot_done": True}
        }
        assert database["lag_bytes"] < 1 << 20
        assert database["snapshots_pending"] == 0
        assert execute(["connect", "status", "--bootstrap", shop.log.bootstrap, "--json"]) == 0
        assert shop.name in [each["name"] for each in json.loads(capsys.readouterr().out)["captures"]]
        assert execute(["connect", "status", "--bootstrap", shop.log.bootstrap]) == 0
        assert "1 of 1" in capsys.readouterr().out
        with pytest.raises(ConfigError, match="stop the capture first"):
            drop_capture(shop.settings(), shop.log)
    words = ["connect", "drop", shop.name, shop.database.dsn, "--yes", "--bootstrap", shop.log.bootstrap]
    assert execute(words) == 0
    assert shop.execute("SELECT count(*) FROM pg_replication_slots WHERE database = current_database()") == [(0,)]
    assert RunLogs(shop.log).entries(shop.name) == []
    assert shop.execute("SELECT count(*) FROM pg_publication") == [(0,)]
    assert state(shop) == {}
    assert f"{shop.name}.orders" in shop.log.topics()


def test_the_journey_of_a_captured_record_names_its_transaction(shop: Shop) -> None:
    shop.execute(ORDERS)
    shop.execute("INSERT INTO orders VALUES (1, 'of the snapshot')")
    with RunningConnector(shop) as running:
        assert running.is_ready.wait(TIMEOUT_S)
        is_the_table(shop)
        shop.execute("INSERT INTO orders VALUES (2, 'later')")
        is_the_table(shop)
        first, later = shop.log.read(f"{shop.name}.orders")
        eventually(lambda: state(shop).get("outputs"), "the capture says what it writes", TIMEOUT_S)
        finder = JourneyFinder(shop.log, Overview(shop.log))
        notes = [
            finder.find(TopicPartition(each.topic, each.partition), each.offset).origins[0].note
            for each in (first, later)
        ]
    lsn, xid, committed = (dict(later.headers)[name].decode() for name in COMMIT_HEADERS)  # type: ignore[union-attr]
    begin = f"capture {shop.name} has read it from a PostgreSQL database: "
    assert notes[0].startswith(f"{begin}a snapshot of the table; it ends at pg:{shop.name}:")
    assert notes[1] == f"{begin}transaction {xid}, which committed at {committed}; it ends at pg:{shop.name}:{lsn}"


def test_an_idle_table_beside_a_busy_one_keeps_no_log_of_the_database(shop: Shop) -> None:
    shop.execute(ORDERS)
    shop.execute("CREATE TABLE others (id int, filler text)")
    slot = "SELECT confirmed_flush_lsn - '0/0'::pg_lsn FROM pg_replication_slots WHERE slot_name = %s"
    with shop.capture() as capture:
        capture.caught_up(shop.database)
        for _ in range(3):
            shop.execute("INSERT INTO others SELECT n, repeat('x', 1000) FROM generate_series(1, 3000) n")
            end = shop.execute("SELECT pg_current_wal_lsn() - '0/0'::pg_lsn")[0][0]
            eventually(lambda end=end: shop.execute(slot, (shop.settings().slot,))[0][0] >= end, "the slot", TIMEOUT_S)
    assert shop.records() == []


def test_a_table_that_is_added_later_gets_its_snapshot(shop: Shop) -> None:
    shop.execute(ORDERS)
    shop.execute("CREATE TABLE lines (id int PRIMARY KEY); INSERT INTO lines SELECT generate_series(1, 40)")
    with shop.capture() as capture:
        capture.caught_up(shop.database)
    with shop.capture("orders", "lines") as capture:
        shop.execute(
            "INSERT INTO orders VALUES (1, 'a'); DELETE FROM lines WHERE id = 3; INSERT INTO lines VALUES (99)"
        )
        capture.caught_up(shop.database)
        assert shop.fold("lines") == shop.rows("lines")
        assert shop.fold() == shop.rows()
    with shop.capture() as capture:  # and one that is left out
        shop.execute("INSERT INTO lines VALUES (100)")
        capture.caught_up(shop.database)
    assert "100" not in shop.fold("lines")


def test_a_table_that_was_made_again_gets_a_new_snapshot(shop: Shop) -> None:
    shop.execute(ORDERS)
    shop.execute("INSERT INTO orders VALUES (1, 'a'), (2, 'b')")
    with shop.capture() as capture:
        capture.caught_up(shop.database)
    shop.execute(f"DROP TABLE orders; {ORDERS}; INSERT INTO orders VALUES (2, 'c'), (3, 'd')")
    with shop.capture() as capture:
        capture.caught_up(shop.database)
        assert shop.fold() == shop.rows()
        shop.execute("INSERT INTO orders VALUES (4, 'e')")
        capture.caught_up(shop.database)
    assert shop.fold() == shop.rows()


def test_the_state_is_published_on_after_an_unexpected_error(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    shop.execute(ORDERS)
    before = failures().get("state of the capture", 0)
    publish, broken = connector._States.publish, [True]

    def once_broken(self: connector._States, **options: bool) -> None:
        if broken:
            broken.clear()
            raise RuntimeError("unforeseen")
        publish(self, **options)

    monkeypatch.setattr(connector._States, "publish", once_broken)
    with RunningConnector(shop) as running:
        assert running.is_ready.wait(TIMEOUT_S)
        eventually(lambda: not broken, "the state could not be published once", TIMEOUT_S)
        shop.execute("INSERT INTO orders VALUES (1, 'a')")
        is_the_table(shop)
        eventually(lambda: state(shop).get("written_rows") == 1, "the count of rows is published", TIMEOUT_S)
    assert failures()["state of the capture"] == before + 1


def test_a_lasting_error_of_the_state_is_tried_again_after_growing_pauses(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.execute(ORDERS)
    publish, left = connector._States.publish, [RuntimeError("unforeseen")] * 7
    asked: list[float | None] = []

    class Ended(threading.Event):
        """Notes the pauses, and cuts them short."""

        def wait(self, timeout: float | None = None) -> bool:
            asked.append(timeout)
            return super().wait(0.01)

    def broken(self: connector._States, **options: bool) -> None:
        if left:
            raise left.pop()
        publish(self, **options)

    monkeypatch.setattr(connector._States, "publish", broken)
    running = RunningConnector(shop)
    running._connector._has_ended = Ended()
    with running:
        eventually(lambda: len(asked) > 8, "it is published again", TIMEOUT_S)
    assert asked[:9] == [1, 2, 4, 8, 16, 32, 60, 60, 1]
