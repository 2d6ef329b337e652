"""Filters of a batch read that Spark hands down: offsets, times, partitions and topics that need not be read at all.

Only offsets are left out where no record can pass a filter. Spark applies every filter again to the rows that are read,
so a filter that is not understood here costs time, and nothing else.

Of the bounds on time only the lower one narrows the read. The log knows the first record at or after a time, so no
record before it can pass. An upper bound narrows nothing: a record with an earlier time may follow, because writers
choose their times, and the clock of ``LogAppendTime`` may be set back.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from pyspark.sql import datasource

from mainstem.client.wire.cluster.cluster import Isolation, WireClient
from mainstem.model import Position, TopicPartition

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_OFFSET_MAX = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Narrowing:
    """The offsets [``offset_min``, ``offset_end``) of some partitions (None: all), of records from a time on."""

    offset_min: int = 0
    offset_end: int = _OFFSET_MAX
    time_ms_min: int | None = None
    partitions: frozenset[int] | None = None
    topics: frozenset[str] | None = None

    def takes(self, tp: TopicPartition) -> bool:
        is_topic = self.topics is None or tp.topic in self.topics
        return is_topic and (self.partitions is None or tp.partition in self.partitions)


def narrowing(filters: Iterable[datasource.Filter], columns: Mapping[str, str]) -> Narrowing:
    """The limits that all filters together set. ``columns``: a DataFrame's column → the record's column that it is."""
    result = Narrowing()
    for each in filters:
        attribute: tuple[str, ...] = getattr(each, "attribute", ())
        column = columns.get(attribute[0]) if len(attribute) == 1 else None
        if column == "offset":
            result = _by_offset(result, each)
        elif column == "timestamp":
            result = _by_time(result, each)
        elif column == "partition":
            result = replace(result, partitions=_both(result.partitions, _values(each, int)))
        elif column == "topic":
            result = replace(result, topics=_both(result.topics, _values(each, str)))
    return result


def narrowed(
    client: WireClient, start: Position, end: Position, wanted: Narrowing, isolation: Isolation
) -> tuple[Position, Position]:
    """The start and the end of each partition that has anything left to read.

    Call it when ``end`` is known: then a record that is appended meanwhile is not before ``end``.
    """
    starts, ends = {}, {}
    for tp in end:
        first, last = max(start[tp], wanted.offset_min), min(end[tp], wanted.offset_end)
        if wanted.takes(tp) and first < last:
            starts[tp], ends[tp] = first, last
    if wanted.time_ms_min is not None and starts:
        since = client.list_offsets(starts, wanted.time_ms_min, isolation)
        starts = {tp: max(offset, since[tp]) for tp, offset in starts.items() if since.get(tp, _OFFSET_MAX) < ends[tp]}
    return Position(starts), Position({tp: ends[tp] for tp in starts})


def _by_offset(result: Narrowing, each: datasource.Filter) -> Narrowing:
    values = _values(each, int)
    if values is not None:
        least, most = min(values, default=_OFFSET_MAX), max(values, default=-1)
        return _within(result, least, most + 1)
    value = getattr(each, "value", None)
    if not isinstance(value, int):
        return result
    if isinstance(each, datasource.GreaterThan | datasource.GreaterThanOrEqual):
        return _within(result, value + isinstance(each, datasource.GreaterThan), _OFFSET_MAX)
    if isinstance(each, datasource.LessThan | datasource.LessThanOrEqual):
        return _within(result, 0, value + isinstance(each, datasource.LessThanOrEqual))
    return result


def _within(result: Narrowing, least: int, end: int) -> Narrowing:
    return replace(result, offset_min=max(result.offset_min, least), offset_end=min(result.offset_end, end))


def _by_time(result: Narrowing, each: datasource.Filter) -> Narrowing:
    times = _values(each, datetime.datetime)
    if times is None:
        value = getattr(each, "value", None)
        is_lower = isinstance(each, datasource.GreaterThan | datasource.GreaterThanOrEqual)
        times = frozenset([value]) if is_lower and isinstance(value, datetime.datetime) else frozenset()
    if not times or any(time.tzinfo is None for time in times):  # which moment a local time means, the log cannot know
        return result
    milliseconds = min((time - _EPOCH) // datetime.timedelta(milliseconds=1) for time in times)
    if milliseconds <= 0:  # to the log, these numbers mean other things than times
        return result
    return replace(result, time_ms_min=max(milliseconds, result.time_ms_min or 0))


def _values(each: datasource.Filter, kind: type) -> frozenset | None:  # type: ignore[type-arg]
    """The values one of which the column has to have; None when the filter says no such thing."""
    if isinstance(each, datasource.EqualTo | datasource.EqualNullSafe):
        values: tuple[object, ...] = (each.value,)
    elif isinstance(each, datasource.In):
        values = tuple(value for value in each.value if value is not None)
    else:
        return None
    return frozenset(values) if all(type(value) is kind for value in values) else None


def _both(known: frozenset | None, more: frozenset | None) -> frozenset | None:  # type: ignore[type-arg]
    if known is None or more is None:
        return more if known is None else known
    return known & more
