"""Which micro-batch took an offset: found among many, at its edges, with gaps, repeats and wrong times."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from mainstem.client.log import Log
from mainstem.errors import SchemaError
from mainstem.model import Position, Record, TopicPartition
from mainstem.pipelines.journey.batch_search import BatchHistory, FoundBatch
from mainstem.pipelines.journey.finished_batches import BATCHES_TOPIC, FinishedBatch
from mainstem.testing.embedded import EmbeddedBroker
from tests.house.pages import ROOT, blocks_of
from tests.pipelines.journey.told import ToldLog

BATCHES = 1_500
STEP = 10
IN, OUT = TopicPartition("in", 0), TopicPartition("out", 0)


@pytest.fixture(scope="module")
def history() -> Iterator[Log]:
    """A log with the micro-batches of two pipelines: ``p`` reads ten records in each of its own."""
    with EmbeddedBroker() as broker, Log(broker.bootstrap, timeout_s=10.0) as log:
        told = ToldLog(log)
        made = [_batch(pipeline, n) for n in range(BATCHES) for pipeline in ("p", "q", "q")]
        told.log.append_many(BATCHES_TOPIC, [each.to_record() for each in made])
        yield log


def _batch(pipeline: str, number: int) -> FinishedBatch:
    ends = [Position({tp: at * STEP}) for tp in (IN, OUT) for at in (number, number + 1)]
    return FinishedBatch(pipeline, number, *ends, ("in",), ("out",))


def took(log: Log, offset: int, near_ms: int | None = None, **options: int) -> FoundBatch | None:
    wanted = Position({IN: offset + 1})
    return BatchHistory(log, "p", **options).find(lambda source, _: source.covers(wanted), near_ms)


@pytest.mark.parametrize("offset", [0, 9, 10, 4_711, STEP * BATCHES - 1])
@pytest.mark.parametrize("near_ms", [None, 1, 4_000_000_000_000])
def test_the_micro_batch_of_an_offset_is_found_from_any_time(history: Log, offset: int, near_ms: int | None) -> None:
    found = took(history, offset, near_ms)
    assert found is not None
    assert (found.batch.batch_id, found.is_exact) == (offset // STEP, True)


def test_an_offset_that_no_micro_batch_has_taken_has_none(history: Log) -> None:
    assert took(history, STEP * BATCHES) is None
    assert BatchHistory(history, "unknown").find(lambda *_: True) is None


def test_the_one_that_wrote_an_offset_is_found(history: Log) -> None:
    found = BatchHistory(history, "p").find(lambda _, sink: sink.get(OUT, 0) > 12_345)
    assert found is not None
    assert found.batch.batch_id == 1_234


def test_a_search_is_bounded_and_says_so(history: Log) -> None:
    search = BatchHistory(history, "p", read_max=20)
    assert search.find(lambda source, _: source.covers(Position({IN: 4_711})), 1) is None
    assert search.gave_up


def test_a_missing_micro_batch_is_said(mainstem_log: Log) -> None:
    told = ToldLog(mainstem_log)
    told.batch("gap", 0, ("", "in/0:10"), ("", "out/0:3"))
    told.batch("gap", 2, ("in/0:20", "in/0:30"), ("out/0:5", "out/0:6"))
    search = BatchHistory(mainstem_log, "gap")
    found = search.find(lambda source, _: source.covers(Position({IN: 15})))
    assert found is not None
    assert (found.batch.batch_id, found.is_exact, found.is_oldest) == (2, False, False)


def test_what_is_older_than_the_oldest_one_is_said(mainstem_log: Log) -> None:
    told = ToldLog(mainstem_log)
    told.batch("old", 7, ("in/0:20", "in/0:30"), ("out/0:5", "out/0:6"))
    found = BatchHistory(mainstem_log, "old").find(lambda source, _: source.covers(Position({IN: 15})))
    assert found is not None
    assert (found.is_exact, found.is_oldest) == (False, True)


def test_of_a_micro_batch_that_ran_again_the_first_counts(mainstem_log: Log) -> None:
    told = ToldLog(mainstem_log)
    for time_ms in (1_000, 2_000):
        told.batch("again", 0, ("", "in/0:10"), ("", "out/0:3"), time_ms)
    found = BatchHistory(mainstem_log, "again").find(lambda source, _: source.covers(Position({IN: 5})))
    assert found is not None
    assert found.ended_ms == 1_000


def test_a_log_that_knows_no_micro_batches_has_none() -> None:
    with EmbeddedBroker() as broker, Log(broker.bootstrap, timeout_s=10.0) as log:
        assert BatchHistory(log, "p").find(lambda *_: True) is None


def test_a_record_of_a_micro_batch_comes_back_as_it_was() -> None:
    ends = [Position.parse(text) for text in ("in/0:1,in/1:4", "in/0:3,in/1:4,in/2:2", "", "out/0:7")]
    told = FinishedBatch("p", 3, *ends, ("in",), ("out",))
    key, value = told.to_record()
    read = FinishedBatch.from_record(Record(BATCHES_TOPIC, 0, 0, 0, key, value))
    assert read is not None
    assert read.source_from == ends[0] | Position.parse("in/2:0")
    assert (read.source_to, read.sink_to, read.batch_id) == (ends[1], ends[3], 3)
    assert FinishedBatch.from_record(Record(BATCHES_TOPIC, 0, 0, 0, b"p", None)) is None
    with pytest.raises(SchemaError, match="not a finished micro-batch"):
        FinishedBatch.from_record(Record(BATCHES_TOPIC, 0, 0, 0, b"p", b"{}"))


def test_the_page_shows_a_record_of_a_micro_batch() -> None:
    [block] = (block for block in blocks_of(ROOT / "docs/internals/spark.md") if block.language == "json")
    read = FinishedBatch.from_record(Record(BATCHES_TOPIC, 0, 0, 0, b"late-flights", block.text.encode()))
    assert read is not None
    _, value = read.to_record()
    assert json.loads(value) == json.loads(block.text)
