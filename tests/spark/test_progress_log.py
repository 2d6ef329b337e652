"""Progress records: complete, cumulative, and taken up again after a restart."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from mainstem.client.log import Log
from mainstem.errors import UnknownTopicError
from mainstem.model import Position
from mainstem.pipelines.journey.batch_search import BatchHistory
from mainstem.pipelines.journey.finished_batches import BATCHES_TOPIC, FinishedBatch
from mainstem.pipelines.progress import PROGRESS_TOPIC, Progress
from mainstem.spark.checkpoints.offsets import StreamOffsets
from mainstem.spark.checkpoints.progress_log import NOT_STARTED, ProgressLog
from mainstem.spark.options.options import LogOptions
from mainstem.testing.embedded import EmbeddedBroker


@pytest.fixture
def options(mainstem_broker: EmbeddedBroker, mainstem_log: Log) -> Iterator[LogOptions]:
    mainstem_log.create_topic(PROGRESS_TOPIC, partitions=1, configs={"cleanup.policy": "compact"}, exist_ok=True)
    return LogOptions(mainstem_broker.bootstrap)


def offsets(position: str, tables: str = "") -> StreamOffsets:
    return StreamOffsets(Position.parse(position), {}, Position.parse(tables))


def written(log: Log, pipeline: str) -> list[Progress]:
    records = [record for record in log.read(PROGRESS_TOPIC) if record.key == pipeline.encode()]
    return [progress for progress in map(Progress.from_record, records) if progress is not None]


def test_a_query_that_starts_says_so(options: LogOptions, mainstem_log: Log, mainstem_topic: str) -> None:
    with ProgressLog(options, "starts", (mainstem_topic,), ("flights",)) as progress:
        progress.start(Position.parse("flights/0:0"))
    said = written(mainstem_log, "starts")[-1]
    assert (said.batch_id, said.inputs, said.outputs) == (NOT_STARTED, ("flights",), (mainstem_topic,))
    assert said.sink == Position.of(mainstem_topic, 0, 0)


def test_the_sink_is_cumulative(options: LogOptions, mainstem_log: Log) -> None:
    mainstem_log.create_topic("wide", partitions=3)
    with ProgressLog(options, "cumulates", ("wide",)) as progress:
        progress.advance(0, offsets("flights/0:3"), Position.parse("wide/1:5"))
        progress.advance(1, offsets("flights/0:4", "airlines/0:16"), Position.parse("wide/2:1"))
    said = written(mainstem_log, "cumulates")[-1]
    assert str(said.sink) == "wide/0:0,wide/1:5,wide/2:1"
    assert (str(said.source), str(said.tables), said.inputs) == ("flights/0:4", "airlines/0:16", ("flights",))


def test_that_a_pipeline_was_rebuilt_stays_said(options: LogOptions, mainstem_log: Log, mainstem_topic: str) -> None:
    none = Position()
    rebuilt = Progress("rebuilt", 3, none, none, none, ("flights",), (mainstem_topic,), rebuilt=True)
    mainstem_log.append_many(PROGRESS_TOPIC, [rebuilt.to_record()])
    with ProgressLog(options, "rebuilt", (mainstem_topic,)) as progress:
        progress.advance(4, offsets("flights/0:4"), Position())
        progress.start(Position.parse("flights/0:0"))  # afresh, into the same topic
    assert [said.rebuilt for said in written(mainstem_log, "rebuilt")] == [True] * 3


def test_what_was_said_before_a_restart_is_taken_up(
    options: LogOptions, mainstem_log: Log, mainstem_topic: str
) -> None:
    with ProgressLog(options, "resumes", (mainstem_topic,)) as progress:
        progress.advance(0, offsets("flights/0:3"), Position.of(mainstem_topic, 0, 5))
    with ProgressLog(options, "resumes", (mainstem_topic,)) as progress:
        progress.advance(1, offsets("flights/0:4"), Position())
    assert written(mainstem_log, "resumes")[-1].sink == Position.of(mainstem_topic, 0, 5)


def test_the_first_pipeline_of_a_log_creates_the_topic(tmp_path: Path) -> None:
    with EmbeddedBroker(tmp_path / "data") as broker, Log(broker.bootstrap) as log:
        log.create_topic("out", partitions=1)
        with ProgressLog(LogOptions(broker.bootstrap), "alone", ("out",)) as progress:
            with pytest.raises(UnknownTopicError):
                progress.last()  # to look creates nothing
            progress.advance(0, offsets("flights/0:3"), Position())
        assert [said.batch_id for said in written(log, "alone")] == [0]
        assert log.describe_topic(PROGRESS_TOPIC).configs["cleanup.policy"] == "compact"


def finished(log: Log, pipeline: str) -> list[FinishedBatch]:
    records = [record for record in log.read(BATCHES_TOPIC) if record.key == pipeline.encode()]
    return [batch for batch in map(FinishedBatch.from_record, records) if batch is not None]


def test_each_finished_micro_batch_is_recorded_with_what_it_read_and_wrote(
    options: LogOptions, mainstem_log: Log, mainstem_topic: str
) -> None:
    with ProgressLog(options, "finishes", (mainstem_topic,), ("flights",)) as progress:
        progress.start(Position.parse("flights/0:1"))
        progress.advance(0, offsets("flights/0:3"), Position.of(mainstem_topic, 0, 5))
        progress.advance(1, offsets("flights/0:4,flights/1:2"), Position())
    first, second = finished(mainstem_log, "finishes")
    assert (str(first.source_from), str(first.source_to), str(first.sink_from), str(first.sink_to)) == (
        "flights/0:1",
        "flights/0:3",
        f"{mainstem_topic}/0:0",
        f"{mainstem_topic}/0:5",
    )
    assert (second.source_from, second.sink_from) == (first.source_to | Position.parse("flights/1:0"), second.sink_to)
    assert (first.inputs, first.outputs) == (("flights",), (mainstem_topic,))
    described = mainstem_log.describe_topic(BATCHES_TOPIC).configs
    assert (described["cleanup.policy"], described["retention.ms"]) == ("delete", "604800000")


def test_a_micro_batch_that_runs_again_after_a_kill_changes_no_answer(
    options: LogOptions, mainstem_log: Log, mainstem_topic: str
) -> None:
    for _ in range(2):  # the driver was killed after the progress record, so Spark runs the micro-batch again
        with ProgressLog(options, "repeats", (mainstem_topic,)) as progress:
            progress.advance(0, offsets("flights/0:3"), Position.of(mainstem_topic, 0, 5))
    assert [str(batch.source_from) for batch in finished(mainstem_log, "repeats")] == ["flights/0:0", "flights/0:3"]
    found = BatchHistory(mainstem_log, "repeats").find(lambda source, _: source.covers(Position.parse("flights/0:2")))
    assert found is not None
    assert (found.is_exact, found.batch.source_from) == (True, Position.parse("flights/0:0"))


def test_a_pipeline_goes_on_where_its_micro_batches_cannot_be_recorded(tmp_path: Path) -> None:
    with EmbeddedBroker(tmp_path / "data") as broker, Log(broker.bootstrap) as log:
        log.create_topic("out", partitions=1)
        log.create_topic(BATCHES_TOPIC, partitions=1, configs={"max.message.bytes": "1"})
        with ProgressLog(LogOptions(broker.bootstrap), "goes-on", ("out",)) as progress:
            progress.advance(0, offsets("flights/0:3"), Position())
        assert [said.batch_id for said in written(log, "goes-on")] == [0]
        assert finished(log, "goes-on") == []
