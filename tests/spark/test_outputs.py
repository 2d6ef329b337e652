"""Pipelines into several topics: one query, one progress record, each topic its own rows and schema."""

from __future__ import annotations

from typing import Any

import pytest

from mainstem.errors import DefinitionError
from mainstem.schema.topic_schemas import lookup
from mainstem.spark.options.options import LogOptions
from mainstem.spark.verification.verification import Verification
from tests.spark.flights_app import Flights

pytestmark = pytest.mark.spark


def test_several_topics_are_derived_by_one_query(world: Flights) -> None:
    late, counts = f"{world.prefix}.late", f"{world.prefix}.counts"
    keyed = world.app.topic(counts, key="carrier", compacted=True)
    world.app.topic(late, key="flight_id")

    @world.app.pipeline(world.flights, into=(late, keyed), mode="update", name="split")
    def split(flights: Any) -> Any:
        return flights.where("delay > 5").select("flight_id", "_offset"), flights.groupBy("carrier").count()

    world.fly(("UA", 1), ("UA", 9))
    world.run_once()
    position = world.fly(("AA", 3))
    world.run_once()
    assert world.latest(counts) == {
        "UA": {"carrier": "UA", "count": 2},
        "AA": {"carrier": "AA", "count": 1},
    }
    assert [row.keys() for row in world.latest(late).values()] == [{"flight_id"}]
    said = world.progress("split")[-1]
    assert said.outputs == (late, counts)
    assert said.source.covers(position)
    assert world.has_written(said.sink, late, counts)
    registered = lookup(world.log, late)
    assert registered is not None
    assert registered.schema.names == ("flight_id",)


def test_a_row_whose_key_is_null_is_a_dead_letter_and_the_others_are_written(world: Flights) -> None:
    late, keyed = f"{world.prefix}.late", world.app.topic(f"{world.prefix}.keyed", key="carrier")
    world.app.pipeline(world.flights, into=(late, keyed), name=f"{world.prefix}.split")(
        lambda f: (f, f.select("carrier", "delay"))
    )
    world.fly((None, 1), ("UA", 2))  # type: ignore[arg-type]
    world.run_once()
    assert world.latest(keyed.name) == {"UA": {"carrier": "UA", "delay": 2}}
    assert len(world.rows(late)) == 2
    letters = f"__mainstem_dead_letters.{world.prefix}.{world.prefix}.split"
    [letter] = world.log.read(letters)
    assert (letter.key, letter.value) == (None, b'{"carrier":null,"delay":1}')
    assert dict(letter.headers) == {
        "mainstem.error": b"the key column carrier is null",
        "mainstem.topic": keyed.name.encode(),
    }
    assert world.progress(f"{world.prefix}.split")[-1].sink.topics == {late, keyed.name}
    verified = Verification(
        world.spark,
        world.app,
        f"{world.prefix}.split",
        world.log,
        LogOptions(world.bootstrap),
        checkpoints=world.checkpoints,
    ).verify()
    assert verified.is_equal


def test_a_result_for_each_topic_is_asked_for(world: Flights) -> None:
    world.app.pipeline(world.flights, into=(f"{world.prefix}.a", f"{world.prefix}.b"), name="two")(lambda f: (f, f, f))
    with pytest.raises(DefinitionError, match=rf"a DataFrame for each of {world.prefix}\.a, .*, not 3 results"):
        world.run_once()
