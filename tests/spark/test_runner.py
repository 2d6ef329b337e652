"""Pipelines end to end: what they derive, where they go on, what they say when they cannot."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from mainstem.errors import DefinitionError, PipelineFailedError, PipelineNotRunningError
from mainstem.pipelines.control.commands import Action, ask, wait_until_done
from mainstem.pipelines.control.run_log import RunLogs
from mainstem.schema.topic_schemas import lookup
from tests.spark.flights_app import Flights

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
WRONG = "coalesce(carrier, raise_error('no carrier')) AS carrier"


@pytest.fixture
def killed_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """A query that fails waits less for what its tasks prepare while they are being killed: here one task ran."""
    from mainstem.spark.queries import pipeline_query

    monkeypatch.setattr(pipeline_query, "KILLED_AFTER_S", 0.2)


def counting(world: Flights) -> str:
    """Declare: how many flights each carrier has, and its name."""
    name = f"{world.prefix}.counts"

    @world.app.pipeline(world.flights, world.airlines.table(), into=name, key="carrier", mode="update", name=name)
    def count(flights: Any, airlines: Any) -> Any:
        return flights.groupBy("carrier").count().join(airlines, "carrier", "left")

    return name


def copying(world: Flights, source: Any, word: str = "copies") -> str:
    name = f"{world.prefix}.{word}"
    world.app.pipeline(source, into=name, key="flight_id", name=name)(lambda flights: flights)
    return name


def test_rows_that_change_are_derived_by_key(world: Flights) -> None:
    counts = counting(world)
    world.name("UA", "United")
    world.fly(("UA", 1), ("UA", 2), ("AA", None))
    world.run_once()
    assert world.latest(counts) == {
        "UA": {"carrier": "UA", "count": 2, "name": "United"},
        "AA": {"carrier": "AA", "count": 1, "name": None},
    }


def test_a_pipeline_goes_on_where_it_stopped(world: Flights) -> None:
    counts = counting(world)
    world.fly(("UA", 1))
    world.run_once()
    world.fly(("UA", 2))
    world.run_once()
    records = [json.loads(record.value or b"") for record in world.log.read(counts)]
    assert [row["count"] for row in records] == [1, 2]


def test_nothing_new_derives_nothing(world: Flights) -> None:
    copies = copying(world, world.flights)
    world.fly(("UA", 1))
    world.run_once()
    world.run_once()
    assert len(list(world.log.read(copies))) == 1


def test_a_value_that_does_not_parse_is_a_dead_letter_of_the_pipeline(world: Flights) -> None:
    copies = copying(world, world.flights)
    world.fly(("UA", 1))
    bad = world.log.append(world.flights.name, b"no object", key=b"x")
    world.run_once()
    letters = list(world.log.read(f"__mainstem_dead_letters.{world.prefix}.{copies}"))
    assert [(letter.key, letter.value) for letter in letters] == [(b"x", b"no object")]
    assert len(list(world.log.read(copies))) == 1
    assert world.progress(copies)[-1].source.covers(bad)


def test_values_that_do_not_fit_are_counted_by_column(world: Flights) -> None:
    copies = copying(world, world.flights)
    world.fly(("UA", "late"), ("UA", 1), ("UA", None), ("UA", 2.5), ("UA", "late"))  # type: ignore[arg-type]
    world.run_once()
    state = world.wait_for_state(copies, lambda state: state.status.is_over)
    assert state.nulled_values == {world.flights.name: {"delay": 3}}
    assert sum(row["delay"] is None for row in world.rows(copies)) == 4


def test_a_value_that_does_not_fit_counts_once_when_its_micro_batch_is_read_again(world: Flights) -> None:
    name, is_first = f"{world.prefix}.seen", True

    @world.app.foreach_batch(world.flights, name=name)
    def seen(rows: Any, _: int) -> None:
        nonlocal is_first
        rows.count(), rows.count()
        is_first, was_first = False, is_first
        if was_first:
            raise RuntimeError("not yet")

    world.fly(("UA", "late"), ("UA", 1))  # type: ignore[arg-type]
    with world.running():
        state = world.wait_for_state(name, lambda state: state.counts.micro_batches > 0)
    assert (state.nulled_values, state.counts.restarts) == ({world.flights.name: {"delay": 1}}, 1)


def test_a_pipeline_may_read_what_another_derives(world: Flights) -> None:
    copies = copying(world, world.flights)
    second = copying(world, copies, "second")
    world.fly(("UA", 1), ("AA", 2))
    world.run_once()
    assert world.latest(second) == world.latest(copies) == world.latest(world.flights.name)


def test_progress_covers_what_was_read_and_names_where_it_is_written(world: Flights) -> None:
    counts = counting(world)
    tables = world.name("UA", "United")
    position = world.fly(("UA", 1), ("AA", 2))
    world.run_once()
    first, last = world.progress(counts)[0], world.progress(counts)[-1]
    assert (first.batch_id, first.source.covers(position)) == (-1, False)
    assert last.source == world.log.end(world.flights.name)
    assert last.source.covers(position)
    assert world.has_written(last.sink, counts)
    assert last.tables == tables
    assert (last.inputs, last.outputs) == ((world.flights.name,), (counts,))


def test_a_micro_batch_that_derives_nothing_covers_what_it_read(world: Flights) -> None:
    name = f"{world.prefix}.none"
    world.app.pipeline(world.flights, into=name, key="flight_id", name=name)(lambda flights: flights.where("delay > 5"))
    position = world.fly(("UA", 1))
    world.run_once()
    last = world.progress(name)[-1]
    assert last.source.covers(position)
    assert (dict(last.sink), list(world.log.read(name))) == (dict.fromkeys(world.log.end(name), 0), [])


def test_a_table_is_fresh_at_each_micro_batch(world: Flights) -> None:
    counts = counting(world)
    world.name("UA", "old")
    first = world.fly(("UA", 1))
    with world.running():
        world.wait_until(counts, lambda said: said.source.covers(first))
        world.name("UA", "new")
        second = world.fly(("UA", 1))
        said = world.wait_until(counts, lambda said: said.source.covers(second))
    assert world.latest(counts)["UA"]["name"] == "new"
    assert said.tables == world.log.end(world.airlines.name)


def test_the_schema_of_what_is_derived_is_registered(world: Flights) -> None:
    counts = counting(world)
    world.fly(("UA", 1))
    world.run_once()
    registered = lookup(world.log, counts)
    assert registered is not None
    assert [(c.name, c.type) for c in registered.schema.columns] == [
        ("carrier", "STRING"),
        ("count", "BIGINT"),
        ("name", "STRING"),
    ]
    assert registered.key == ("carrier",)


def test_nested_columns_are_json(world: Flights) -> None:
    name = f"{world.prefix}.nested"
    nest = "struct(carrier, array(delay) AS delays) AS flight"
    world.app.pipeline(world.flights, into=name, key="flight_id", name=name)(lambda f: f.selectExpr("flight_id", nest))
    world.fly(("UA", 1))
    world.run_once()
    assert next(iter(world.latest(name).values()))["flight"] == {"carrier": "UA", "delays": [1]}


@pytest.mark.usefixtures("killed_soon")
def test_one_query_that_fails_takes_no_other_down(world: Flights, capfd: pytest.CaptureFixture[str]) -> None:
    name = f"{world.prefix}.failing"
    world.app.pipeline(world.flights, into=name, name=name)(lambda flights: flights.selectExpr(WRONG))
    copies = copying(world, world.flights)
    with world.running():
        position = world.fly((None, 1))  # type: ignore[arg-type]
        world.wait_until(copies, lambda said: said.source.covers(position))
        failing = world.wait_for_state(name, lambda state: state.counts.restarts >= 1 and state.failure is not None)
        working = world.wait_for_state(copies, lambda state: state.counts.input_rows == 1)
    assert failing.failure is not None
    assert "no carrier" in failing.failure.text
    assert (working.counts.restarts, working.counts.written_rows, working.failure) == (0, 1, None)
    said = capfd.readouterr().err
    assert f"pipeline {name} failed: " in said
    assert world.wait_for_state(name, lambda state: state.status.is_over).status == "stopped"
    entries = RunLogs(world.log).entries(name)
    assert [entry.event for entry in entries[-3:]] == ["restarted", "failed", "started"]
    assert entries[-2].text.startswith(failing.failure.text.partition(";")[0])
    assert "no carrier" in entries[-2].text
    assert entries[0].event == "stopped"


def test_a_pipeline_is_paused_resumed_and_restarted_and_derives_each_record_once(world: Flights) -> None:
    copies = copying(world, world.flights)
    with world.running():
        first = world.fly(("UA", 1))
        world.wait_until(copies, lambda said: said.source.covers(first))
        world.wait_for_state(copies, lambda state: not state.status.is_over)
        pause = ask(world.log, copies, Action.PAUSE)
        assert wait_until_done(world.log, pause, 60) == "paused"
        later = world.fly(("UA", 2))
    world.wait_for_state(copies, lambda state: state.status == "stopped")
    assert wait_until_done(world.log, ask(world.log, copies, Action.PAUSE), 60) is None  # nobody runs it
    with pytest.raises(PipelineNotRunningError, match="is stopped: start its App"):
        ask(world.log, copies, Action.RESTART)
    world.run_once()  # it is paused: it derives nothing
    with world.running():
        again = world.wait_for_state(
            copies, lambda state: (state.status, state.command) == ("paused", pause.offset + 1)
        )
        assert [row["delay"] for row in world.rows(copies)] == [1]
        assert again.counts.micro_batches == 0
        assert wait_until_done(world.log, ask(world.log, copies, Action.RESUME), 60) is not None
        world.wait_until(copies, lambda said: said.source.covers(later))
        assert wait_until_done(world.log, ask(world.log, copies, Action.RESTART), 60) is not None
        last = world.fly(("UA", 3))
        world.wait_until(copies, lambda said: said.source.covers(last))
    assert sorted(row["delay"] for row in world.rows(copies)) == [1, 2, 3]
    run_logs = RunLogs(world.log)
    paused = ["stopped", "paused"]
    events = ["stopped", "restarted", "resumed", "paused", *paused, *paused, "started"]
    assert [entry.event for entry in run_logs.entries(copies)] == events
    plan = run_logs.plan(copies)
    assert plan is not None
    assert {"== Analyzed Logical Plan ==", "== Physical Plan =="} <= set(plan.text.splitlines())


def test_the_state_of_a_query_says_what_it_did_and_what_it_holds(world: Flights) -> None:
    name = f"{world.prefix}.late"

    @world.app.pipeline(world.flights, into=name, key="carrier", mode="update", name=name)
    def late(flights: Any) -> Any:
        return flights.withWatermark("_timestamp", "1 hour").groupBy("carrier").count()

    world.fly(("UA", 1), ("UA", 2), ("AA", 3))
    world.run_once()
    state = world.wait_for_state(name, lambda state: state.status.is_over)
    assert (state.status, state.trigger, state.app) == ("finished", "once", world.app.name)
    assert (state.counts.input_rows, state.counts.written_rows, state.counts.state_rows) == (3, 2, 2)
    first = state.recent[0]
    assert (first.batch_id, first.input_rows, first.lag) == (0, 3, 0)
    assert {"triggerExecution", "addBatch", "walCommit", "latestOffset"} <= first.durations_ms.keys()


@pytest.mark.usefixtures("killed_soon")
def test_a_run_to_the_end_says_what_made_a_query_fail(world: Flights) -> None:
    name = f"{world.prefix}.failing"
    world.app.pipeline(world.flights, into=name, name=name)(lambda flights: flights.selectExpr(WRONG))
    world.fly((None, 1))  # type: ignore[arg-type]
    with pytest.raises(PipelineFailedError, match="no carrier"):
        world.run_once()


def test_an_error_in_a_pipelines_function_names_its_line(world: Flights) -> None:
    @world.app.pipeline(world.flights, into=f"{world.prefix}.x", name=f"{world.prefix}.x")
    def wrong(flights: Any) -> Any:
        return flights.select("carier")

    line = wrong.__code__.co_firstlineno + 2
    with pytest.raises(DefinitionError, match=rf"test_runner\.py:{line}: wrong \(pipeline .*carier"):
        world.run_once()


@pytest.mark.usefixtures("killed_soon")
def test_an_error_in_a_task_names_the_line_of_the_pipelines_file(world: Flights) -> None:
    from pyspark.sql.functions import udf

    def divide(delay: int) -> int:
        return 1 // (delay - delay)

    name, line = f"{world.prefix}.x", divide.__code__.co_firstlineno + 1
    divided = udf(divide, "int")
    world.app.pipeline(world.flights, into=name, name=name)(lambda flights: flights.select(divided("delay")))
    world.fly(("UA", 1))
    with pytest.raises(PipelineFailedError, match=rf"test_runner\.py:{line}, in divide: ZeroDivisionError: "):
        world.run_once()


def test_what_tasks_prepare_that_are_being_killed_is_looked_for(
    world: Flights, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mainstem.spark.queries import pipeline_query
    from mainstem.spark.sink.transactions import KILLED_AFTER_S

    lingered: list[float] = []
    monkeypatch.setattr(pipeline_query, "end_open_transactions", lambda *_, linger_s=0.0: lingered.append(linger_s))
    name = f"{world.prefix}.failing"
    world.app.pipeline(world.flights, into=name, name=name)(lambda flights: flights.selectExpr(WRONG))
    world.fly((None, 1))  # type: ignore[arg-type]
    with pytest.raises(PipelineFailedError):
        world.run_once()
    assert lingered == [KILLED_AFTER_S]


def test_a_pipeline_must_return_its_stream(world: Flights, spark: SparkSession) -> None:
    world.app.pipeline(world.flights, into=f"{world.prefix}.x", name="static")(lambda flights: spark.range(1))
    with pytest.raises(DefinitionError, match="does not come from its stream"):
        world.run_once()


def test_a_key_that_is_not_derived_is_refused(world: Flights) -> None:
    world.app.pipeline(world.flights, into=f"{world.prefix}.x", key="z", name="keyless")(lambda flights: flights)
    with pytest.raises(DefinitionError, match="gives no z; it gives flight_id, carrier, delay"):
        world.run_once()


def test_two_columns_of_one_name_are_refused(world: Flights) -> None:
    world.app.pipeline(world.flights, into=f"{world.prefix}.x", name="twice")(lambda f: f.selectExpr("*", "1 AS delay"))
    with pytest.raises(DefinitionError, match="the column delay twice"):
        world.run_once()
