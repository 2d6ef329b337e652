"""Pipelines whose queries keep state: windows, joins of streams, processors of one's own; and topics given twice."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from typing import Any

import pytest

from mainstem.pipelines.deploy import deploy
from mainstem.pipelines.state import PipelineState
from mainstem.schema.encoding import encode_key
from mainstem.spark.options.options import LogOptions
from mainstem.spark.queries import input_watermarks
from mainstem.spark.verification.verification import Verification
from tests.spark.flights_app import Flights

pytestmark = pytest.mark.spark
EVENT = "id STRING, at TIMESTAMP, n INT"


def at(minute: int) -> datetime.datetime:
    return datetime.datetime(2026, 1, 1, 10, tzinfo=datetime.UTC) + datetime.timedelta(minutes=minute)


class Events:
    """Topics of events at a minute, in the world's App."""

    def __init__(self, world: Flights, *words: str) -> None:
        self.world = world
        self.topics = [world.app.topic(f"{world.prefix}.{word}", EVENT, "id") for word in words]

    def happen(self, which: int, *events: tuple[str, int, int]) -> None:
        deploy(self.world.app, self.world.log)
        rows = [{"id": key, "at": at(minute), "n": n} for key, minute, n in events]
        self.world.log.append_many(self.topics[which].name, [(row["id"], row) for row in rows])

    def derive(self, name: str) -> list[dict[str, Any]]:
        return sorted(self.world.rows(f"{self.world.prefix}.{name}"), key=str)


def test_a_window_is_derived_when_its_watermark_has_passed_and_is_read_typed(world: Flights) -> None:
    from pyspark.sql.functions import window

    events, prefix = Events(world, "events"), world.prefix

    @world.app.pipeline(events.topics[0], into=f"{prefix}.windows", key=("id", "window"), name=f"{prefix}.windows")
    def windows(events: Any) -> Any:
        return events.withWatermark("at", "5 minutes").groupBy(window("at", "10 minutes"), "id").count()

    @world.app.pipeline(f"{prefix}.windows", into=f"{prefix}.starts", name=f"{prefix}.starts")
    def starts(windows: Any) -> Any:
        return windows.selectExpr("window.start AS start", "date_format(window.end, 'HH:mm') AS end", "count")

    events.happen(0, ("a", 1, 1), ("a", 2, 1), ("b", 11, 1))
    world.run_once()
    assert events.derive("windows") == []
    events.happen(0, ("a", 16, 1), ("a", 3, 1))
    world.run_once()
    window_json = {"start": "2026-01-01T10:00:00Z", "end": "2026-01-01T10:10:00Z"}
    assert events.derive("windows") == [{"window": window_json, "id": "a", "count": 3}]
    [record] = world.log.read(f"{prefix}.windows")
    assert record.key == encode_key({"id": "a", "window": window_json}, ("id", "window"))
    assert events.derive("starts") == [{"start": "2026-01-01T10:00:00Z", "end": "10:10", "count": 3}]


def test_a_window_s_changes_are_derived_by_update(world: Flights) -> None:
    from pyspark.sql.functions import window

    events, name = Events(world, "events"), f"{world.prefix}.windows"

    @world.app.pipeline(events.topics[0], into=name, key="start", mode="update", name=name)
    def windows(events: Any) -> Any:
        counted = events.withWatermark("at", "5 minutes").groupBy(window("at", "10 minutes")).count()
        return counted.selectExpr("window.start", "count")

    events.happen(0, ("a", 1, 1), ("b", 11, 1))
    world.run_once()
    events.happen(0, ("a", 2, 1))
    world.run_once()
    assert world.latest(name) == {
        "2026-01-01T10:00:00Z": {"start": "2026-01-01T10:00:00Z", "count": 2},
        "2026-01-01T10:10:00Z": {"start": "2026-01-01T10:10:00Z", "count": 1},
    }


def test_streams_are_joined_with_what_has_no_partner_too(world: Flights) -> None:
    events, prefix = Events(world, "left", "right"), world.prefix

    @world.app.pipeline(*events.topics, into=f"{prefix}.joined", key="id", name=f"{prefix}.joined")
    def joined(left: Any, right: Any) -> Any:
        left = left.withWatermark("at", "5 minutes")
        right = right.withWatermark("at", "5 minutes").selectExpr("id AS r", "at AS then", "n AS m")
        bound = "id = r AND then BETWEEN at AND at + INTERVAL 10 MINUTES"
        from pyspark.sql.functions import expr

        return left.join(right, expr(bound), "left").select("id", "n", "m")

    events.happen(0, ("a", 1, 1), ("b", 1, 2))
    events.happen(1, ("a", 2, 10))
    world.run_once()
    assert events.derive("joined") == [{"id": "a", "n": 1, "m": 10}]
    events.happen(0, ("z", 90, 3))
    events.happen(1, ("z", 91, 4))
    world.run_once()
    assert {"id": "b", "n": 2, "m": None} in events.derive("joined")
    said = world.progress(f"{prefix}.joined")[-1]
    assert said.source == world.log.end(*(topic.name for topic in events.topics))
    assert set(said.inputs) == {topic.name for topic in events.topics}


def outer_join(world: Flights) -> tuple[Events, str]:
    from pyspark.sql.functions import expr

    events, name = Events(world, "left", "right"), f"{world.prefix}.joined"

    @world.app.pipeline(*events.topics, into=name, key="id", name=name)
    def joined(left: Any, right: Any) -> Any:
        left = left.withWatermark("at", "5 minutes")
        right = right.withWatermark("at", "5 minutes").selectExpr("id AS r", "at AS then", "n AS m")
        bound = "id = r AND then BETWEEN at AND at + INTERVAL 10 MINUTES"
        return left.join(right, expr(bound), "left").select("id", "n", "m")

    return events, name


def test_rows_without_a_partner_are_derived_when_the_inputs_come_in_different_runs(world: Flights) -> None:
    events, name = outer_join(world)
    events.happen(0, ("a", 1, 1), ("b", 1, 2), ("z", 90, 3))
    world.run_once()
    state = world.wait_for_state(name, lambda state: state.status.is_over)
    assert state.watermark_held_by == f"{events.topics[1].name}, which has had no row with a time yet"
    verdict = Verification(
        world.spark, world.app, name, world.log, LogOptions(world.bootstrap), checkpoints=world.checkpoints
    ).verify()
    assert (verdict.waits, verdict.watermark_held_by) == (True, state.watermark_held_by)
    events.happen(1, ("a", 2, 10), ("y", 91, 4))
    world.run_once()
    assert events.derive("joined") == [{"id": "a", "n": 1, "m": 10}, {"id": "b", "n": 2, "m": None}]


def test_an_input_that_is_idle_after_a_restart_holds_the_watermark_where_it_was(world: Flights) -> None:
    events, name = outer_join(world)
    events.happen(0, ("a", 1, 1), ("z", 90, 3))
    events.happen(1, ("y", 60, 4))
    world.run_once()
    assert events.derive("joined") == [{"id": "a", "n": 1, "m": None}]
    events.happen(0, ("b", 56, 2), ("z", 200, 3))
    world.run_once()
    events.happen(1, ("x", 150, 4))  # the left one is idle in this run
    world.run_once()
    rows = [{"id": "a", "n": 1, "m": None}, {"id": "b", "n": 2, "m": None}, {"id": "z", "n": 3, "m": None}]
    assert events.derive("joined") == rows
    states = world.log.read("__mainstem_pipeline_states", key=name, every_partition=True)
    held = [PipelineState.from_record(record) for record in states][-1]
    assert held is not None
    assert held.watermark_held_by is not None
    assert held.watermark_held_by.startswith(f"{events.topics[1].name}, whose newest time has not moved since 20")


@pytest.mark.parametrize("missing", ["tracker", "field", "node"])
def test_a_spark_that_does_not_show_the_inputs_watermarks_derives_without_them(
    world: Flights, missing: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The names of this Spark's inside are asked for under ones that it does not have."""
    if missing == "node":
        monkeypatch.setattr(input_watermarks, "_nodes", lambda plan: [plan.watermarkOfAnother()])
    else:
        name = "_restore" if missing == "field" else "_has_moved"

        def absent(watermarks: Any, _given: Any) -> None:
            jvm = watermarks._frame.sparkSession._jvm
            jvm.java.lang.Class.forName("java.lang.String").getDeclaredField("operatorToWatermarkMap")

        monkeypatch.setattr(input_watermarks.InputWatermarks, name, absent)
    events, name = outer_join(world)
    events.happen(0, ("a", 1, 1), ("z", 90, 3))
    events.happen(1, ("a", 2, 10), ("y", 91, 4))
    world.run_once()
    events.happen(0, ("z", 190, 3))
    events.happen(1, ("y", 191, 4))
    world.run_once()
    assert {"id": "a", "n": 1, "m": 10} in events.derive("joined")
    said = [record.getMessage() for record in caplog.records if "does not show the watermarks" in record.getMessage()]
    assert len(said) == 2  # one for each run


def test_a_topic_may_be_streamed_twice(world: Flights) -> None:
    events, prefix = Events(world, "events"), world.prefix
    twice = (events.topics[0], events.topics[0])

    @world.app.pipeline(*twice, into=f"{prefix}.pairs", name=f"{prefix}.pairs")
    def pairs(one: Any, other: Any) -> Any:
        return one.join(other.selectExpr("id AS other", "n + 1 AS n"), "n").select("id", "other", "n")

    @world.app.pipeline(*twice, into=f"{prefix}.all", key="id", name=f"{prefix}.all")
    def united(one: Any, other: Any) -> Any:
        return one.where("n = 1").union(other.where("n = 2"))

    events.happen(0, ("a", 1, 1), ("b", 1, 2))
    world.run_once()
    assert events.derive("pairs") == [{"id": "b", "other": "a", "n": 2}]
    assert [row["id"] for row in events.derive("all")] == ["a", "b"]
    events.happen(0, ("c", 1, 3))
    world.run_once()
    assert {"id": "c", "other": "b", "n": 3} in events.derive("pairs")
    assert world.progress(f"{prefix}.pairs")[-1].source == world.log.end(events.topics[0].name)


def test_a_processor_of_one_s_own_keeps_state_and_timers(world: Flights) -> None:
    import pandas as pd
    from pyspark.sql.streaming import StatefulProcessor

    class Sums(StatefulProcessor):
        """Sums by key; says a key's sum again, negative, when its time is over."""

        def init(self, handle: Any) -> None:
            self.handle = handle
            self.total = handle.getValueState("total", "total INT")

        def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:  # noqa: N802, N803 - Spark's
            total = self.total.get()[0] if self.total.exists() else 0
            for part in rows:
                total += int(part["n"].sum())
                if total >= 100:
                    self.handle.registerTimer(int(part["at"].max().timestamp() * 1000) + 600_000)
            self.total.update((total,))
            yield pd.DataFrame({"id": [key[0]], "total": [total]})

        def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Any]:  # noqa: N802, N803 - Spark's
            yield pd.DataFrame({"id": [key[0]], "total": [-self.total.get()[0]]})
            self.total.clear()

    events, name = Events(world, "events"), f"{world.prefix}.sums"

    @world.app.pipeline(events.topics[0], into=name, key="id", mode="update", name=name)
    def sums(events: Any) -> Any:
        grouped = events.withWatermark("at", "1 minute").groupBy("id")
        return grouped.transformWithStateInPandas(Sums(), "id STRING, total INT", "update", "eventTime")

    events.happen(0, ("a", 1, 1), ("b", 1, 100))
    world.run_once()
    assert {row["id"]: row["total"] for row in world.latest(name).values()} == {"a": 1, "b": 100}
    events.happen(0, ("a", 30, 5), ("c", 60, 1))
    world.run_once()
    assert {row["id"]: row["total"] for row in world.latest(name).values()} == {"a": 6, "b": -100, "c": 1}
