"""A SQL store whose table has a process of its own: what ends that process harms nothing else, and loses nothing."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from mainstem.errors import QueryError, StorageError, UnavailableError
from mainstem.pipelines.kinds import SQL
from mainstem.views.requests import Sql
from mainstem.views.stores.sql.sql import SqlStore
from mainstem.views.stores.sql.sql_process import IsolatedTable, interrupt_queries
from mainstem.views.stores.store import StoreDefinition
from mainstem.views.stores.store_kinds import open_store
from tests.support.eventually import eventually
from tests.views.support import SCHEMA, apply, flight

DEFINITION = StoreDefinition("routes", SQL(), SCHEMA)
ROWS = Sql("SELECT * FROM routes ORDER BY _key")
NUMBER = Sql("SELECT count(*) AS n FROM routes")
ENDLESS = Sql("SELECT length(lpad('a', 1000000000, 'b'))", timeout_s=0.3)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqlStore]:
    opened = open_store(tmp_path / "store", DEFINITION, for_users=True)
    assert isinstance(opened, SqlStore)
    yield opened
    opened.close()


def process_of(store: SqlStore) -> subprocess.Popen[bytes]:
    table = store._table
    assert isinstance(table, IsolatedTable)
    return table._child._process


def test_a_query_that_cannot_be_interrupted_is_one_error_and_the_store_goes_on(store: SqlStore) -> None:
    apply(store, [flight("1", "A", "B")])
    rows, before = store.query(ROWS).rows, process_of(store)
    with pytest.raises(QueryError, match=r"time limit of 0\.3 s and could not be interrupted"):
        store.query(ENDLESS)
    assert store.query(ROWS).rows == rows
    apply(store, [flight("2", "A", "B")], 1)
    assert store.query(NUMBER).rows == [{"n": 2}]
    assert process_of(store) != before


def test_a_killed_process_is_started_again_by_a_read_and_by_a_write(store: SqlStore) -> None:
    apply(store, [flight("1", "A", "B")])
    process_of(store).kill()
    assert store.query(NUMBER).rows == [{"n": 1}]
    process_of(store).kill()
    apply(store, [flight(f"{n}", "A", "B") for n in range(100)], 1)
    assert store.query(NUMBER).rows == [{"n": 100}]
    assert store.position == store.query(NUMBER).position


def test_a_process_that_is_killed_before_its_first_call_is_started_again(store: SqlStore) -> None:
    process_of(store).kill()
    process_of(store).wait()
    apply(store, [flight("1", "A", "B")])
    process_of(store).kill()
    process_of(store).wait()
    assert store.query(NUMBER).rows == [{"n": 1}]


def test_a_reader_of_a_killed_process_may_ask_again(store: SqlStore) -> None:
    with store.snapshot() as snapshot:
        process_of(store).kill()
        with pytest.raises(UnavailableError, match="ask again"):
            snapshot.query(ROWS)


def test_kills_within_writes_lose_no_row_and_write_none_of_another_state(store: SqlStore) -> None:
    over = threading.Event()

    def kill() -> None:
        for _ in range(6):
            process_of(store).kill()
            if over.wait(0.3):
                return

    killer = threading.Thread(target=kill)
    killer.start()
    for batch in range(60):
        apply(store, [flight(f"{n}", "A", f"{batch}") for n in range(3)], 3 * batch)
    over.set()
    killer.join()
    assert [row["dest"] for row in store.query(ROWS).rows] == ["59"] * 3
    with store.snapshot() as snapshot:
        assert snapshot.position == store.position


def test_a_store_whose_file_is_damaged_says_so(tmp_path: Path) -> None:
    open_store(tmp_path / "store", DEFINITION, for_users=True).close()
    (tmp_path / "store" / "view.duckdb").write_bytes(b"x" * 20_000)
    with pytest.raises(StorageError, match="cannot be opened"):
        open_store(tmp_path / "store", DEFINITION, for_users=True)


def test_a_host_that_stops_interrupts_the_queries(store: SqlStore) -> None:
    said: list[str] = []

    def ask() -> None:
        try:
            store.query(Sql("SELECT count(*) FROM range(100000000000)", timeout_s=300))
        except QueryError as error:
            said.append(str(error))

    asking = threading.Thread(target=ask)
    asking.start()
    while asking.is_alive():
        interrupt_queries()
        asking.join(0.05)
    assert "time limit" in said[0]


def test_the_process_of_a_parent_that_was_killed_gives_the_file_back(tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from tests.views.test_sql_process import *\n"
        "store = open_store(Path(sys.argv[1]), DEFINITION, for_users=True)\n"
        "apply(store, [flight('1', 'A', 'B')]); print('ready', process_of(store).pid, flush=True)\n"
        "store.query(Sql('SELECT count(*) FROM range(100000000000)', timeout_s=300))"
    )
    parent = subprocess.Popen([sys.executable, "-c", program, str(tmp_path / "s")], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    process = int(parent.stdout.readline().split()[1])
    parent.kill()
    parent.communicate(timeout=30)
    store = open_store(tmp_path / "s", DEFINITION, for_users=True)
    assert store.query(NUMBER).rows == [{"n": 1}]
    store.close()
    eventually(lambda: not Path(f"/proc/{process}").exists(), what="the process of the killed parent is gone")
