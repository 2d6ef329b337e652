"""Topics read as tables: the latest value of each key, as fresh as each micro-batch."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewPartitions

from mainstem.client.log import Log
from mainstem.errors import DefinitionError
from mainstem.pipelines.deploy import deploy
from tests.spark.flights_app import Flights

pytestmark = pytest.mark.spark


def naming(world: Flights, table: Any, *streams: Any) -> str:
    """Declare: each flight of the streams, with the name that the table has for its carrier."""
    name = f"{world.prefix}.named"

    @world.app.pipeline(table, *(streams or [world.flights]), into=name, key="flight_id", name=name)
    def named(names: Any, *flights: Any) -> Any:
        every = flights[0] if len(flights) == 1 else flights[0].union(flights[1])
        return every.join(names, "carrier", "left").select("flight_id", "name")

    return name


def test_a_table_loses_what_is_deleted_and_finds_new_partitions(world: Flights) -> None:
    named = naming(world, world.airlines.table())
    world.name("UA", "United")
    world.fly(("UA", 1))
    world.run_once()
    world.log.append(world.airlines.name, None, key="UA")
    admin = AdminClient({"bootstrap.servers": world.bootstrap})
    admin.create_partitions([NewPartitions(world.airlines.name, 8)])[world.airlines.name].result(60)
    with Log(world.bootstrap) as log:  # another one, which knows the new partitions
        rows = [{"carrier": carrier, "name": carrier.lower()} for carrier in ("AA", "BB", "CC")]
        news = [log.append(world.airlines.name, row, key=row["carrier"]) for row in rows]
    assert len({tp.partition for position in news for tp in position}) > 1
    world.fly(("UA", 1), ("AA", 1), ("BB", 1), ("CC", 1))
    world.run_once()
    # United's name was there at first, and was deleted before the second flight.
    names = [row["name"] for row in world.rows(named)]
    assert len(names) == 5
    assert set(names) == {"United", None, "aa", "bb", "cc"}


def test_a_derived_topic_may_be_a_table_and_any_stream_s_news_see_it_fresh(world: Flights) -> None:
    loud, other = f"{world.prefix}.loud", world.app.topic(f"{world.prefix}.other", "flight_id STRING, carrier STRING")

    @world.app.pipeline(world.airlines, into=loud, key="carrier", mode="update", name=loud)
    def louder(airlines: Any) -> Any:
        latest = airlines.groupBy("carrier").agg({"name": "max"}).toDF("carrier", "name")
        return latest.selectExpr("carrier", "upper(name) AS name")

    flights = f"{world.prefix}.slim"
    world.app.pipeline(world.flights, into=flights, name=flights)(lambda f: f.select("flight_id", "carrier"))
    named = naming(world, world.app.topics[loud].table(), flights, other)
    world.name("UA", "a")
    world.fly(("UA", 1))
    world.run_once()
    world.name("UA", "b")
    world.log.append(other.name, {"flight_id": "x", "carrier": "UA"})
    world.run_once()
    assert {row["flight_id"] == "x": row["name"] for row in world.rows(named)} == {False: "A", True: "B"}
    assert world.progress(named)[-1].tables == world.log.end(loud)


def test_a_table_needs_a_schema(world: Flights) -> None:
    bare = world.app.topic(f"{world.prefix}.bare", key="k")
    naming(world, bare.table())
    deploy(world.app, world.log)
    with pytest.raises(DefinitionError, match=rf"test_tables\.py:\d+: pipeline .* reads {bare.name} as a table, but"):
        world.run_once()
