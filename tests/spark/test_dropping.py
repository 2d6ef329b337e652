"""A pipeline that is dropped leaves nothing open, and nothing that is known of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from mainstem.client.log import Log
from mainstem.errors import DirectoryLockedError, InputError
from mainstem.model import Position
from mainstem.pipelines.control.run_log import RUN_LOG_TOPIC, RunEvent, RunLogEntry, RunLogs, RunPlan
from mainstem.pipelines.overview import Overview
from mainstem.pipelines.progress import PROGRESS_TOPIC, Progress
from mainstem.pipelines.state import STATES_TOPIC
from mainstem.spark.changes.dropping import drop
from mainstem.spark.checkpoints.checkpoint_lock import locked
from mainstem.testing.embedded import EmbeddedBroker
from tests.cli.commands import Commands
from tests.pipelines.states import STATE
from tests.spark.test_transactions import Sink


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> Iterator[Log]:
    """A log in which the pipeline ``totals`` of the App ``shop`` has told of itself."""
    with EmbeddedBroker() as broker, Log(broker.bootstrap, timeout_s=10.0) as log:
        monkeypatch.setenv("MAINSTEM_BOOTSTRAP", broker.bootstrap)
        for topic in (PROGRESS_TOPIC, STATES_TOPIC, RUN_LOG_TOPIC, "totals"):
            log.create_topic(topic, partitions=1)
        log.append_many(STATES_TOPIC, [STATE.to_record()])
        progress = Progress("totals", 0, Position(), Position(), Position(), (), ("totals",))
        log.append_many(PROGRESS_TOPIC, [progress.to_record()])
        others = RunLogEntry("totals2", 0, 1, RunEvent.STARTED, "")
        entries = [RunLogEntry("totals", 0, 1, RunEvent.STARTED, ""), RunPlan("totals", 1, 0, "a plan"), others]
        log.append_many(RUN_LOG_TOPIC, [entry.to_record() for entry in entries])
        yield log


@pytest.fixture
def data(tmp_path: Path, log: Log) -> Path:
    """A data directory with the pipeline's checkpoint; its sink has died before it decided."""
    sink = Sink(log.bootstrap, "totals")
    sink.task(sink.begin(), 0, 0)
    checkpoint = tmp_path / "checkpoints" / "shop" / "totals"
    (checkpoint / "offsets").mkdir(parents=True)
    (checkpoint / "offsets" / "0").write_text("v1\n")
    (checkpoint / "metadata").write_text(json.dumps({"id": sink.sink_id}))
    return tmp_path


def test_a_drop_ends_what_was_open_and_forgets_the_rest(
    log: Log, data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    done = Commands(capsys).run("pipelines", "drop", "totals", "--yes", "--data", str(data), "--json")
    assert (done.code, done.json) == (0, {"dropped": "totals", "transactions": 1})
    assert Overview(log).latest() == []
    logs = RunLogs(log)
    assert ([entry.pipeline for entry in logs.entries()], logs.plan("totals")) == (["totals2"], None)
    assert not (data / "checkpoints" / "shop" / "totals").exists()
    with log.transaction() as tx:  # a reader gets past what was open
        tx.append("totals", "after")
    assert [record.value for record in log.read("totals")] == [b"after"]


def test_what_runs_is_not_dropped(log: Log, data: Path) -> None:
    checkpoints = data / "checkpoints" / "shop"
    with locked(checkpoints), pytest.raises(DirectoryLockedError, match="let it end, or stop it"):
        drop(log, checkpoints, "totals")
    assert len(Overview(log).latest()) == 1


def test_a_drop_that_was_cut_short_is_finished_by_the_next(log: Log, data: Path) -> None:
    checkpoints = data / "checkpoints" / "shop"
    log.append(PROGRESS_TOPIC, None, key="totals")
    assert drop(log, checkpoints, "totals").transactions == 1
    with pytest.raises(InputError, match="there is no pipeline 'totals'"):
        drop(log, checkpoints, "totals")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nope"], "there is no pipeline 'nope' in the log"),
        (["totals", "--app", "other"], "name its data directory with --data"),
        (["", "--app", "shop"], "invalid name '' for a pipeline: use letters, digits, '.', '_' and '-'"),
        ([".", "--app", "shop"], "invalid name '.' for a pipeline"),
        (["../shop/totals", "--app", "shop"], "invalid name '../shop/totals' for a pipeline"),
        (["totals", "--app", "../checkpoints/shop"], "invalid name '../checkpoints/shop' for an App"),
    ],
)
def test_a_drop_that_cannot_be_is_one_line(
    log: Log, data: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], words: str
) -> None:
    done = Commands(capsys).run("pipelines", "drop", *arguments, "--yes", "--data", str(data))
    assert (done.code, words in done.error) == (1, True)
    assert (data / "checkpoints" / "shop" / "totals" / "metadata").exists()


@pytest.mark.parametrize("name", ["", ".", "../other", "__rebuild-totals"])
def test_what_is_no_pipelines_name_leads_to_no_directory(log: Log, data: Path, name: str) -> None:
    with pytest.raises(InputError, match=r"invalid name .* for a pipeline"):
        drop(log, data / "checkpoints" / "shop", name)
    assert (data / "checkpoints" / "shop" / "totals" / "metadata").exists()
