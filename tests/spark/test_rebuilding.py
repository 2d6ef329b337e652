"""A changed pipeline that is rebuilt: its topic says what the new version derives, and a kill loses nothing."""

from __future__ import annotations

from typing import Any

import pytest

from mainstem.errors import DefinitionError
from mainstem.pipelines.changes import Choices
from mainstem.pipelines.overview import Overview
from tests.spark.flights_app import Flights
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


def test_a_rebuild_swaps_what_differs_and_goes_on_whenever_it_is_killed(
    world: Flights, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = declare(world, sums)
    world.fly(("UA", 1), ("AA", 1), ("UA", 2), ("DL", 5))
    world.run_once()
    declare(world, large_sums)
    with monkeypatch.context() as at:
        at.setattr("mainstem.spark.rebuilding._write_marker", killed)  # what differs is appended by then
        with pytest.raises(KilledError):
            world.run_once(changed=REBUILD)
    assert latest(world, name) == {"UA": 2, "DL": 5}
    records = len(world.rows(name))
    with monkeypatch.context() as at:
        at.setattr("mainstem.spark.rebuilding.remove_checkpoint", killed)  # the swap is begun
        with pytest.raises(KilledError):
            world.run_once(changed=REBUILD)
    assert len(world.rows(name)) == records  # nothing is appended twice
    position = world.fly(("UA", 9), ("UA", 1))
    world.run_once()  # finishes the swap, without a choice, and goes on from the new version's state
    assert latest(world, name) == {"UA": 11, "DL": 5}
    (pipeline,) = [entry for entry in Overview(world.log).latest() if entry["name"].startswith(name)]
    assert (pipeline["name"], pipeline["lag"]) == (name, 0)
    assert world.progress(name)[-1].source.covers(position)
    assert f"{name}.rebuild" not in world.log.topics()
    assert [path.name for path in world.checkpoints.iterdir() if "rebuild" in path.name] == []


def test_a_rebuild_says_what_differed(world: Flights, capfd: pytest.CaptureFixture[str]) -> None:
    name = declare(world, sums)
    world.fly(("UA", 1), ("AA", 1), ("UA", 2), ("DL", 5))
    world.run_once()
    declare(world, large_sums)
    world.run_once(changed=REBUILD)
    said = f"mainstem: pipeline {name} is rebuilt; topic {name}: 0 added, 1 changed (UA), 1 gone (AA), 1 as they were"
    assert said in capfd.readouterr().err
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
    assert f"{name}.rebuild" not in world.log.topics()
