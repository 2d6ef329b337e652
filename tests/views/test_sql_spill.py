"""What SQL queries spill to disk: at most the cap, and nothing is left of it."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from mainstem.errors import QueryError
from mainstem.pipelines.kinds import SQL
from mainstem.views.requests import SqlQuery
from mainstem.views.stores.sql import sql_table
from mainstem.views.stores.store import StoreDefinition, ViewStore
from mainstem.views.stores.store_kinds import open_store
from tests.views.forked import forked
from tests.views.support import SCHEMA, apply, flight

LARGE = SqlQuery(
    "WITH texts AS MATERIALIZED (SELECT md5(i::VARCHAR) AS text FROM range(1500000) AS numbers(i)) "
    "SELECT count(*) AS n FROM texts, (SELECT max(text) AS last FROM texts) WHERE text <= last",
    timeout_s=120,
)
"""It holds 1,500,000 texts of 32 bytes, more than its memory."""


def open_small(path: Path) -> ViewStore:
    """A store whose queries have 32 MB of memory."""
    sql_table._CONFIG |= {"memory_limit": "32MB", "threads": 1}
    return open_store(path, StoreDefinition("routes", SQL(), SCHEMA))


@pytest.fixture(autouse=True)
def limits(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as patch:
        patch.setattr(sql_table, "_CONFIG", dict(sql_table._CONFIG))
        yield


def spilled(path: Path) -> list[str]:
    """The files that hold spilled bytes; after an error DuckDB at times leaves an empty one, until the next query."""
    names = []
    for file in path.glob("*.tmp/*storage*"):
        with suppress(FileNotFoundError):  # removed meanwhile
            if file.stat().st_size:
                names.append(file.name)
    return names


def test_a_query_that_spills_over_the_cap_is_one_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sql_table, "SPILL_MAX", "4MB")
    store = open_small(tmp_path / "store")
    apply(store, [flight("1", "A", "B")])
    with pytest.raises(
        QueryError, match=r"^the query needs more memory or disk than .*: narrow it \(.*3\.8 MiB used\)\)$"
    ):
        store.query(LARGE)
    assert spilled(tmp_path / "store") == []
    assert store.query(SqlQuery("SELECT count(*) AS n FROM routes")).rows == [{"n": 1}]
    store.close()
    assert not list((tmp_path / "store").glob("*.tmp"))


def test_a_query_may_spill_up_to_the_cap(tmp_path: Path) -> None:
    store = open_small(tmp_path / "store")
    assert store.query(LARGE).rows == [{"n": 1_500_000}]
    assert spilled(tmp_path / "store") == []
    store.close()


def spill_and_end(path: Path) -> None:
    """Ask what is spilled, and end when it is."""
    store = open_small(path)
    threading.Thread(target=store.query, args=[LARGE], daemon=True).start()
    while not spilled(path):
        pass
    os._exit(9)


def test_what_a_killed_process_spilled_is_gone_at_the_next_opening(tmp_path: Path) -> None:
    path = tmp_path / "store"
    with forked(spill_and_end, path) as process:
        assert process.wait(120) == 9
    assert spilled(path)
    store = open_small(path)
    assert not list(path.glob("*.tmp"))
    store.close()
