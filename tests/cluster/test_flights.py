"""``examples/flights.py``, unchanged, on a Spark cluster over an Apache Kafka cluster, each losing one of its members.

``MAINSTEM_CLUSTER_FLIGHTS`` takes the first so many flights instead of all.
"""

from __future__ import annotations

import csv
import io
import itertools
import json
import os
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pytest

from mainstem.cli.demo.data import TABLES, files_directory, program
from mainstem.cli.demo.questions import QUESTIONS
from mainstem.client.http.views import Views, views
from mainstem.client.log import Log
from mainstem.client.wire.cluster.cluster import WireClient
from mainstem.errors import PositionTimeoutError, UnavailableError
from mainstem.model import Position
from mainstem.pipelines.progress import PROGRESS_TOPIC
from tests.endtoend.test_demo import QUERIES, equal, rows_of
from tests.support.kafka_cluster import KafkaCluster
from tests.support.ports import free_port
from tests.support.spark_cluster import SparkCluster

pytestmark = [pytest.mark.cluster, pytest.mark.spark, pytest.mark.maven, pytest.mark.timeout(2400)]

FLIGHTS = int(os.environ.get("MAINSTEM_CLUSTER_FLIGHTS") or 336_776)
CATCH_UP_S = 1500
VIEWS = ("carriers", "manufacturers", "flights", "airports", "routes")


@dataclass
class Run:
    """``mainstem run``, and where it answers."""

    url: str
    process: subprocess.Popen[str]
    data: Path

    def printed(self) -> str:
        return "".join(f"{path.name}:\n{path.read_text()[-4000:]}\n" for path in (self.data / "run").glob("*.log"))


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The demo's files, the first FLIGHTS flights in two halves."""
    directory = tmp_path_factory.mktemp("files")
    for table in TABLES:
        if not table.file_name.endswith(".zip"):
            (directory / table.file_name).write_bytes((files_directory() / table.file_name).read_bytes())
    with zipfile.ZipFile(files_directory() / "flights.csv.zip") as archive:
        rows = csv.reader(io.TextIOWrapper(archive.open("flights.csv"), newline=""))
        header, chosen = next(rows), list(itertools.islice(rows, FLIGHTS))
    for name, part in {"first": chosen[: FLIGHTS // 2], "second": chosen[FLIGHTS // 2 :]}.items():
        with (directory / f"flights-{name}.csv").open("w", newline="") as file:
            csv.writer(file).writerows([header, *part])
    return directory


@contextmanager
def running(kafka: KafkaCluster, spark: SparkCluster, data: Path) -> Iterator[Run]:
    http = f"127.0.0.1:{free_port()}"
    argv = [sys.executable, "-m", "mainstem.cli.main", "run", str(program()), "--bootstrap", kafka.bootstrap]
    argv += ["--master", spark.url, "--data", str(data), "--http", http]
    environment = {**os.environ, **spark.environment}
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=None, text=True, env=environment)
    run = Run(f"http://{http}", process, data)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith("ready: "), line + run.printed()
        yield run
    finally:
        process.terminate()
        process.wait(120)


def load(bootstrap: str, file: Path) -> subprocess.Popen[bytes]:
    table = next(table for table in TABLES if table.topic == file.stem.partition("-")[0])
    argv = [sys.executable, "-m", "mainstem.cli.main", "load", str(file), "--topic", table.topic]
    argv += ["--bootstrap", bootstrap]
    for name, pattern in table.derived.items():
        argv += ["--derive", f"{name}={pattern}"]
    return subprocess.Popen(argv)


def wait_for_view(run: Run, asked: Views, name: str, at_least: Position, spark: SparkCluster) -> None:
    """Until the view covers a position, whatever fails on the way."""
    deadline = time.monotonic() + CATCH_UP_S
    while True:
        try:
            asked[name].get("", at_least=at_least, timeout=5)
            return
        except (PositionTimeoutError, UnavailableError) as error:
            if time.monotonic() > deadline or run.process.poll() is not None:
                raise RuntimeError(run.printed() + spark.printed()) from error


def test_the_answers_are_the_files_though_a_broker_and_a_worker_are_killed(files: Path, tmp_path: Path) -> None:
    with KafkaCluster() as kafka, SparkCluster() as spark, running(kafka, spark, tmp_path / "data") as run:
        for table in TABLES[:-1]:
            assert load(kafka.bootstrap, files / table.file_name).wait(300) == 0
        asked = views(run.url)
        with Log(kafka.bootstrap) as log:
            assert load(kafka.bootstrap, files / "flights-first.csv").wait(300) == 0
            wait_for_view(run, asked, "carriers", log.end("flights"), spark)
            loading = load(kafka.bootstrap, files / "flights-second.csv")
            _wait_until_more_than(FLIGHTS // 2, log, loading)
            kafka.kill(_leader_of_progress(kafka))
            spark.kill_worker(0)
            assert loading.wait(600) == 0
            end = log.end("flights")
            assert sum(1 for _ in log.read("flights")) == FLIGHTS
        for name in ("carriers", "manufacturers"):
            wait_for_view(run, asked, name, end, spark)
        answers = {question.name: question.ask(asked, end) for question in QUESTIONS}
        verified = {name: _verified(run, name) for name in VIEWS}
        asked.close()
    assert {name: view["equal"] for name, view in verified.items()} == dict.fromkeys(VIEWS, True)
    assert different(files, answers) == {}


def _wait_until_more_than(records: int, log: Log, loading: subprocess.Popen[bytes]) -> None:
    """Until ``flights`` has grown past so many offsets; a transaction's end takes one in each partition."""
    begun = sum(log.end("flights").values())
    assert begun >= records
    while sum(log.end("flights").values()) == begun and loading.poll() is None:
        continue


def _leader_of_progress(kafka: KafkaCluster) -> int:
    """Whom the pipelines need most."""
    with WireClient(kafka.bootstrap) as client:
        return client.metadata([PROGRESS_TOPIC])[PROGRESS_TOPIC].partitions[0].leader_id


def _verified(run: Run, view: str) -> dict[str, Any]:
    argv = [sys.executable, "-m", "mainstem.cli.main", "views", "verify", view, "--url", run.url, "--json"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode in (0, 5), done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def different(files: Path, answers: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    """What is not as DuckDB computes it from the files: question → (answered, expected)."""
    with duckdb.connect() as connection:
        for name in ("airlines", "planes", "airports", "flights"):
            paths = [str(path) for path in sorted(files.glob(f"{name}*.csv"))]
            connection.execute(f"CREATE TABLE {name} AS FROM read_csv({paths}, nullstr='NA')")
        expected = {name: rows_of(connection, query) for name, query in QUERIES.items()}
    return {
        name: (answers[name], rows)
        for name, rows in expected.items()
        if len(rows) != len(answers[name])
        or not all(equal(one[key], row[key]) for one, row in zip(answers[name], rows, strict=True) for key in row)
    }
