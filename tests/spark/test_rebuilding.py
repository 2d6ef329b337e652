"""A changed pipeline that is rebuilt: its topic says what the new version derives, and a kill loses nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mainstem.client.log import Log
from mainstem.errors import DefinitionError
from mainstem.model import Position
from mainstem.pipelines.app import App
from mainstem.pipelines.changes import Choices
from mainstem.pipelines.control.run_log import RunLogs
from mainstem.pipelines.overview import Overview
from mainstem.pipelines.progress import PROGRESS_TOPIC, Progress
from mainstem.spark.changes.fingerprint import Fingerprint
from mainstem.spark.changes.rebuilding import Site, abandon, begin, swap
from mainstem.spark.checkpoints.progress_log import ProgressLog
from mainstem.spark.options.options import LogOptions
from mainstem.spark.sink.transactions import decide_and_finish
from tests.spark.flights_app import NUMBERS, Flights
from tests.spark.sink_world import Sink
from tests.spark.test_changed_pipelines import declare

pytestmark = pytest.mark.spark
REBUILD = Choices.parse(["rebuild"])


class KilledError(Exception):
    """Stands for a process that is no more."""


def killed(*_: Any) -> None:
    raise KilledError


def sums(flights: Any) -> Any:
    return flights.groupBy("carrier").agg({"delay": "sum"}).toDF("carrier", "n")


def large_sums(flights: Any) -> Any:
    return sums(flights.where("delay > 1"))


def latest(world: Flights, topic: str) -> dict[str, int]:
    return {carrier: row["n"] for carrier, row in world.latest(topic).items() if row is not None}


def shadows(log: Log, name: str) -> list[str]:
    """The topics that stand beside the pipeline's own."""
    own = f"__mainstem_dead_letters.{name.split('.')[0]}.{name}"
    return [topic for topic in log.topics() if name in topic and topic != own and topic.startswith("__")]


class Rebuilt:
    """A pipeline that was never started, as a rebuild's steps see it; and a topic with what it had derived."""

    def __init__(self, log: Log, checkpoints: Path, topic: str) -> None:
        app = App("rebuilt")
        app.pipeline(app.topic("orders", "id STRING", key="id"), into=topic, key="id", mode="update", name=topic)(sums)
        self.pipeline = app.pipelines[topic]
        self.site = Site(log, LogOptions(log.bootstrap), checkpoints)
        for name in (topic, PROGRESS_TOPIC):
            log.create_topic(name, partitions=1, exist_ok=True)
        log.append_many(topic, [("0-0-0", "0-0-0"), ("gone", "gone")])

    def begin(self) -> str:
        """The shadow topic."""
        return begin(self.site, self.pipeline, Fingerprint("plan", (), (), (), "update", "4", "3")).outputs[0].name

    def derived(self, shadow: str) -> None:
        """Its new version has said how far it is."""
        none = Position()
        progress = Progress(f"__rebuild-{self.pipeline.name}", 0, none, none, none, ("orders",), (shadow,))
        self.site.log.append_many(PROGRESS_TOPIC, [progress.to_record()])

    def left_open(self, shadow: str) -> None:
        """Its new version's sink has derived a record, and then left one open that nobody waits for."""
        sink = Sink(self.site.log.bootstrap, shadow)
        run = sink.begin()
        decide_and_finish(run, 0, [sink.task(run, 0, 0, rows=1)])
        sink.task(run, 1, 0)
        self.site.log.append(shadow, "added", key="added")
        (self.site.beside(self.pipeline.name) / "offsets").mkdir(parents=True)
        (self.site.beside(self.pipeline.name) / "offsets" / "0").write_text("v1\n")
        (self.site.beside(self.pipeline.name) / "metadata").write_text(json.dumps({"id": sink.sink_id}))


def test_what_the_new_version_left_open_hides_no_key(mainstem_log: Log, tmp_path: Path) -> None:
    rebuilt = Rebuilt(mainstem_log, tmp_path, f"rebuilding-{next(NUMBERS)}")
    shadow = rebuilt.begin()
    rebuilt.derived(shadow)
    rebuilt.left_open(shadow)
    (said,) = swap(rebuilt.site, rebuilt.pipeline)
    assert said.endswith("1 added (added), 0 changed, 1 gone (gone), 1 as they were")
    with ProgressLog(rebuilt.site.options, rebuilt.pipeline.name, ()) as told:
        last = told.last()
    assert last is not None
    assert (last.rebuilt, last.sink) == (True, mainstem_log.end(rebuilt.pipeline.name))


@pytest.mark.parametrize("letters", [0, 236])
def test_a_rebuild_takes_no_topic_of_anybodys_for_its_own(mainstem_log: Log, tmp_path: Path, letters: int) -> None:
    name = f"rebuilding-{next(NUMBERS)}".ljust(letters, "x")
    others = [f"{name}.rebuild", f"{name}-rebuild"]
    for other in others:
        mainstem_log.create_topic(other)
    mainstem_log.append(others[0], "precious")
    rebuilt = Rebuilt(mainstem_log, tmp_path, name)
    rebuilt.begin()
    assert len(shadows(mainstem_log, name[:190])) == 1
    abandon(rebuilt.site, name, [name])
    assert shadows(mainstem_log, name[:190]) == []
    assert [record.value for record in mainstem_log.read(others[0])] == [b"precious"]


def test_a_rebuild_swaps_what_differs_and_goes_on_whenever_it_is_killed(
    world: Flights, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = declare(world, sums)
    world.fly(("UA", 1), ("AA", 1), ("UA", 2), ("DL", 5))
    world.run_once()
    declare(world, large_sums)
    with monkeypatch.context() as at:
        at.setattr("mainstem.spark.changes.rebuilding._write_marker", killed)  # what differs is appended by then
        with pytest.raises(KilledError):
            world.run_once(changed=REBUILD)
    assert latest(world, name) == {"UA": 2, "DL": 5}
    records = len(world.rows(name))
    with monkeypatch.context() as at:
        at.setattr("mainstem.spark.changes.rebuilding.remove_checkpoint", killed)  # the swap is begun
        with pytest.raises(KilledError):
            world.run_once(changed=REBUILD)
    assert len(world.rows(name)) == records  # nothing is appended twice
    position = world.fly(("UA", 9), ("UA", 1))
    world.run_once()  # finishes the swap, without a choice, and goes on from the new version's state
    assert latest(world, name) == {"UA": 11, "DL": 5}
    (pipeline,) = [entry for entry in Overview(world.log).latest() if entry["name"].startswith(name)]
    assert (pipeline["name"], pipeline["lag"]) == (name, 0)
    assert world.progress(name)[-1].source.covers(position)
    assert shadows(world.log, name) == []
    assert [path.name for path in world.checkpoints.iterdir() if "rebuild" in path.name] == []


def test_a_rebuild_says_what_differed(world: Flights, capfd: pytest.CaptureFixture[str]) -> None:
    name = declare(world, sums)
    world.fly(("UA", 1), ("AA", 1), ("UA", 2), ("DL", 5))
    world.run_once()
    declare(world, large_sums)
    world.run_once(changed=REBUILD)
    said = f"mainstem: pipeline {name} is rebuilt; topic {name}: 0 added, 1 changed (UA), 1 gone (AA), 1 as they were"
    assert said in capfd.readouterr().err
    entries = RunLogs(world.log).entries(name)
    rebuilt, changed = [(entry.event, entry.text) for entry in entries if entry.event in ("rebuilt", "changed")]
    assert rebuilt == ("rebuilt", said.partition("; ")[2])
    assert (changed[0], changed[1].startswith("rebuild: ")) == ("changed", True)
    assert latest(world, name) == {"UA": 2, "DL": 5}


def test_a_topic_whose_rows_have_no_key_of_their_own_is_not_rebuilt(world: Flights) -> None:
    name = declare(world, lambda flights: flights.selectExpr("carrier", "delay AS n"), mode="append")
    world.fly(("UA", 1), ("UA", 2))
    world.run_once()
    declare(world, lambda flights: flights.selectExpr("carrier", "delay + 1 AS n"), mode="append")
    with pytest.raises(DefinitionError, match="several rows of one key"):
        world.run_once(changed=REBUILD)
    assert sorted(row["n"] for row in world.rows(name)) == [1, 2]
    declare(world, lambda flights: flights.selectExpr("carrier", "delay AS n"), mode="append")
    world.run_once()  # the edit was taken back: nothing of the rebuild is kept
    assert shadows(world.log, name) == []
