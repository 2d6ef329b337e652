"""The pipelines' process: SIGKILL in the middle, what is left, and what a restart makes of it."""

from __future__ import annotations

import collections
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from mainstem.client.log import Log
from mainstem.pipelines.deploy import deploy
from mainstem.pipelines.load import load_app
from mainstem.pipelines.progress import PROGRESS_TOPIC, Progress
from mainstem.spark.process import main
from mainstem.testing.embedded import EmbeddedBroker
from tests.support.descriptors import is_readable

pytestmark = pytest.mark.spark
APP = """
import mainstem as ms

app = ms.App("kills")
orders = app.topic("kill.orders", schema="id STRING, item STRING, amount INT", key="id", partitions=2)

@app.pipeline(orders, into="kill.large", key="id")
def large(orders):
    return orders.where("amount % 2 = 0")

@app.pipeline(orders, into="kill.totals", key="item", mode="update")
def totals(orders):
    return orders.groupBy("item").agg({"amount": "sum", "id": "count"}).toDF("item", "total", "orders")
"""


class Pipelines:
    """The process, on a log of its own."""

    def __init__(self, directory: Path, bootstrap: str) -> None:
        self.app = directory / "kills_app.py"
        self.app.write_text(APP)
        argv = [sys.executable, "-m", "mainstem.spark.process", "--app", str(self.app), "--bootstrap", bootstrap]
        self._argv = [*argv, "--checkpoints", str(directory / "checkpoints"), "--stop-with-parent"]
        self.process: subprocess.Popen[str] | None = None

    def start_and_wait(self) -> subprocess.Popen[str]:
        self.process = subprocess.Popen(self._argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "ready: pipelines large totals\n"
        return self.process

    def end(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait(20)


@pytest.fixture
def pipelines(tmp_path: Path) -> Iterator[tuple[Pipelines, Log]]:
    with EmbeddedBroker() as broker, Log(broker.bootstrap) as log:
        made = Pipelines(tmp_path, broker.bootstrap)
        deploy(load_app(made.app), log)
        yield made, log
        made.end()


def order(log: Log, first: int, count: int) -> None:
    rows = [{"id": f"o{n}", "item": f"i{n % 5}", "amount": n} for n in range(first, first + count)]
    log.append_many("kill.orders", [(row["id"], row) for row in rows])


def wait_for_progress(log: Log, pipeline: str) -> None:
    end = log.end("kill.orders")
    for record in log.follow(PROGRESS_TOPIC, start="earliest"):
        said = Progress.from_record(record)
        if said is not None and said.pipeline == pipeline and said.source.covers(end):
            return


def latest(log: Log, topic: str) -> dict[bytes | None, dict[str, object]]:
    return {record.key: json.loads(record.value or b"") for record in log.read(topic)}


def descendants(pid: int) -> set[int]:
    children = collections.defaultdict(set)
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = stat.read_text().rpartition(")")[2].split()[1]
        except OSError:
            continue  # it has ended meanwhile
        children[int(parent)].add(int(stat.parent.name))
    found, queue = set(), [pid]
    while queue:
        queue += (new := children[queue.pop()] - found)
        found |= new
    return found


def wait_until_gone(pids: set[int]) -> None:
    for pid in pids:
        try:
            handle = os.pidfd_open(pid)
        except ProcessLookupError:
            continue
        assert is_readable(handle, 30), f"{Path(f'/proc/{pid}/cmdline').read_text()} lives on"
        os.close(handle)


def test_a_kill_in_the_middle_loses_and_leaves_nothing(pipelines: tuple[Pipelines, Log]) -> None:
    process, log = pipelines
    order(log, 0, 500)
    first = process.start_and_wait()
    wait_for_progress(log, "totals")
    order(log, 500, 4000)
    below = descendants(first.pid)
    first.kill()
    first.wait(20)
    wait_until_gone(below)
    order(log, 4500, 500)
    again = process.start_and_wait()
    wait_for_progress(log, "totals")
    wait_for_progress(log, "large")
    again.send_signal(signal.SIGINT)
    assert again.wait(60) == 0
    expected = collections.Counter({f"i{n}".encode(): sum(range(n, 5000, 5)) for n in range(5)})
    assert {key: row["total"] for key, row in latest(log, "kill.totals").items()} == expected
    assert {row["orders"] for row in latest(log, "kill.totals").values()} == {1000}
    assert latest(log, "kill.large").keys() == {f"o{n}".encode() for n in range(0, 5000, 2)}


def test_the_end_of_the_parent_is_a_clean_end(pipelines: tuple[Pipelines, Log]) -> None:
    process, _ = pipelines
    started = process.start_and_wait()
    below = descendants(started.pid)
    assert started.stdin is not None
    started.stdin.close()
    assert started.wait(60) == 0
    wait_until_gone(below)


def test_a_jvm_that_is_killed_ends_the_process_so_that_it_can_be_started_again(
    pipelines: tuple[Pipelines, Log],
) -> None:
    process, _ = pipelines
    started = process.start_and_wait()
    below = descendants(started.pid)
    jvm = next(pid for pid in below if Path(f"/proc/{pid}/comm").read_text() == "java\n")
    os.kill(jvm, signal.SIGKILL)
    assert started.wait(60) == 3
    wait_until_gone(below)


def test_what_is_wrong_is_said_in_a_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    app = tmp_path / "wrong_app.py"
    app.write_text("x = 1\n")
    assert main(["--app", str(app), "--bootstrap", "127.0.0.1:1", "--checkpoints", str(tmp_path)]) == 1
    said = capsys.readouterr().err
    assert "declares no App" in said
    assert said.count("\n") == 1
