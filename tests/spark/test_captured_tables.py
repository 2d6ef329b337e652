"""A pipeline over a captured topic: it starts while the table is empty, and without a schema it says what to do."""

from __future__ import annotations

from typing import Any

import pytest

from mainstem.errors import DefinitionError
from mainstem.pipelines.definitions import CapturedTables
from tests.postgres.conftest import TIMEOUT_S, RunningCapture
from tests.spark.flights_app import Flights
from tests.support.postgres import PostgresDatabase

pytestmark = pytest.mark.spark


def declare(world: Flights, database: PostgresDatabase, **options: Any) -> CapturedTables:
    """An App that names each flight by a captured table."""
    captured = world.app.postgres(f"{world.prefix}-shop", dsn=database.dsn, tables=["airlines"], **options)
    name = f"{world.prefix}.named"

    @world.app.pipeline(captured["airlines"].table(), world.flights, into=name, key="flight_id", name=name)
    def named(airlines: Any, flights: Any) -> Any:
        return flights.join(airlines, "carrier", "left").select("flight_id", "name")

    return captured


def test_a_pipeline_starts_over_a_captured_table_that_is_empty(
    world: Flights, postgres_database: PostgresDatabase
) -> None:
    postgres_database.execute("CREATE TABLE airlines (carrier text PRIMARY KEY, name text)")
    captured = declare(world, postgres_database)
    world.fly(("UA", 1))
    with RunningCapture(world.log, captured.settings) as capture:
        assert capture.ready.wait(TIMEOUT_S)
        world.run_once()
        postgres_database.execute("INSERT INTO airlines VALUES ('UA', 'United')")
        capture.caught_up(postgres_database)
        world.fly(("UA", 2))
        world.run_once()
    named = {row["flight_id"]: row["name"] for row in world.rows(f"{world.prefix}.named")}
    assert set(named.values()) == {None, "United"}


def test_a_captured_table_without_a_schema_names_its_capture(
    world: Flights, postgres_database: PostgresDatabase
) -> None:
    declare(world, postgres_database)
    with pytest.raises(DefinitionError, match="no schema; start its capture first, which registers the columns"):
        world.run_once()
