"""Finding records by time: exactly, to the record, not to the batch. Functions over a partition's segments.

The time index leads to the first batch that can hold the record; only that batch is decoded. Raises CorruptBatchError
when damage lies where the answer would be: a wrong answer is none.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from mainstem.log.segment import BatchPlace, Segment
from mainstem.record.constants import NO_TIMESTAMP
from mainstem.record.reader import read_records


class TimestampOffset(NamedTuple):
    """A record by its offset, with its timestamp and the leader epoch that wrote it."""

    offset: int
    timestamp_ms: int
    leader_epoch: int


def search_timestamp(
    segments: Sequence[Segment], timestamp_ms: int, start_offset: int, end_offset: int
) -> TimestampOffset | None:
    """The first record in [start, end) with at least this timestamp."""
    for segment in segments:
        if segment.base_offset >= end_offset:
            return None
        if not segment.may_have_timestamp(timestamp_ms):
            continue
        for place in segment.locate_timestamp(timestamp_ms):
            if place.header.base_offset >= end_offset:
                return None
            found = _first_in_batch(segment, place, timestamp_ms, start_offset)
            if found is not None:
                return found
    return None


def greatest_timestamp(
    segments: Sequence[Segment], last_segment: Segment, last_position: int, start_offset: int
) -> TimestampOffset | None:
    """The first record that has the greatest timestamp of all before (``last_segment``, ``last_position``)."""
    best, best_segment, best_offset = NO_TIMESTAMP, None, -1
    for segment in segments:
        end = last_position if segment is last_segment else segment.size_bytes
        timestamp_ms, batch_last_offset = segment.greatest_timestamp(end)
        if timestamp_ms > best and batch_last_offset >= start_offset:
            best, best_segment, best_offset = timestamp_ms, segment, batch_last_offset
        if segment is last_segment:
            break
    if best_segment is None:
        return None
    place = best_segment.locate(best_offset)
    return _first_in_batch(best_segment, place, best, start_offset) if place is not None else None


def _first_in_batch(
    segment: Segment, place: BatchPlace, timestamp_ms: int, start_offset: int
) -> TimestampOffset | None:
    for record in read_records(segment.read_batch(place)):
        if record.timestamp_ms >= timestamp_ms and record.offset >= start_offset:
            return TimestampOffset(record.offset, record.timestamp_ms, place.header.leader_epoch)
    return None
