"""Pipelines are verified: the same function as a batch says what they should have written."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from mainstem.errors import DefinitionError, InputError, PositionError, TransactionTimeoutError
from mainstem.pipelines.changes import Choices
from mainstem.pipelines.deploy import deploy
from mainstem.spark.verification.comparison_rules import Rule
from mainstem.spark.verification.result import VerificationResult
from tests.spark.flights_app import Flights
from tests.spark.sink_world import Sink
from tests.support.removed_records import delete_records

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

pytestmark = pytest.mark.spark


def declare(world: Flights, function: Any, *inputs: Any, word: str = "derived", **how: Any) -> str:
    name = f"{world.prefix}.{word}"
    world.app.pipeline(*(inputs or (world.flights,)), into=name, name=name, **how)(function)
    return name


def verify(world: Flights, name: str) -> VerificationResult:
    from mainstem.spark.options.options import LogOptions
    from mainstem.spark.verification.verification import Verification

    options = LogOptions(world.bootstrap)
    return Verification(world.spark, world.app, name, world.log, options, checkpoints=world.checkpoints).verify()


def counts(flights: DataFrame) -> DataFrame:
    return flights.groupBy("carrier").count()


def test_a_pipeline_that_wrote_what_a_batch_gives_is_equal(world: Flights) -> None:
    name = declare(world, lambda flights: flights.where("delay > 0"), key="flight_id")
    world.fly(("UA", 1), ("AA", 0))
    world.run_once()
    position = world.fly(("UA", 2), ("UA", 2))
    world.run_once()
    world.fly(("UA", 3))  # the pipeline has not seen it
    found = verify(world, name)
    (topic,) = found.topics
    assert (found.is_equal, topic.expected, topic.actual, found.caveats) == (True, 3, 3, ())
    assert found.source.covers(position)


def test_a_record_that_was_changed_or_added_is_found_and_named(world: Flights) -> None:
    name = declare(world, lambda flights: flights.select("flight_id", "carrier"), key="flight_id", partitions=1)
    world.fly(("UA", 1), ("AA", 2))
    world.run_once()
    flight = json.loads(next(iter(world.log.read(name))).value or b"")["flight_id"]
    world.log.append(name, {"flight_id": flight, "carrier": "UA"}, key=flight)
    before = verify(world, name)
    assert (before.is_equal, before.topics[0].behind) == (True, 1)
    world.fly(("DL", 3))
    world.run_once()  # so that the record lies before what the pipeline wrote last
    found = verify(world, name)
    (difference,) = found.topics[0].differences
    assert (found.is_equal, difference.key, difference.expected, difference.count) == (False, flight, None, 1)
    assert json.loads(difference.actual or "") == {"flight_id": flight, "carrier": "UA"}
    assert difference.at is not None
    assert difference.at.startswith(f"{name}/0:")
    assert "another writer appended to the topic" in found.caveats[-1]


def test_records_without_a_key_are_compared_as_often_as_they_are_there(world: Flights) -> None:
    name = declare(world, lambda flights: flights.selectExpr("carrier", "delay / 10 AS share"), partitions=1)
    world.fly(("UA", 1), ("UA", 2))
    world.run_once()
    for carrier in ("UA", "DL"):
        world.log.append(name, {"carrier": carrier, "share": 0.7})
    world.fly(("UA", 1))
    world.run_once()
    (topic,) = verify(world, name).topics
    assert (topic.expected, topic.actual) == (3, 5)
    assert sorted(json.loads(difference.actual or "")["carrier"] for difference in topic.differences) == ["DL", "UA"]


def test_the_latest_value_of_each_key_counts_where_rows_change(world: Flights) -> None:
    name = declare(world, counts, key="carrier", mode="update", partitions=1)
    for _ in range(2):
        world.fly(("UA", 1), ("AA", 1))
        world.run_once()
    assert verify(world, name).is_equal
    world.log.append(name, {"carrier": "UA", "count": 9}, key="UA")
    world.log.append(name, None, key="AA")
    world.fly(("DL", 1))
    world.run_once()
    found = verify(world, name)
    by_key = {difference.key: difference for difference in found.topics[0].differences}
    assert (found.is_equal, by_key.keys()) == (False, {"UA", "AA"})
    assert (by_key["UA"].expected, by_key["UA"].actual) == ('{"carrier":"UA","count":2}', '{"carrier":"UA","count":9}')
    assert by_key["AA"].actual is None


def test_tables_are_joined_as_they_were_and_named_where_they_changed(world: Flights) -> None:
    def named(flights: DataFrame, airlines: DataFrame) -> DataFrame:
        return flights.join(airlines, "carrier").select("flight_id", "name")

    name = declare(world, named, world.flights, world.airlines.table(), key="flight_id")
    world.name("UA", "United")
    world.fly(("UA", 1))
    world.run_once()
    world.name("UA", "renamed, seen by no micro-batch")
    assert verify(world, name).is_equal
    world.fly(("UA", 2))
    world.run_once()
    found = verify(world, name)
    assert [difference.count for difference in found.topics[0].differences] == [1]
    assert any(f"the table {world.airlines.name} was joined as it was" in caveat for caveat in found.caveats)


def test_a_pipeline_on_a_derived_topic_with_several_outputs(world: Flights) -> None:
    first = declare(world, lambda flights: flights.where("delay > 0"), key="flight_id", word="first")
    outputs = [
        world.app.topic(f"{world.prefix}.{word}", "flight_id STRING", key="flight_id") for word in ("even", "odd")
    ]

    def split(flights: DataFrame) -> Any:
        flights = flights.select("flight_id", "delay")
        return tuple(flights.where(f"delay % 2 = {rest}").select("flight_id") for rest in (0, 1))

    name = f"{world.prefix}.split"
    world.app.pipeline(first, into=outputs, name=name)(split)
    world.fly(*(("UA", delay) for delay in range(8)))
    world.run_once()
    found = verify(world, name)
    assert [(topic.is_equal, topic.actual) for topic in found.topics] == [(True, 3), (True, 4)]
    world.log.append(outputs[1].name, {"flight_id": "x"}, key="x")
    world.fly(*[("UA", 9)] * 32)  # rows behind it in each partition, whatever their keys
    world.run_once()
    assert [topic.is_equal for topic in verify(world, name).topics] == [True, False]


def test_windows_that_the_watermark_holds_back_are_counted_and_lost_ones_found(world: Flights) -> None:
    at = "make_timestamp(2026, 1, 1, delay, 0, 0)"

    def hourly(flights: DataFrame) -> DataFrame:
        from pyspark.sql.functions import expr, window

        timely = flights.withColumn("at", expr(at)).withWatermark("at", "1 hour")
        return timely.groupBy(window("at", "1 hour"), "carrier").count()

    name = declare(world, hourly, key=("window", "carrier"))
    world.fly(("UA", 1), ("UA", 1), ("UA", 2), ("UA", 8))
    world.run_once()
    (topic,) = verify(world, name).topics
    assert (topic.is_equal, topic.actual, topic.expected, topic.held_back) == (True, 2, 3, 1)
    world.fly(("UA", 3))  # behind the watermark
    world.run_once()
    found = verify(world, name)
    assert [difference.actual for difference in found.topics[0].differences] == [None]
    assert any("the stream dropped late rows" in caveat for caveat in found.caveats)


def test_a_function_that_is_not_deterministic_is_said_to_be(world: Flights) -> None:
    name = declare(world, lambda flights: flights.selectExpr("flight_id", "rand() AS r"), key="flight_id")
    world.fly(("UA", 1))
    world.run_once()
    found = verify(world, name)
    assert not found.is_equal
    assert "not deterministic" in found.caveats[0]


def test_records_that_retention_removed_are_said_and_nothing_is_claimed_without_them(world: Flights) -> None:
    copies = declare(world, lambda flights: flights, key="flight_id", word="copies")
    totals = declare(world, counts, key="carrier", mode="update", word="totals")
    world.fly(*(("UA", delay) for delay in range(6)))
    world.run_once()
    first = next(iter(world.log.read(world.flights.name)))
    delete_records(world.bootstrap, first.topic, first.partition, 1)
    found = verify(world, copies)
    assert (found.is_equal, list(found.begins.values()), found.topics[0].not_judged) == (True, [1], 1)
    with pytest.raises(InputError, match=r"cannot be verified: .* were removed, .* 1 differ \(UA\)"):
        verify(world, totals)


def test_a_topic_of_rows_that_never_change_is_compared_by_key_once_it_was_rebuilt(world: Flights) -> None:
    def declared(least: int) -> str:
        world.app._pipelines.pop(f"{world.prefix}.derived", None)
        return declare(world, lambda flights: flights.where(f"delay > {least}"), key="flight_id")

    name = declared(0)
    world.fly(("UA", 1), ("UA", 2), ("UA", 3))
    world.run_once()
    declared(2)
    world.run_once(changed=Choices.parse(["rebuild"]))
    world.fly(("UA", 4))
    world.run_once()
    found = verify(world, name)
    assert (found.is_equal, found.topics[0].actual, str(found.topics[0].rule)) == (True, 2, Rule.LATEST.value)
    world.log.append(name, {"flight_id": "x"}, key="x")
    world.fly(*[("UA", 5)] * 32)  # rows behind it in each partition, whatever their keys
    world.run_once()
    assert [difference.key for difference in verify(world, name).topics[0].differences] == ["x"]


def test_what_cannot_be_verified_is_refused(world: Flights) -> None:
    name = declare(world, counts, key="carrier", mode="update")
    world.app.foreach_batch(world.flights, name="own")(lambda rows, batch_id: None)
    world.fly(("UA", 1))
    with pytest.raises(InputError, match="has not run on this log yet"):
        verify(world, name)
    with pytest.raises(InputError, match="foreach_batch function"):
        verify(world, "own")
    with pytest.raises(InputError, match="has no pipeline 'x'; it has: "):
        verify(world, "x")


def test_a_function_that_no_batch_can_run_is_refused(world: Flights) -> None:
    def once_each(flights: DataFrame) -> DataFrame:
        return flights.withWatermark("_timestamp", "1 hour").dropDuplicatesWithinWatermark(["carrier"])

    name = declare(world, once_each, key="carrier")
    world.fly(("UA", 1))
    world.run_once()
    with pytest.raises(DefinitionError, match="cannot be run as a batch: "):
        verify(world, name)


def test_an_open_transaction_that_hides_what_was_written_is_named(world: Flights) -> None:
    from mainstem.spark.sink.transactions import end_open_transactions

    name = declare(world, counts, key="carrier", mode="update", partitions=1)
    world.fly(("UA", 1))
    other = Sink(world.bootstrap, name)
    deploy(world.app, world.log)
    other.task(other.begin(), 0, 0)
    world.run_once()
    with pytest.raises(TransactionTimeoutError, match=f"an open transaction holds {name}/0 at 0"):
        verify(world, name)
    end_open_transactions(other.log, other.sink_id)
    assert verify(world, name).is_equal


def test_a_topic_that_was_made_again_is_refused(world: Flights) -> None:
    name = declare(world, counts, key="carrier", mode="update")
    world.fly(("UA", 1))
    world.run_once()
    world.log.delete_topic(name)
    world.log.create_topic(name, partitions=2)
    with pytest.raises(PositionError, match="was recreated since"):
        verify(world, name)
