from __future__ import annotations

import uuid
from typing import Any, cast

import pytest

from mainstem.errors import LogUnavailableError, UnknownTopicError, ViewStoppedError
from mainstem.model import Position, TopicPartition
from mainstem.record.constants import ControlType
from mainstem.record.reader import AbortedTransaction
from mainstem.record.writer import NewRecord, ProducerStamp, build_batch, build_control_batch
from mainstem.testing.clock import ManualClock
from mainstem.views.feed.feed import Feed, LossPolicy
from mainstem.views.stores.store import Bookmark
from tests.views.fake_log import TOPIC, FakeLog

P0, P1 = TopicPartition(TOPIC, 0), TopicPartition(TOPIC, 1)


def batch(first: int, count: int = 1, *, epoch: int = 0, producer: ProducerStamp | None = None) -> bytes:
    records = [NewRecord(b"k%d" % n, b"{}") for n in range(first, first + count)]
    return build_batch(records, base_offset=first, leader_epoch=epoch, producer=producer)


def marker_batch(kind: ControlType, offset: int) -> bytes:
    return build_control_batch(kind, producer_id=7, producer_epoch=0, timestamp_ms=1, base_offset=offset)


def feed(log: FakeLog, bookmark: Bookmark | None = None, until: Position | None = None, **more: Any) -> Feed:
    return Feed(cast(Any, log), TOPIC, bookmark or Bookmark(), until, **more)


def offsets(step: Any) -> list[int]:
    found: list[int] = step.arrow_batch.column("offset").to_pylist()
    return found


def test_a_step_brings_the_records_and_the_bookmark_behind_them() -> None:
    step = feed(FakeLog({0: [batch(0, 3, epoch=4)]})).step(0)
    assert step is not None
    assert offsets(step) == [0, 1, 2]
    assert step.bookmark == Bookmark(Position({P0: 3}), {TOPIC: str(uuid.UUID(int=1))}, {P0: 4})


def test_nothing_new_is_no_step() -> None:
    reading = feed(FakeLog({0: [batch(0)]}))
    assert reading.step(0) is not None
    assert reading.step(0) is None


def test_the_position_passes_markers_and_aborted_records() -> None:
    stamp = ProducerStamp(7, 0, 0, is_transactional=True)
    marker = marker_batch(ControlType.ABORT, 3)
    log = FakeLog({0: [batch(0), batch(1, 2, producer=stamp), marker]}, aborted=(AbortedTransaction(7, 1),))
    step = feed(log).step(0)
    assert step is not None
    assert (offsets(step), step.bookmark.position) == ([0], Position({P0: 4}))


def test_the_position_passes_a_step_that_holds_no_record_at_all() -> None:
    marker = marker_batch(ControlType.COMMIT, 0)
    step = feed(FakeLog({0: [marker]})).step(0)
    assert step is not None
    assert (offsets(step), step.bookmark.position) == ([], Position({P0: 1}))


def test_the_position_passes_gaps() -> None:
    step = feed(FakeLog({0: [batch(2), batch(9)]})).step(0)
    assert step is not None
    assert (offsets(step), step.bookmark.position) == ([2, 9], Position({P0: 10}))


def test_a_state_is_exact_until_a_gap_and_again_where_the_log_then_ended() -> None:
    log = FakeLog({0: [batch(0, 2), batch(5), batch(6), batch(7)]}, fetch_bytes=len(batch(0, 2)))
    reading = feed(log)
    exact = [step.bookmark.is_exact for step in (reading.step(0) for _ in range(4)) if step]
    assert exact == [True, False, False, True]
    assert reading.has_met_gap


def test_reading_goes_on_at_the_bookmark_inside_of_a_batch() -> None:
    step = feed(FakeLog({0: [batch(0, 5)]}), Bookmark(Position({P0: 3}))).step(0)
    assert step is not None
    assert offsets(step) == [3, 4]


def test_until_ends_the_feed_exactly_there() -> None:
    reading = feed(FakeLog({0: [batch(0, 5)], 1: [batch(0, 5)]}), until=Position({P0: 2}))
    step = reading.step(0)
    assert step is not None
    assert (offsets(step), reading.is_at_end, reading.step(0)) == ([0, 1], True, None)


def test_partitions_take_turns() -> None:
    one = len(batch(0))
    log = FakeLog({0: [batch(n) for n in range(3)], 1: [batch(n) for n in range(3)]}, fetch_bytes=one)
    reading = feed(log)
    steps = [reading.step(0) for _ in range(6)]
    assert [step.arrow_batch.column("partition")[0].as_py() for step in steps if step] == [0, 1, 0, 1, 0, 1]


def test_the_lag_is_what_lies_behind_the_last_step() -> None:
    reading = feed(FakeLog({0: [batch(0), batch(1, 9)]}, fetch_bytes=len(batch(0))))
    assert reading.lag == 10
    reading.step(0)
    assert reading.lag == 9


def test_a_feed_begins_where_the_log_begins() -> None:
    reading = feed(FakeLog({0: [batch(5)]}, starts={0: 5}))
    assert reading.beginning == Position({P0: 5})
    step = reading.step(0)
    assert step is not None
    assert offsets(step) == [5]


def test_new_partitions_are_taken_up_after_a_while() -> None:
    clock = ManualClock()
    log = FakeLog({0: [batch(0)]})
    reading = feed(log, clock=clock)
    reading.step(0)
    log.partitions[1] = [batch(0)]
    assert reading.step(0) is None
    clock.advance(60_000)
    step = reading.step(0)
    assert step is not None
    assert step.bookmark.position == Position({P0: 1, P1: 1})


def test_a_log_that_was_away_is_read_on_where_it_was() -> None:
    log = FakeLog({0: [batch(0), batch(1)]}, fetch_bytes=len(batch(0)))
    reading = feed(log)
    reading.step(0)
    log.fails = 1
    with pytest.raises(LogUnavailableError):
        reading.step(0)
    step = reading.step(0)
    assert step is not None
    assert offsets(step) == [1]


# ---- what ends a view


def test_a_topic_that_is_not_there_is_unknown_and_one_that_was_is_deleted() -> None:
    with pytest.raises(UnknownTopicError):
        feed(FakeLog(exists=False))
    with pytest.raises(ViewStoppedError, match="was deleted"):
        feed(FakeLog(exists=False), Bookmark(Position(), {TOPIC: "some id"}))


def test_a_topic_that_was_made_again_stops_the_view() -> None:
    with pytest.raises(ViewStoppedError, match="recreated"):
        feed(FakeLog(topic_id=uuid.UUID(int=2)), Bookmark(Position({P0: 1}), {TOPIC: str(uuid.UUID(int=1))}))


def test_a_topic_that_was_made_again_while_the_log_was_away_is_not_read_at_the_old_offsets() -> None:
    log = FakeLog({0: [batch(0), batch(1)]}, fetch_bytes=len(batch(0)))
    reading = feed(log)
    assert offsets(reading.step(0)) == [0]
    log.topic_id = uuid.UUID(int=2)
    with pytest.raises(ViewStoppedError, match="recreated"):
        reading.step(0)
    assert reading.bookmark.position == Position({P0: 1})


def test_a_new_partition_that_has_lost_its_beginning_stops_the_view() -> None:
    log = FakeLog({0: [batch(0)], 1: [batch(5)]}, starts={1: 5})
    with pytest.raises(ViewStoppedError, match="removed offsets 0 to 4 of t/1"):
        feed(log, Bookmark(Position({P0: 1})))
    assert feed(log).beginning == Position({P0: 0, P1: 5})
    assert feed(log, Bookmark(Position({P0: 1})), until=Position({P0: 1})).is_at_end


DAY_MS = 86_400_000


def resumed(behind_ms: int, log: FakeLog) -> Feed:
    """A feed of a bookmark at offset 1 that was at the log's end so long ago."""
    clock = ManualClock()
    bookmark = Bookmark(Position({P0: 1}), caught_up_ms=clock.time_ms() - behind_ms)
    return feed(
        log, Bookmark.from_text(bookmark.to_text()), clock=clock, losses=LossPolicy(fail_on_missed_tombstones=True)
    )


@pytest.mark.parametrize("retention_ms", [DAY_MS, 1_000, None])
def test_a_gap_that_may_hide_a_deletion_stops_a_view_that_was_away_too_long(retention_ms: int | None) -> None:
    log = FakeLog({0: [batch(3)]}, delete_retention_ms=retention_ms)
    away_ms = DAY_MS if retention_ms is None else retention_ms
    with pytest.raises(ViewStoppedError, match=r"perhaps, deletions.*rebuild"):
        resumed(away_ms, log).step(0)
    assert offsets(resumed(away_ms - 1, log).step(0)) == [3]


def test_a_view_that_was_away_too_long_goes_on_where_nothing_is_gone() -> None:
    assert offsets(resumed(DAY_MS, FakeLog({0: [batch(0), batch(1)]})).step(0)) == [1]


def test_a_view_that_stood_at_the_end_when_it_came_back_has_missed_nothing() -> None:
    reading = resumed(9 * DAY_MS, log := FakeLog({0: [batch(0)]}))
    log.partitions[0].append(batch(3))
    assert offsets(reading.step(0)) == [3]


def test_a_view_that_falls_behind_while_it_runs_stops_as_well() -> None:
    clock = ManualClock()
    log = FakeLog({0: [batch(0), batch(1), batch(2), batch(3)]}, fetch_bytes=len(batch(0)))
    reading = feed(log, clock=clock, losses=LossPolicy(fail_on_missed_tombstones=True))
    while reading.step(0):
        clock.advance(10_000)
    log.partitions[0] += [batch(6), batch(9)]
    assert offsets(reading.step(0)) == [6]
    clock.advance(DAY_MS)
    with pytest.raises(ViewStoppedError, match="perhaps, deletions"):
        reading.step(0)


def test_the_first_reading_of_a_topic_may_take_its_time() -> None:
    clock = ManualClock()
    log = FakeLog({0: [batch(2), batch(4), batch(6)]}, fetch_bytes=len(batch(2)))
    reading = feed(log, clock=clock, losses=LossPolicy(fail_on_missed_tombstones=True))
    for offset in (2, 4, 6):
        assert offsets(reading.step(0)) == [offset]
        clock.advance(DAY_MS)


def test_history_that_was_removed_unread_stops_the_view() -> None:
    reading = feed(FakeLog({0: [batch(5)]}, starts={0: 5}), Bookmark(Position({P0: 2})))
    with pytest.raises(ViewStoppedError, match=r"removed offsets 2 to 4 .* rebuild"):
        reading.step(0)


def test_a_log_that_ends_before_the_position_stops_the_view() -> None:
    reading = feed(FakeLog({0: [batch(0, 3)]}), Bookmark(Position({P0: 8})))
    with pytest.raises(ViewStoppedError, match="goes to 3, but the view had read up to 8"):
        reading.step(0)


def test_a_tail_that_was_lost_and_overwritten_stops_the_view() -> None:
    log = FakeLog({0: [batch(0, 9, epoch=2)]}, epoch_ends={1: 3})
    with pytest.raises(ViewStoppedError, match="lost the end of t/0: it goes to 3 where the view had read up to 5"):
        feed(log, Bookmark(Position({P0: 5}), {}, {P0: 1}))


def test_a_tail_that_is_lost_while_the_view_runs_stops_it_too() -> None:
    log = FakeLog({0: [batch(0, 5, epoch=1)]})
    reading = feed(log)
    reading.step(0)
    log.partitions[0] = [batch(0, 3, epoch=1), batch(3, 6, epoch=2)]
    log.epoch_ends[1] = 3
    with pytest.raises(ViewStoppedError, match="lost the end"):
        reading.step(0)


def test_a_new_leader_that_lost_nothing_is_read_on_from() -> None:
    log = FakeLog({0: [batch(0, 5, epoch=1)]})
    reading = feed(log)
    reading.step(0)
    log.partitions[0].append(batch(5, 2, epoch=2))
    log.epoch_ends[1] = 5
    step = reading.step(0)
    assert step is not None
    assert (offsets(step), step.bookmark.leader_epochs) == ([5, 6], {P0: 2})


def test_a_damaged_batch_stops_the_view_behind_what_is_whole() -> None:
    damaged = bytearray(batch(1))
    damaged[-1] ^= 1
    reading = feed(FakeLog({0: [batch(0), bytes(damaged)]}))
    step = reading.step(0)
    assert step is not None
    assert offsets(step) == [0]
    with pytest.raises(ViewStoppedError, match=r"t/0:1-1 cannot be read: .*checksum"):
        reading.step(0)


class ValuesOfAnAbsentRegistry:
    """Encoded values whose schemas cannot be looked up the first ``fails`` times."""

    fails = 1

    def as_json(self, arrow_batch: Any) -> Any:
        if self.fails:
            self.fails -= 1
            raise LogUnavailableError("the schemas cannot be read")
        return arrow_batch


def test_records_whose_schema_cannot_be_looked_up_come_with_the_next_step() -> None:
    log = FakeLog({0: [batch(0, 3)]})
    reading = feed(log).reading(cast(Any, ValuesOfAnAbsentRegistry()))
    with pytest.raises(LogUnavailableError, match="schemas"):
        reading.step(0)
    log.partitions[0].append(batch(3))
    steps = [reading.step(0), reading.step(0)]
    assert [offsets(step) for step in steps if step is not None] == [[0, 1, 2], [3]]
