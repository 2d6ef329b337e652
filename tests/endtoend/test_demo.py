"""The main job as a user runs it, and its answers as DuckDB computes them from the CSV files directly."""

from __future__ import annotations

import json
import math
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from typing import Any

import duckdb
import pytest

from mainstem.cli.demo.data import files_directory
from tests.house.pages import ROOT, blocks_of, lines_of_shell

pytestmark = [pytest.mark.endtoend, pytest.mark.timeout(400)]

# Two routes from Burbank and not one, a route flown either way; written as joins, where the product walks a graph.
TWO_ROUTES_FROM_BURBANK = """
WITH routes AS (SELECT DISTINCT origin AS a, dest AS b FROM flights),
     ways AS (SELECT a, b FROM routes UNION SELECT b, a FROM routes),
     one AS (SELECT b FROM ways WHERE a = 'BUR')
SELECT DISTINCT ways.b AS airport FROM ways JOIN one ON ways.a = one.b
WHERE ways.b <> 'BUR' AND ways.b NOT IN (SELECT b FROM one) ORDER BY airport
"""
QUERIES = {
    "worst_carriers": """
        SELECT carrier, name, avg(dep_delay) AS mean_dep_delay, count(dep_delay) AS departures
        FROM flights JOIN airlines USING (carrier) GROUP BY carrier, name
        ORDER BY mean_dep_delay DESC LIMIT 10""",
    "delay_by_month_and_origin": """
        SELECT month, origin, avg(dep_delay) AS mean_dep_delay FROM flights GROUP BY ALL ORDER BY month, origin""",
    "airports_named_kennedy": "SELECT faa, name FROM airports WHERE name ILIKE '%kennedy%' ORDER BY faa",
    "one_change_from_BUR": TWO_ROUTES_FROM_BURBANK,
    "manufacturers": """
        SELECT manufacturer, avg(dep_delay) AS mean_dep_delay, count(dep_delay) AS departures
        FROM flights JOIN planes USING (tailnum) WHERE manufacturer IS NOT NULL GROUP BY manufacturer
        ORDER BY departures DESC, manufacturer""",
}
RECORDS = {"flights": 336_776, "weather": 26_115, "planes": 3_322, "airports": 1_458, "airlines": 16}


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The JSON document of one run of the demo."""
    data = tmp_path_factory.mktemp("demo") / "data"
    [block] = (each for each in blocks_of(ROOT / "docs/examples/flights.md") if each.mark == "node")
    [line] = lines_of_shell(block.text)
    argv = [sys.executable, "-m", "mainstem.cli.main", *line.split()[1:], "--exit", "--json", "--data", str(data)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=380, check=False)
    logs = "".join(f"{path.name}:\n{path.read_text()[-3000:]}\n" for path in (data / "run").glob("*.log"))
    assert done.returncode == 0, done.stderr + logs
    (line,) = done.stdout.splitlines()
    document: dict[str, Any] = json.loads(line)
    return document


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Iterator[duckdb.DuckDBPyConnection]:
    """The CSV files as tables."""
    directory = files_directory()
    unpacked = tmp_path_factory.mktemp("files")
    with zipfile.ZipFile(directory / "flights.csv.zip") as archive:
        archive.extract("flights.csv", unpacked)
    paths = {name: directory / f"{name}.csv" for name in ("airlines", "planes", "airports")}
    with duckdb.connect() as connection:
        for name, path in {**paths, "flights": unpacked / "flights.csv"}.items():
            connection.execute(f"CREATE TABLE {name} AS FROM read_csv('{path}', nullstr='NA')")
        yield connection


def rows_of(files: duckdb.DuckDBPyConnection, query: str) -> list[dict[str, Any]]:
    result = files.execute(query)
    names = [column[0] for column in result.description]
    return [dict(zip(names, row, strict=True)) for row in result.fetchall()]


def equal(one: Any, other: Any) -> bool:
    """Equal to the last digit that floating point allows."""
    if isinstance(one, float) or isinstance(other, float):
        return one is not None and other is not None and math.isclose(one, other, rel_tol=1e-9)
    return bool(one == other)


@pytest.mark.parametrize("question", QUERIES)
def test_an_answer_is_what_the_files_say(
    found: dict[str, Any], files: duckdb.DuckDBPyConnection, question: str
) -> None:
    expected, answered = rows_of(files, QUERIES[question]), found["answers"][question]
    assert [set(row) for row in answered] == [set(row) for row in expected]
    different = [
        (row, wanted)
        for row, wanted in zip(answered, expected, strict=True)
        if not all(equal(row[name], wanted[name]) for name in wanted)
    ]
    assert different == []


def test_sixty_nine_airports_are_one_change_from_burbank(found: dict[str, Any]) -> None:
    assert len(found["answers"]["one_change_from_BUR"]) == 69


def test_every_record_of_the_files_is_loaded(found: dict[str, Any]) -> None:
    assert found["topics"] == RECORDS


def test_the_view_includes_a_flight_that_was_just_appended(found: dict[str, Any]) -> None:
    assert found["read_your_writes"]["included"] is True
    assert found["read_your_writes"]["milliseconds"] > 0


def test_the_views_equal_a_replay_of_their_topics(found: dict[str, Any]) -> None:
    assert {name: view["equal"] for name, view in found["verify"].items()} == {"carriers": True, "flights": True}
    assert found["verify"]["flights"]["records"] == RECORDS["flights"] + 1


def test_each_step_is_timed(found: dict[str, Any]) -> None:
    assert list(found["seconds"]) == [
        "start",
        "load",
        "spark",
        "pipelines",
        "questions",
        "read_your_writes",
        "verify",
        "total",
    ]
