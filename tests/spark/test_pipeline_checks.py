"""What a pipeline's function may give: refused before anything runs, with its line and what to do."""

from __future__ import annotations

import pytest

from mainstem.errors import DefinitionError
from tests.spark.flights_app import Flights

pytestmark = pytest.mark.spark


REFUSED = {
    "counts": (lambda f: f.groupBy("carrier").count(), r'mode="append": .*aggregations.*declare .*mode="update"'),
    "sorted": (lambda f: f.orderBy("delay"), r"Sorting is not supported .* leave the sorting to a view"),
    "joined": (
        lambda f: f.join(f.selectExpr("flight_id AS other"), f.flight_id == "other", "left"),
        r"Stream-stream .* give both sides withWatermark",
    ),
    "eager": (lambda f: f.collect(), r"\(pipeline eager\): AnalysisException: Queries with streaming sources must"),
    "nothing": (lambda f: None, r"must return a DataFrame, not NoneType"),
    "many": (lambda f: (f, f), r"must return a DataFrame, not 2 results"),
    "untyped": (lambda f: f.selectExpr("INTERVAL 1 DAY AS `_offset`"), r"a schema needs at least one column"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_run_is_refused_with_its_line(world: Flights, name: str) -> None:
    function, said = REFUSED[name]
    world.app.pipeline(world.flights, into=f"{world.prefix}.x", name=name)(function)
    with pytest.raises(DefinitionError, match=rf"test_pipeline_checks\.py:\d+: .*{said}"):
        world.run_once()
    assert list(world.log.read(f"{world.prefix}.x")) == []


def test_what_does_not_fit_a_declared_schema_is_named_column_by_column(world: Flights) -> None:
    schema = "flight_id STRING, delay SMALLINT, tags ARRAY<INT>, price DECIMAL(10,2), text STRING, more STRING"
    target = world.app.topic(f"{world.prefix}.x", schema)
    given = ["delay", "array('a') AS tags", "1.5BD AS price", "array(1) AS text", "null AS more", "carrier"]
    world.app.pipeline(world.flights, into=target, name="wrong")(lambda flights: flights.selectExpr(*given))
    said = (
        rf"schema of {target.name} \(test_pipeline_checks\.py:\d+\): flight_id is missing; carrier is not declared; "
        "delay is INT, declared SMALLINT; tags is ARRAY<STRING>, declared ARRAY<INT>$"
    )
    with pytest.raises(DefinitionError, match=said):
        world.run_once()
