"""Functions of micro-batches: what they are called with, and how positions travel through them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mainstem.errors import PipelineFailedError
from mainstem.model import Position
from tests.spark.flights_app import Flights

pytestmark = pytest.mark.spark


def test_a_function_is_called_with_each_micro_batch(world: Flights, tmp_path: Path) -> None:
    seen = tmp_path / "seen.txt"  # not a list: a function whose values change is a changed pipeline

    @world.app.foreach_batch(world.flights, name="seen")
    def see(flights: Any, batch_id: int) -> None:
        with seen.open("a") as file:
            file.write(f"{batch_id}: {sorted(row.delay for row in flights.collect())}\n")

    world.fly(("UA", 1), ("UA", 2))
    world.run_once()
    position = world.fly(("UA", 3))
    world.run_once()
    assert seen.read_text() == "0: [1, 2]\n1: [3]\n"
    said = world.progress("seen")[-1]
    assert (said.outputs, said.sink) == ((), Position())
    assert said.source.covers(position)


def test_positions_travel_through_what_a_function_says_it_appended(world: Flights) -> None:
    copies = world.app.topic(f"{world.prefix}.copies", schema="n INT")

    @world.app.foreach_batch(world.flights, into=copies, name="copy")
    def copy(flights: Any, batch_id: int) -> Position:
        return world.log.append_many(copies.name, [(None, {"n": row.delay}) for row in flights.collect()])

    position = world.fly(("UA", 1), ("AA", 2))
    world.run_once()
    said = world.progress("copy")[-1]
    assert said.source.covers(position)
    assert said.sink == world.log.end(copies.name)


def test_a_function_that_says_no_position_is_refused(world: Flights) -> None:
    world.app.foreach_batch(world.flights, name="wrong")(lambda flights, batch_id: 7)
    world.fly(("UA", 1))
    with pytest.raises(PipelineFailedError, match=r"must return the position after what it appended, or None, not int"):
        world.run_once()
