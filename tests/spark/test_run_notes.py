"""The entries of pipelines' logs: in order, bounded, and never in the way of a run."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from mainstem.client.log import Log
from mainstem.pipelines.control.run_log import (
    ENTRIES_MAX,
    ENTRY_BYTES_MAX,
    PLAN_BYTES_MAX,
    RUN_LOG_TOPIC,
    RunEvent,
    RunLogs,
    keys_of,
)
from mainstem.pipelines.control.run_notes import RunNotes
from mainstem.spark.queries.query_plan import first_lines, plan_of
from mainstem.testing.clock import ManualClock
from mainstem.testing.embedded import EmbeddedBroker


@pytest.fixture
def log() -> Iterator[Log]:
    with EmbeddedBroker() as broker, Log(broker.bootstrap, timeout_s=10.0) as log:
        log.create_topic(RUN_LOG_TOPIC, partitions=1)
        yield log


def test_a_new_run_goes_on_with_the_ring_and_the_oldest_entries_go(log: Log) -> None:
    clock = ManualClock()
    for _ in range(3):
        notes = RunNotes(clock)
        for _ in range(ENTRIES_MAX // 2):
            clock.advance(1)
            notes.note("p", RunEvent.STARTED)
        notes.note("q", RunEvent.PAUSED)
        notes.flush(log)
    logs = RunLogs(log)
    numbers = [entry.number for entry in logs.entries("p")]
    assert numbers == list(range(3 * ENTRIES_MAX // 2 - 1, ENTRIES_MAX // 2 - 1, -1))
    assert [entry.number for entry in logs.entries("q")] == [2, 1, 0]
    assert len(keys_of(log, "p")) == ENTRIES_MAX


def test_long_texts_are_cut(log: Log) -> None:
    notes = RunNotes(ManualClock())
    notes.note("p", RunEvent.FAILED, "ü" * ENTRY_BYTES_MAX)
    notes.plan("p", 3, "é" * PLAN_BYTES_MAX)
    notes.flush(log)
    logs = RunLogs(log)
    plan = logs.plan("p")
    assert plan is not None
    for text, most in ((logs.entries("p")[0].text, ENTRY_BYTES_MAX), (plan.text, PLAN_BYTES_MAX)):
        assert most - 4 < len(text.encode()) <= most
        assert text.endswith("… (cut)")
    assert len(first_lines("\n\n".join(map(str, range(1_000)))).splitlines()) == 30


def test_each_part_of_a_plan_is_cut_by_itself_and_shows_no_secret() -> None:
    long = "x" * PLAN_BYTES_MAX
    said = f"== Parsed Logical Plan ==\nno\n\n== Optimized Logical Plan ==\n{long}\n\n== Physical Plan ==\n"
    said += "Scan [sasl.password=hunter2, topic=flights]"
    text = plan_of(SimpleNamespace(_jsq=SimpleNamespace(explainInternal=lambda _: said))) or ""  # type: ignore[arg-type]
    assert text.startswith("== Optimized Logical Plan ==\nxxx")
    assert text.endswith("== Physical Plan ==\nScan [sasl.password=…, topic=flights]")
    assert len(text.encode()) <= PLAN_BYTES_MAX


def test_entries_wait_while_the_log_or_the_topic_is_away_and_refused_ones_are_left_out(log: Log) -> None:
    notes = RunNotes(ManualClock())
    notes.note("p", RunEvent.STARTED)
    with Log("127.0.0.1:1", timeout_s=0.2) as away:
        notes.flush(away)
    notes.flush(log)
    notes.flush(log)
    assert [entry.event for entry in RunLogs(log).entries("p")] == ["started"]
    log.delete_topic(RUN_LOG_TOPIC)
    notes.note("p", RunEvent.FAILED)
    notes.flush(log)
    log.create_topic(RUN_LOG_TOPIC, partitions=1, configs={"max.message.bytes": "1000"})
    notes.flush(log)
    assert [entry.event for entry in RunLogs(log).entries("p")] == ["failed"]
    notes.note("p", RunEvent.FAILED, "x" * 2_000)
    notes.flush(log)
    notes.note("p", RunEvent.STOPPED)
    notes.flush(log)
    assert [entry.event for entry in RunLogs(log).entries("p")] == ["stopped", "failed"]


def test_a_reader_keeps_what_was_written_last_and_follows_a_topic_that_was_made_again(log: Log) -> None:
    logs = RunLogs(log, kept_bytes_max=12_000)
    notes = RunNotes(ManualClock())
    for number in range(20):
        notes.note("p", RunEvent.FAILED, f"{number} " + "x" * 1_000)
    notes.flush(log)
    assert [entry.number for entry in logs.entries("p")] == list(range(19, 11, -1))
    log.delete_topic(RUN_LOG_TOPIC)
    assert logs.entries() == []
    log.create_topic(RUN_LOG_TOPIC, partitions=1)
    log.append(RUN_LOG_TOPIC, b"no entry", key="p/log/000")
    again = RunNotes(ManualClock())
    again.note("p", RunEvent.STARTED)
    again.flush(log)
    assert [entry.event for entry in logs.entries("p")] == ["started"]
    log.append(RUN_LOG_TOPIC, None, key="p/log/000")
    assert logs.entries("p") == []
