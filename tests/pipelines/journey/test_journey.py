"""The journey of a record over a real log, on which pipelines have told of themselves: forward, backward, waiting."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from mainstem.client.dead_letter_headers import dead_letter_of, pipeline_topic
from mainstem.client.log import Log
from mainstem.errors import UnknownTopicError
from mainstem.model import TopicPartition
from mainstem.pipelines.journey import journey as journey_module
from mainstem.pipelines.journey.journey import Sees
from mainstem.pipelines.journey.sentences import journey_lines
from mainstem.pipelines.journey.steps import Journey
from mainstem.pipelines.journey.view_steps import view_steps
from mainstem.pipelines.state import LOST_AFTER_MS, Failure, Status
from mainstem.testing.clock import ManualClock
from mainstem.testing.embedded import EmbeddedBroker
from tests.pipelines.journey.told import ToldLog, left_open


@pytest.fixture
def told() -> Iterator[ToldLog]:
    """Flights → delays → summary: two micro-batches of the first pipeline, one of the second."""
    with EmbeddedBroker() as broker, Log(broker.bootstrap, timeout_s=10.0) as log:
        world = ToldLog(log, "flights", "delays", "summary")
        log.append_many("flights", [(f"f{n}", {"n": n}) for n in range(6)])
        log.append_many("delays", [(f"f{n}", {"n": n}) for n in range(6)])
        log.append_many("summary", [("all", {"count": 6})])
        world.batch("late", 0, ("", "flights/0:3"), ("", "delays/0:3"))
        world.progress(world.batch("late", 1, ("flights/0:3", "flights/0:6"), ("delays/0:3", "delays/0:6")))
        world.progress(world.batch("sums", 0, ("", "delays/0:6"), ("", "summary/0:1")))
        for pipeline in ("late", "sums"):
            world.state(pipeline, Status.WAITING, 4_000_000_000_000)
        yield world


def lines(journey: Journey, **more: object) -> str:
    return "\n".join(line.text for line in journey_lines({"views": [], **journey.to_json(), **more}))


def view(name: str, topic: str, position: str, state: str = "live", detail: str = "") -> dict[str, object]:
    return {"name": name, "kind": "key-value", "topic": topic, "position": position, "state": state, "detail": detail}


def test_a_record_is_followed_through_two_pipelines(told: ToldLog) -> None:
    journey = told.journey("flights/0:4")
    late, sums = journey.pipelines
    assert (late.pipeline, late.state, late.depth) == ("late", "read", 0)
    assert late.batch is not None
    assert (late.batch.batch.batch_id, late.batch.is_exact) == (1, True)
    [wrote] = late.outputs
    assert (str(wrote.start), str(wrote.end)) == ("delays/0:3", "delays/0:6")
    assert [record.offset for record in wrote.matches.records] == [4]
    assert (sums.pipeline, sums.state, sums.depth) == ("sums", "read", 1)
    assert [str(each.until) for each in journey.arrivals] == ["flights/0:5", "delays/0:5", "summary/0:1"]
    assert "pipeline late read it from flights in micro-batch 1" in lines(journey)


def test_a_derived_record_leads_back_to_its_source(told: ToldLog) -> None:
    journey = told.journey("summary/0:0")
    sums, late = journey.origins
    assert (sums.pipeline, str(sums.covers), late.pipeline) == ("sums", "delays/0:6", "late")
    assert late.batch is not None
    assert late.batch.batch.batch_id == 1  # the last of those that wrote what the sum reflects
    assert str(late.inputs[0].start) == "flights/0:0"
    one = told.journey("delays/0:1").origins[0]
    assert [record.offset for record in one.inputs[0].matches.records] == [1]
    assert "was derived by pipeline late in micro-batch 0" in lines(told.journey("delays/0:1"))


def test_views_on_the_way_have_applied_it_or_say_why_not(told: ToldLog) -> None:
    journey = told.journey("flights/0:4")
    statuses = [
        view("by-flight", "flights", "flights/0:6"),
        view("stopped", "delays", "delays/0:2", "stopped", "the disk is full"),
        view("slow", "summary", "summary/0:0", "catching up"),
        view("other", "elsewhere", ""),
    ]
    done, stopped, slow = view_steps(journey.arrivals, statuses)
    assert (done.view, done.is_applied, done.waits_for) == ("by-flight", True, "")
    assert stopped.waits_for == "view stopped is stopped: the disk is full"
    assert slow.waits_for == "view slow is catching up and behind: it has applied up to summary/0:0"


def test_a_record_that_is_not_written_yet_is_what_all_wait_for(told: ToldLog) -> None:
    journey = told.journey("flights/0:99")
    assert (journey.place.state.value, journey.origins) == ("not written", ())
    assert {step.state for step in journey.pipelines} == {"waiting"}
    assert "flights/0 ends at offset 6" in journey.pipelines[0].waits_for
    assert journey.pipelines[1].waits_for == "pipeline late has to read it first"


def test_an_open_transaction_is_named_with_its_owner(told: ToldLog) -> None:
    with left_open(told.log, "till-7", "flights"):
        journey = told.journey("flights/0:6")
        [held] = journey.place.transactions
        assert (held.transactional_id, held.first_offset) == ("till-7", 6)
        assert held.since_ms is not None
        assert held.since_ms > 0
        assert "transaction till-7 (producer" in journey.pipelines[0].waits_for
        [waiting] = view_steps(journey.arrivals[:1], [view("by-flight", "flights", "flights/0:6")])
        assert "till-7" in waiting.waits_for
        assert "waits: transaction till-7" in lines(journey)


def test_a_transaction_in_a_derived_topic_holds_its_views_back(told: ToldLog) -> None:
    with left_open(told.log, "foreign", "delays"):
        told.log.append("flights", {"n": 9}, key="f9")
        told.log.append("delays", {"n": 9}, key="f9")
        told.progress(told.batch("late", 2, ("flights/0:6", "flights/0:7"), ("delays/0:6", "delays/0:8")))
        journey = told.journey("flights/0:6")
        [waiting] = view_steps(journey.arrivals, [view("by-delay", "delays", "delays/0:6")])
        assert "transaction foreign" in waiting.waits_for
        assert "transaction foreign" in journey.pipelines[1].waits_for


@pytest.mark.parametrize(
    ("status", "more", "said"),
    [
        (Status.STOPPED, {}, "pipeline late is stopped since"),
        (
            Status.FAILED,
            {"failure": Failure("ValueError: no", 1)},
            "has failed and does not start again by itself: Val",
        ),
        (Status.RESTARTING, {"failure": Failure("no", 1, 5_000)}, "starts again: no; next try at 1970-01-01T00:00:05Z"),
        (Status.STARTING, {}, "pipeline late is starting"),
        (Status.RUNNING, {}, "pipeline late runs and is behind: it has read up to flights/0:6, 1 offsets before"),
    ],
)
def test_a_pipeline_that_has_not_read_it_says_why(
    told: ToldLog, status: Status, more: dict[str, Failure], said: str
) -> None:
    told.log.append("flights", {"n": 6}, key="f6")
    told.state("late", status, 4_000_000_000_000, **more)
    step = told.journey("flights/0:6").pipelines[0]
    assert (step.state, step.batch) == ("waiting", None)
    assert said in step.waits_for


def test_a_pipeline_without_heartbeats_is_down(told: ToldLog) -> None:
    told.log.append("flights", {"n": 6}, key="f6")
    clock = ManualClock()
    told.state("late", Status.RUNNING, clock.time_ms() - LOST_AFTER_MS - 1)
    step = told.journey("flights/0:6", clock=clock).pipelines[0]
    assert "pipeline late is down: no heartbeat since" in step.waits_for


def test_rows_that_wait_for_a_watermark_are_said(told: ToldLog) -> None:
    told.log.append("flights", {"n": 6}, key="f6")
    told.progress(told.batch("late", 2, ("flights/0:6", "flights/0:7"), ("delays/0:6", "delays/0:6")))
    told.state(
        "late", Status.WAITING, 4_000_000_000_000, watermark="2026-01-01T00:00:00Z", watermark_held_by="airlines"
    )
    late, sums = told.journey("flights/0:6").pipelines
    assert late.state == "read"
    assert late.waits_for.startswith(
        "the watermark of pipeline late: it is 2026-01-01T00:00:00Z, held back by airlines"
    )
    assert sums.waits_for == late.waits_for
    some = told.journey("flights/0:6", Sees(lambda topic: topic != "airlines", errors=False)).pipelines[0]
    assert some.waits_for.startswith("the watermark of pipeline late: it is 2026-01-01T00:00:00Z; ")


def test_a_record_that_a_pipeline_set_aside_is_named(told: ToldLog) -> None:
    letters = pipeline_topic("app", "late")
    told.log.create_topic(letters, partitions=1)
    headers = dead_letter_of("no number: 'x'", TopicPartition("flights", 0), 4)
    told.log.append(letters, None, headers=headers)
    assert told.journey("flights/0:4").pipelines[0].note == (
        f"it could not use flights/0:4 and set it aside as dead letter {letters}/0:0: no number: 'x'"
    )
    assert told.journey("flights/0:3").pipelines[0].note == ""
    hidden = told.journey("flights/0:4", Sees(lambda topic: topic != letters, errors=False)).pipelines[0].note
    assert hidden == "it could not use flights/0:4 and set it aside as dead letter"


def test_a_journey_is_bounded_in_time_and_in_bytes(told: ToldLog, monkeypatch: pytest.MonkeyPatch) -> None:
    told.log.append("flights", {"n": 6}, key="k" * 100_000)
    told.progress(told.batch("late", 2, ("flights/0:6", "flights/0:7"), ("delays/0:6", "delays/0:6")))
    whole = told.journey("flights/0:6")
    assert whole.is_complete
    assert whole.to_json()["record"]["key_bytes"] == 100_000
    assert len(json.dumps(whole.to_json())) < 10_000
    assert "with a key of 100000 bytes" in lines(whole)
    monkeypatch.setattr(journey_module, "TIME_MAX_S", 0.0)
    cut = told.journey("flights/0:6")
    assert (cut.is_complete, cut.pipelines, cut.origins) == (False, (), ())


def test_a_missing_micro_batch_is_said_and_views_are_judged_by_the_next_one(told: ToldLog) -> None:
    told.log.append_many("flights", [("f6", {}), ("f7", {})])
    told.log.append_many("delays", [("f6", {}), ("f7", {})])
    told.progress(told.batch("late", 3, ("flights/0:7", "flights/0:8"), ("delays/0:7", "delays/0:8")))
    journey = told.journey("flights/0:6")
    late = journey.pipelines[0]
    assert (late.state, late.outputs) == ("read", ())
    assert "it was in micro-batch 3 or before: the driver was killed before it recorded that one" in lines(journey)
    assert [str(each.until) for each in journey.arrivals[:2]] == ["flights/0:7", "delays/0:7"]


def test_a_table_is_no_stream(told: ToldLog) -> None:
    batch = told.batch("joins", 0, ("", "flights/0:6"), ("", "joined/0:6"))
    told.progress(batch, tables="delays/0:4")
    step = next(each for each in told.journey("delays/0:1").pipelines if each.pipeline == "joins")
    assert (step.state, step.waits_for) == ("table", "")
    step = next(each for each in told.journey("delays/0:5").pipelines if each.pipeline == "joins")
    assert "the next micro-batch of pipeline joins" in step.waits_for


def test_errors_and_topics_of_others_are_hidden(told: ToldLog) -> None:
    told.log.append("flights", {"n": 6}, key="f6")
    told.state("late", Status.FAILED, 4_000_000_000_000, failure=Failure("the salary of Ada", 1))
    journey = told.journey("flights/0:6", Sees(lambda topic: topic == "flights", errors=False))
    assert [step.pipeline for step in journey.pipelines] == ["late"]
    assert "salary" not in lines(journey)
    assert journey.hidden == 1


def test_a_place_without_a_record_is_followed_all_the_same(told: ToldLog) -> None:
    told.log.cluster_admin.delete_records("flights", 2)
    journey = told.journey("flights/0:1")
    assert journey.place.state.value == "removed"
    assert journey.pipelines[0].batch is not None
    with told.log.transaction() as tx:
        tx.append("flights", {"n": 6}, key="f6")
    assert told.journey("flights/0:7").place.state.value == "no record"
    with pytest.raises(UnknownTopicError, match="no partition flights/5"):
        told.journey("flights/5:0")
    with pytest.raises(UnknownTopicError):
        told.journey("nowhere/0:0")
