"""Queries that aim at the view host: its process stays, or comes back, and its other readers are served."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from mainstem.client.log import Log
from mainstem.exit_codes import REFUSED
from mainstem.testing.embedded import EmbeddedBroker
from tests.hostile.serving import Process, WellBehaved, client, filled, get, statuses, view_host

_JSON = "(SELECT (string_agg('[','') || string_agg(']',''))::JSON FROM range(300000))"


@pytest.fixture(scope="module")
def host(mainstem_broker: EmbeddedBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    with Log(mainstem_broker.bootstrap, timeout_s=10.0) as log:
        position = filled(log)
    with view_host(tmp_path_factory.mktemp("host"), mainstem_broker.bootstrap) as process:
        with client(process) as api:
            for path in ("rows/keys", "names/search?q=name"):
                joined = f"/views/{path}{'&' if '?' in path else '?'}at_least={position}&timeout=60"
                assert api.get(joined).status_code == 200
            body = {"query": "SELECT count(*) FROM sheet"}
            assert api.post(f"/views/sheet/sql?at_least={position}&timeout=60", json=body).status_code == 200
        yield process


@pytest.fixture(scope="module")
def small_host(mainstem_broker: EmbeddedBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    """One whose queries have little memory."""
    with Log(mainstem_broker.bootstrap, timeout_s=10.0) as log:
        position = filled(log)
    little = {"MAINSTEM_VIEW_MEMORY_MAX": str(1 << 30)}
    with view_host(tmp_path_factory.mktemp("small"), mainstem_broker.bootstrap, little) as process:
        with client(process) as api:
            fresh = f"at_least={position}&timeout=60"
            assert api.get(f"/views/rows/keys?{fresh}").status_code == 200
            assert api.post(f"/views/sheet/sql?{fresh}", json={"query": "SELECT 1"}).status_code == 200
        yield process


def refused(answer: httpx.Response) -> str:
    assert answer.status_code == 400, answer.text
    assert answer.json()["type"] == "/problems/query"
    return str(answer.json()["detail"])


@pytest.mark.parametrize(
    "q", ["(" * 20_000 + "x" + ")" * 20_000, "(" * 4_000, "-(" * 4_000, "NOT " * 2_000 + "x", "x " * 20_000]
)
def test_a_search_that_nests_without_end_is_refused(host: Process, q: str) -> None:
    with client(host) as api, WellBehaved(host, "/views/rows/keys/1") as neighbor:
        answer = get(host, f"/views/names/search?q={q.replace(' ', '+')}")
        assert statuses(answer) == [400]
        assert b"/problems/query" in answer
        assert api.get("/views/names/search", params={"q": "name"}).status_code == 200
    assert host.child.poll() is None
    assert set(neighbor.answers) <= {200}


@pytest.mark.parametrize(
    "query",
    [
        "SELECT * FROM (" * 200_000 + "SELECT 1" + ")" * 200_000,
        "SELECT * FROM (" * 3_000 + "SELECT 1" + ")" * 3_000,
        "SELECT 1" + " UNION ALL SELECT 1" * 3_400,
        "SELECT " + "[" * 500 + "1" + "]" * 500,
        "SELECT " + "NOT " * 10_000 + "true",
        "SELECT 1" + "::int" * 10_000,
        "SELECT levenshtein('a', 'b')",
        "SELECT a.\"Levenshtein\"('b') FROM (SELECT 'a' AS a)",
        f"SELECT json_contains({_JSON}, {_JSON})",
        f"SELECT {_JSON}::VARIANT",
        f"SELECT json_structure({_JSON})",
    ],
    ids=range(11),
)
def test_a_select_that_would_end_the_process_is_refused(host: Process, query: str) -> None:
    with client(host) as api, WellBehaved(host, "/views/rows/keys/1") as neighbor:
        refused(api.post("/views/sheet/sql", json={"query": query, "timeout_s": 0.5}))
        rows = api.post("/views/sheet/sql", json={"query": "SELECT count(*) AS n FROM sheet"}).json()["rows"]
        assert rows == [{"n": 3}]
    assert host.child.poll() is None
    assert set(neighbor.answers) <= {200}


def test_an_answer_is_bounded_in_bytes_and_not_gathered_before(host: Process) -> None:
    before = host.memory_peak_mib()
    wide = "SELECT repeat('x', 20000) || range AS text FROM range(90000)"  # 1.8 GB
    with client(host) as api:
        assert "larger than" in refused(api.post("/views/sheet/sql", json={"query": wide, "limit": 100_000}))
    assert host.memory_peak_mib() - before < 900, "some chunks and the answer's limit, and not the whole"


@pytest.mark.parametrize(
    "query",
    [
        "SELECT length(lpad('a', 1000000000, 'b'))",
        "SELECT length(replace(string_agg('a', ''), 'a', string_agg('b', ''))) FROM range(300000)",
    ],
    ids=["time", "memory"],
)
def test_a_query_that_cannot_be_interrupted_is_one_error_and_harms_no_other_view(
    small_host: Process, query: str
) -> None:
    with client(small_host) as api:
        with WellBehaved(small_host, "/views/rows/keys/1") as neighbor:
            neighbor.wait()
            before = len(neighbor.answers)
            said = refused(api.post("/views/sheet/sql", json={"query": query, "timeout_s": 0.5}))
            assert len(neighbor.answers) - before >= 3, "others are served meanwhile"
        assert "could not be interrupted" in said
        assert set(neighbor.answers) == {200}
        rows = api.post("/views/sheet/sql", json={"query": "SELECT count(*) AS n FROM sheet"}).json()["rows"]
        assert rows == [{"n": 3}]
        assert small_host.child.poll() is None


def test_a_wrong_memory_limit_is_one_clear_line(mainstem_broker: EmbeddedBroker, tmp_path: Path) -> None:
    with view_host(tmp_path, mainstem_broker.bootstrap, {"MAINSTEM_VIEW_MEMORY_MAX": "lots"}) as process:
        assert process.child.wait(30) == REFUSED
