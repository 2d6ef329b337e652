"""Positions through real pipelines: chains, restarts, micro-batches that derive nothing, several paths to one view."""

from __future__ import annotations

from typing import Any

import pytest

from mainstem.model import Position
from mainstem.views.feed.coverage import Coverage, Hop
from tests.spark.flights_app import Flights

pytestmark = pytest.mark.spark


def covered(world: Flights, topic: str, wanted: Position) -> bool:
    """Whether a view that has applied all of ``topic`` covers ``wanted``, by what the pipelines have said."""
    coverage = Coverage(
        Hop(name, frozenset(topic.name for topic in pipeline.streams), frozenset(), frozenset([name]))
        for name, pipeline in world.app.pipelines.items()
    )
    for pipeline in world.app.pipelines:
        for said in world.progress(pipeline):
            coverage.add(said)
    reached = coverage.wait(topic, wanted).is_reached(world.log.end(topic))
    assert coverage.covers(topic, world.log.end(topic)).covers(wanted) is reached
    return reached


def test_positions_travel_through_a_chain_that_derives_nothing_and_over_two_paths(world: Flights) -> None:
    copies, late, end, both = (f"{world.prefix}.{word}" for word in ("copies", "late", "end", "both"))
    world.app.pipeline(world.flights, into=copies, key="flight_id", name=copies)(lambda flights: flights)
    world.app.pipeline(copies, into=late, key="flight_id", name=late)(lambda copies: copies.where("delay > 100"))
    world.app.pipeline(late, into=end, key="flight_id", name=end)(lambda late: late)

    @world.app.pipeline(world.flights, copies, into=both, key="flight_id", name=both)
    def united(flights: Any, copies: Any) -> Any:
        return flights.union(copies)

    for delays in ([1, 2], [3], [200], [4]):
        position = world.fly(*(("UA", delay) for delay in delays))
        assert not covered(world, end, position)
        world.run_once()
        assert covered(world, end, position)
        assert covered(world, both, position)
    assert [row["delay"] for row in world.rows(end)] == [200]
    assert not covered(world, both, world.fly(("UA", 5)))
