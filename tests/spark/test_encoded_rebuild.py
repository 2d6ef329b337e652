"""A pipeline into an encoded topic that is rebuilt, also when its columns change with it."""

from __future__ import annotations

from typing import Any

import pytest

from mainstem.encodings.frames import schema_id_of
from mainstem.encodings.topic_values import Codec
from mainstem.pipelines.app import App
from mainstem.registry.registry import Registry
from mainstem.registry.requests import LATEST
from mainstem.schema.types import ENCODINGS, Encoding
from tests.spark.flights_app import Flights
from tests.spark.test_rebuilding import REBUILD, large_sums, shadows, sums

pytestmark = pytest.mark.spark


def declare(world: Flights, encoding: Encoding, function: Any) -> str:
    """The App anew, as after an edit, with one pipeline into an encoded topic."""
    world.app = App(world.prefix)
    flights = world.app.topic(world.flights.name, world.flights.schema, world.flights.key, partitions=2)
    name = f"{world.prefix}.derived"
    totals = world.app.topic(name, None, "carrier", encoding=encoding)
    world.app.pipeline(flights, into=totals, mode="update", name=name)(function)
    return name


def latest(world: Flights, topic: str) -> dict[str, Any]:
    """The latest row of each key."""
    codec = Codec(world.log)
    rows = {record.key: codec.decode(record) for record in world.log.read(topic)}
    return {(key or b"").decode(): row for key, row in rows.items() if row is not None}


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_an_encoded_topic_is_rebuilt(world: Flights, encoding: Encoding, capfd: pytest.CaptureFixture[str]) -> None:
    name = declare(world, encoding, sums)
    world.fly(("UA", 1), ("AA", 1), ("UA", 2), ("DL", 5))
    world.run_once()
    assert {carrier: row["n"] for carrier, row in latest(world, name).items()} == {"UA": 3, "AA": 1, "DL": 5}
    declare(world, encoding, large_sums)
    world.run_once(changed=REBUILD)
    assert f"topic {name}: 0 added, 1 changed (UA), 1 gone (AA), 1 as they were" in capfd.readouterr().err
    assert {carrier: row["n"] for carrier, row in latest(world, name).items()} == {"UA": 2, "DL": 5}
    assert shadows(world.log, name) == []
    assert [subject for subject in Registry(world.log).subjects(None) if "__" in subject] == []


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_a_column_that_comes_with_a_rebuild_is_in_a_new_schema(world: Flights, encoding: Encoding) -> None:
    name = declare(world, encoding, sums)
    world.fly(("UA", 1), ("DL", 5))
    world.run_once()
    declare(world, encoding, lambda flights: sums(flights).selectExpr("carrier", "n", "n * 2 AS doubled"))
    world.run_once(changed=REBUILD)
    assert latest(world, name) == {
        "UA": {"carrier": "UA", "n": 1, "doubled": 2},
        "DL": {"carrier": "DL", "n": 5, "doubled": 10},
    }
    stored = Registry(world.log).version(f"{name}-value", LATEST)
    assert stored.version == 2
    assert {schema_id_of(each.value or b"")[0] for each in list(world.log.read(name))[-2:]} == {stored.id}
