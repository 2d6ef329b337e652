"""SQL in a process of its own, over a SQL view and over a lake: what ends that process harms nothing else."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from mainstem.errors import QueryError, UnavailableError
from mainstem.pipelines.kinds import SQL, Lake
from mainstem.views.requests import RangeQuery, SqlQuery
from mainstem.views.stores.sql.query_process import interrupt_queries
from mainstem.views.stores.store import StoreDefinition, ViewStore
from mainstem.views.stores.store_kinds import open_store
from tests.broker.harness import child_environment
from tests.support.eventually import eventually
from tests.views.forked import forked
from tests.views.support import SCHEMA, apply, flight, is_running, kill_process_of, process_of

KINDS = {"sql": SQL(), "lake": Lake()}
NUMBER = SqlQuery("SELECT count(*) AS n FROM routes")
ENDLESS = SqlQuery("SELECT length(lpad('a', 1000000000, 'b'))", timeout_s=0.3)
LONG = SqlQuery("SELECT count(*) FROM range(100000000000)", timeout_s=300)


def open_kind(path: Path, kind: str) -> ViewStore:
    return open_store(path, StoreDefinition("routes", KINDS[kind], SCHEMA), for_users=True)


@pytest.fixture(params=KINDS)
def store(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[ViewStore]:
    opened = open_kind(tmp_path / "store", request.param)
    apply(opened, [flight("1", "A", "B")])
    assert opened.query(NUMBER).rows == [{"n": 1}]
    yield opened
    opened.close()


@pytest.mark.parametrize("store", ["sql"], indirect=True)  # a lake's is killed below: nothing else differs
def test_a_query_that_cannot_be_interrupted_is_one_error_and_the_store_goes_on(store: ViewStore) -> None:
    before = process_of(store)
    with pytest.raises(QueryError, match=r"time limit of 0\.3 s and could not be interrupted"):
        store.query(ENDLESS)
    assert store.query(NUMBER).rows == [{"n": 1}]
    apply(store, [flight("2", "A", "B")], 1)
    assert store.query(NUMBER).rows == [{"n": 2}]
    assert process_of(store) != before


def test_a_killed_process_is_started_again_by_the_next_query(store: ViewStore) -> None:
    kill_process_of(store)
    assert store.query(NUMBER).rows == [{"n": 1}]
    kill_process_of(store)
    apply(store, [flight("2", "A", "B")], 1)
    with store.snapshot() as snapshot:
        assert snapshot.query(NUMBER) == [{"n": 2}]
        assert snapshot.position == store.position


def test_a_reader_of_a_killed_process_may_ask_again(store: ViewStore) -> None:
    with store.snapshot() as snapshot:
        kill_process_of(store)
        with pytest.raises(UnavailableError, match="ask again"):
            snapshot.query(NUMBER)


def test_only_sql_is_sent(store: ViewStore) -> None:
    with pytest.raises(QueryError):
        store.query(RangeQuery())


def test_a_host_that_stops_interrupts_the_queries(store: ViewStore) -> None:
    said: list[str] = []

    def ask() -> None:
        try:
            store.query(LONG)
        except QueryError as error:
            said.append(str(error))

    asking = threading.Thread(target=ask)
    asking.start()
    while asking.is_alive():
        interrupt_queries()
        asking.join(0.05)
    assert "time limit" in said[0]


def test_a_store_that_is_closed_ends_its_process(store: ViewStore) -> None:
    process = process_of(store)
    store.close()
    assert not Path(f"/proc/{process}").exists()


def test_processes_are_forked_by_one_and_outlive_it(tmp_path: Path) -> None:
    stores = [open_kind(tmp_path / name, "sql") for name in "ab"]
    for store in stores:
        apply(store, [flight("1", "A", "B")])
    [server] = {parent_of(process_of(store)) for store in stores}
    os.kill(server, signal.SIGKILL)
    eventually(lambda: not is_running(server), what="the process that forks has ended")
    assert [store.query(NUMBER).rows for store in stores] == [[{"n": 1}]] * 2
    kill_process_of(stores[0])
    assert stores[0].query(NUMBER).rows == [{"n": 1}]
    assert parent_of(process_of(stores[0])) not in {server, parent_of(process_of(stores[1]))}
    processes = [process_of(store) for store in stores]
    for store in stores:
        store.close()
    assert [each for each in processes if Path(f"/proc/{each}").exists()] == []


def parent_of(pid: int) -> int:
    """The id of the process that has made this one, or waits for it."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def open_and_be_killed(path: str) -> None:
    """Open a store, and end by SIGKILL."""
    apply(open_kind(Path(path), "sql"), [flight("1", "A", "B")])
    os.kill(os.getpid(), signal.SIGKILL)


def test_the_processes_of_a_killed_parent_print_nothing(tmp_path: Path) -> None:
    code = f"from tests.views.test_query_process import open_and_be_killed; open_and_be_killed({str(tmp_path / 's')!r})"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=100, check=False, env=child_environment()
    )
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGKILL, "", "")


def ask_for_long(path: Path, kind: str) -> None:
    """Open a store, say which process answers its SQL, and ask it what takes long."""
    store = open_kind(path, kind)
    apply(store, [flight("1", "A", "B")])
    store.settle()
    store.query(NUMBER)
    print(process_of(store), flush=True)  # noqa: T201
    store.query(LONG)


@pytest.mark.parametrize("kind", KINDS)
def test_the_process_of_a_parent_that_was_killed_gives_the_files_back(tmp_path: Path, kind: str) -> None:
    with forked(ask_for_long, tmp_path / "s", kind) as parent:
        process = int(parent.stdout.readline())
        parent.kill()
    eventually(lambda: not Path(f"/proc/{process}").exists(), what="the process of the killed parent is gone")
    store = open_kind(tmp_path / "s", kind)
    apply(store, [flight("1", "A", "B")])
    assert store.query(NUMBER).rows == [{"n": 1}]
    store.close()
