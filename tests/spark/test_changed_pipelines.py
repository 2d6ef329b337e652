"""A pipeline that was changed since its checkpoint was written is noticed, and answered as the operator says."""

from __future__ import annotations

from typing import Any

import pytest

from mainstem.errors import ConfigError, DefinitionError
from mainstem.pipelines.app import App
from mainstem.pipelines.changes import Choices
from tests.spark.flights_app import Flights

pytestmark = pytest.mark.spark


def declare(world: Flights, function: Any, **options: Any) -> str:
    """The App anew, as after an edit, with one pipeline: ``function``."""
    world.app = App(world.prefix)
    for topic in (world.flights, world.airlines):
        world.app.topic(topic.name, topic.schema, topic.key, partitions=topic.partitions, compacted=topic.compacted)
    name = f"{world.prefix}.derived"
    world.app.pipeline(world.flights.name, into=name, name=name, **{"key": "carrier", "mode": "update", **options})(
        function
    )
    return name


def derived(world: Flights, name: str) -> list[Any]:
    return [row["n"] for row in world.rows(name)]


def test_a_plan_that_changed_stops_until_a_choice_is_made(world: Flights) -> None:
    name = declare(world, lambda flights: flights.groupBy("carrier").agg({"delay": "sum"}).toDF("carrier", "n"))
    world.fly(("UA", 1), ("UA", 2))
    world.run_once()
    # the same plan, written otherwise
    declare(world, lambda rows: rows.groupBy(rows.carrier).agg({"delay": "sum"}).toDF("carrier", "n"))
    world.fly(("UA", 3))
    world.run_once()
    assert derived(world, name) == [3, 6]

    def average(flights: Any) -> Any:
        return flights.groupBy("carrier").agg({"delay": "max"}).toDF("carrier", "n")

    declare(world, average)
    with pytest.raises(DefinitionError, match=rf"pipeline changed .*{name} \(.*sum.*now .*max.*--changed resume"):
        world.run_once()
    assert derived(world, name) == [3, 6]
    with pytest.raises(ConfigError, match="--changed names nope"):
        world.run_once(changed=Choices.parse(["fresh", "nope=fresh"]))
    world.run_once(changed=Choices.parse([f"{name}=fresh"]))
    assert derived(world, name) == [3, 6, 3]
    world.fly(("UA", 9))
    world.run_once()  # the choice was made for good
    assert derived(world, name) == [3, 6, 3, 9]


def test_the_code_of_a_python_function_belongs_to_the_pipeline(world: Flights) -> None:
    from pyspark.sql.functions import udf

    def adding(count: int) -> Any:
        return udf(lambda delay: delay + count, "int")

    options = {"mode": "append", "key": "flight_id"}
    name = declare(world, lambda flights: flights.select("flight_id", adding(1)("delay").alias("n")), **options)
    world.fly(("UA", 1))
    world.run_once()
    declare(world, lambda flights: flights.select("flight_id", adding(2)("delay").alias("n")), **options)
    world.fly(("UA", 1))
    with pytest.raises(DefinitionError, match="the code of a Python function in it is another"):
        world.run_once()
    world.run_once(changed=Choices.parse(["resume"]))
    assert derived(world, name) == [2, 3]
