"""A pipeline that was changed since its checkpoint was written is noticed, and answered as the operator says."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from mainstem.errors import ConfigError, DefinitionError
from mainstem.pipelines.app import App
from mainstem.pipelines.changes import Choices
from mainstem.spark.changes.fingerprint import Fingerprint
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


def test_another_address_of_the_log_changes_no_pipeline_whose_schema_has_line_breaks(world: Flights) -> None:
    world.app = App(world.prefix)
    world.flights = world.app.topic(f"{world.prefix}.lines", "\n  flight_id STRING,\n  carrier STRING,\n  delay INT\n")
    name = f"{world.prefix}.copied"
    world.app.pipeline(world.flights, into=name, name=name)(lambda rows: rows.select("carrier"))
    world.fly(("UA", 1))
    world.run_once()
    world.bootstrap = world.bootstrap.replace("127.0.0.1", "localhost")
    world.fly(("UA", 2))
    world.run_once()
    assert len(world.rows(name)) == 2


def test_of_two_long_plans_only_what_differs_is_shown() -> None:
    start, end = "x" * 300, "y" * 300
    before = Fingerprint(f"Project [{start}, 1 {end}]", (), (), (), "append", "4.3", "3.11")
    [said] = before.differences(replace(before, plan=f"Project [{start}, 2 {end}]"))
    assert re.fullmatch(r"its plan had …x+, 1 y+…, now …x+, 2 y+…", said)


@pytest.mark.parametrize("column", ["a.b", "a`b", "a b", "a.b.c"])
def test_a_column_may_have_any_name(world: Flights, column: str) -> None:
    from pyspark.sql import functions as sf

    name = f"{world.prefix}.named"
    world.app.pipeline(world.flights, into=name, key=column, name=name)(
        lambda rows: rows.select(rows.carrier.alias(column), sf.expr("interval 1 day").alias("c.d"), "_timestamp")
    )
    world.fly(("UA", 1))
    world.run_once()
    assert [row[column] for row in world.rows(name)] == ["UA"]
