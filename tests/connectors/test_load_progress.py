"""A load, cut short and run again: each row is in the topic exactly once. On Mainstem and on Apache Kafka."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyarrow import csv

from mainstem.client.log import Log
from mainstem.connectors import files, load_progress
from mainstem.connectors.loads import Loaded, LoadOptions, LoadProgress
from mainstem.errors import ProducerFencedError
from mainstem.model import Position
from tests.broker.harness import child_environment
from tests.support.eventually import eventually
from tests.support.kafka_or_skip import kafka_or_skip

ROWS = 14_000
TIMEOUT_S = 100


@pytest.fixture(scope="session")
def kafka_log() -> Iterator[str]:
    with kafka_or_skip() as kafka:
        yield kafka.bootstrap


@pytest.fixture(params=["mainstem", pytest.param("kafka", marks=pytest.mark.maven)])
def log(request: pytest.FixtureRequest) -> Iterator[Log]:
    if request.param == "kafka":
        bootstrap = str(request.getfixturevalue("kafka_log"))
    else:
        bootstrap = str(request.getfixturevalue("mainstem_broker").bootstrap)
    with Log(bootstrap, timeout_s=30) as opened:
        yield opened


@pytest.fixture
def many_commits(monkeypatch: pytest.MonkeyPatch) -> None:
    """A transaction for each block of the file."""
    monkeypatch.setattr(load_progress, "_COMMIT_BYTES", 1)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A file of several blocks, whose rows are numbered."""
    path = tmp_path / "rows.csv"
    with path.open("w") as file:
        file.write("id,text\n")
        for number in range(ROWS):
            file.write(f"{number},{'x' * 1000}\n")
    return path


def as_parquet(source: Path) -> Path:
    """The same rows in a Parquet file of several row groups."""
    path = source.with_suffix(".parquet")
    pq.write_table(csv.read_csv(source), path, row_group_size=ROWS // 8)
    return path


def new_topic() -> str:
    return f"load-{uuid.uuid4().hex[:12]}"


def loaded_ids(log: Log, topic: str) -> list[int]:
    """What readers of committed records find, in order of ids, when no transaction is open any more."""
    deadline_s = time.monotonic() + TIMEOUT_S
    while True:
        reader = log.read(topic)
        ids = sorted(json.loads(record.value or b"")["id"] for record in reader)
        if log.end(topic) == reader.position or time.monotonic() > deadline_s:
            return ids


class StopError(Exception):
    """What a load is stopped with."""


def stop_after(blocks: int) -> Callable[[LoadProgress], None]:
    seen = 0

    def on_progress(_: LoadProgress) -> None:
        nonlocal seen
        seen += 1
        if seen == blocks:
            raise StopError

    return on_progress


@pytest.mark.usefixtures("many_commits")
def test_a_load_that_was_cut_short_goes_on_where_it_was(log: Log, source: Path) -> None:
    topic, options = new_topic(), LoadOptions(key=("id",), partitions=3)
    with pytest.raises(StopError):
        files.load(log, source, topic, options, stop_after(3))
    rest = files.load(log, source, topic, options)
    assert 0 < rest.records_before < ROWS
    assert rest.records + rest.records_before == ROWS
    assert loaded_ids(log, topic) == list(range(ROWS))
    assert rest.position == log.read(topic).position or log.end(topic).covers(rest.position)


def test_a_load_that_is_done_does_nothing_until_it_is_told_to(log: Log, source: Path) -> None:
    topic = new_topic()
    first = files.load(log, source, topic)
    again = files.load(log, source, topic)
    assert (first.records, again.records, again.records_before) == (ROWS, 0, ROWS)
    assert again.position == first.position
    assert loaded_ids(log, topic) == list(range(ROWS))
    files.load(log, source, topic, LoadOptions(again=True))
    assert len(loaded_ids(log, topic)) == 2 * ROWS


def test_another_file_topic_or_key_is_another_load(log: Log, source: Path) -> None:
    topic = new_topic()
    files.load(log, source, topic, LoadOptions(partitions=2))
    assert files.load(log, source, topic, LoadOptions(key=("id",))).records == ROWS
    with source.open("a") as file:
        file.write(f"{ROWS},new\n")
    assert files.load(log, source, topic).records == ROWS + 1
    assert files.load(log, source, new_topic()).records == ROWS + 1


@pytest.mark.usefixtures("many_commits")
def test_a_second_run_takes_over_from_the_first(log: Log, source: Path) -> None:
    topic, options = new_topic(), LoadOptions(key=("id",))
    seconds: list[Loaded] = []

    def overtake(_: LoadProgress) -> None:
        if not seconds:
            seconds.append(files.load(log, source, topic, options))

    with pytest.raises(ProducerFencedError):
        files.load(log, source, topic, options, overtake)
    assert seconds[0].records + seconds[0].records_before == ROWS
    assert loaded_ids(log, topic) == list(range(ROWS))


PROGRAM = """
import sys
from mainstem.client.log import Log
from mainstem.connectors import files, load_progress, loads

load_progress._COMMIT_BYTES = 1
bootstrap, source, topic = sys.argv[1:]
with Log(bootstrap, timeout_s=30) as log:
    def on_progress(progress):
        print(progress.records, flush=True)
    files.load(log, source, topic, loads.LoadOptions(key=("id",), partitions=2), on_progress)
"""


def run_until_killed(log: Log, source: Path, topic: str, blocks: int) -> bool:
    """Run a load in a child, and kill it after so many blocks; whether it got to its end before."""
    argv = [sys.executable, "-c", PROGRAM, log.bootstrap, str(source), topic]
    child = subprocess.Popen(argv, stdout=subprocess.PIPE, env=child_environment())
    watchdog = threading.Timer(TIMEOUT_S, child.kill)
    watchdog.start()
    assert child.stdout is not None
    try:
        for _ in range(blocks):
            if not child.stdout.readline():
                break
        else:
            os.kill(child.pid, signal.SIGKILL)
        return child.wait(TIMEOUT_S) == 0
    finally:
        watchdog.cancel()
        child.stdout.close()


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_load_that_is_killed_again_and_again_loads_each_row_once(log: Log, source: Path, kind: str) -> None:
    topic = new_topic()
    if kind == "parquet":
        source = as_parquet(source)
    for blocks in (1, 2):
        if run_until_killed(log, source, topic, blocks):
            break
    done = files.load(log, source, topic, LoadOptions(key=("id",), partitions=2))
    assert done.records_before > 0
    assert loaded_ids(log, topic) == list(range(ROWS))


def test_a_load_that_fails_leaves_no_transaction_that_readers_wait_for(log: Log, source: Path) -> None:
    topic = new_topic()
    with pytest.raises(StopError):
        files.load(log, source, topic, LoadOptions(partitions=1), stop_after(2))

    def position_read_to() -> Position:
        reader = log.read(topic)
        assert list(reader) == []
        return reader.position

    # Apache Kafka writes the marker after it has answered.
    eventually(lambda: position_read_to().covers(log.describe_topic(topic).end), "committed records reach the end")
